/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the rendezvous, packed and unpacked.
 */
#include "boot/rendezvous.h"

void ln_rdv_hello_pack(struct ln_pack *k, const struct ln_rdv_hello *h)
{
	ln_pack_u32(k, h->rank);
	ln_pack_u32(k, h->size);
	ln_pack_u64(k, h->epoch);
	ln_pack_u8(k, h->keyed);
	ln_pack_bytes(k, h->nonce, sizeof(h->nonce));
	ln_pack_str(k, h->job);
}

void ln_rdv_hello_unpack(struct ln_unpack *u, struct ln_rdv_hello *h)
{
	memset(h, 0, sizeof(*h));
	h->rank = ln_unpack_u32(u);
	h->size = ln_unpack_u32(u);
	h->epoch = ln_unpack_u64(u);
	h->keyed = ln_unpack_u8(u);
	ln_unpack_bytes(u, h->nonce, sizeof(h->nonce));
	ln_unpack_str(u, h->job, sizeof(h->job));
}

void ln_rdv_head_pack(struct ln_pack *k, int type, uint32_t len)
{
	ln_pack_u32(k, LN_RDV_MAGIC);
	ln_pack_u8(k, LN_RDV_VERSION);
	ln_pack_u8(k, (uint8_t)type);
	ln_pack_u16(k, 0);
	ln_pack_u32(k, len);
}

bool ln_rdv_head_unpack(const uint8_t head[LN_RDV_HEAD], int *type,
			uint32_t *len)
{
	struct ln_unpack u = { .p = head, .len = LN_RDV_HEAD };
	bool good = ln_unpack_u32(&u) == LN_RDV_MAGIC;

	good = ln_unpack_u8(&u) == LN_RDV_VERSION && good;
	*type = ln_unpack_u8(&u);
	good = !ln_unpack_u16(&u) && good;
	*len = ln_unpack_u32(&u);
	return good && !u.bad;
}

size_t ln_rdv_frame(uint8_t *buf, size_t cap, int type, const void *payload,
		    size_t len)
{
	struct ln_pack k = { .p = buf, .cap = cap };

	ln_rdv_head_pack(&k, type, (uint32_t)len);
	ln_pack_bytes(&k, payload, len);
	return k.bad ? 0 : k.len;
}

void ln_rdv_proof(const uint8_t key[LN_KEY_BYTES], const char *side,
		  const struct ln_rdv_hello *h,
		  const uint8_t nonce[LN_RDV_NONCE],
		  uint8_t mac[LN_MAC_BYTES])
{
	uint8_t buf[512];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };

	ln_pack_str(&k, "lune rendezvous 1");
	ln_pack_str(&k, side);
	ln_rdv_hello_pack(&k, h);
	ln_pack_bytes(&k, nonce, LN_RDV_NONCE);
	ln_hmac(key, buf, k.len, mac);
}
