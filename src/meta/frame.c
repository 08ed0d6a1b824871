/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the embedded server: see frame.h for the layout.  Everything a
 * frame says about lengths is checked before it is believed; what the numbers
 * mean is for the reader of the frame to check.
 */
#include "meta/frame.h"

int ln_meta_frame_parse(const uint8_t *p, size_t n, size_t max,
			struct ln_meta_frame *out)
{
	struct ln_unpack u = { .p = p, .len = n };
	struct ln_meta_frame f = { 0 };
	size_t size;

	if (n < 4)
		return 0;
	size = ln_unpack_u32(&u);
	if (size < LN_META_FRAME_HEAD - 4 || size > max - 4 ||
	    max > LN_META_FRAME_MAX)
		return LUNE_ERR_PROTO;
	if (n < LN_META_FRAME_HEAD)
		return 0;
	f.type = ln_unpack_u8(&u);
	f.flag = ln_unpack_u8(&u);
	f.key_len = ln_unpack_u16(&u);
	f.value_len = ln_unpack_u32(&u);
	f.a = ln_unpack_u64(&u);
	f.b = ln_unpack_u64(&u);
	f.c = ln_unpack_u64(&u);
	if (!f.type || f.type >= LN_META_TYPES || f.flag > 1 ||
	    f.key_len > LN_META_KEY_MAX || f.value_len > LN_META_VALUE_MAX ||
	    size != LN_META_FRAME_HEAD - 4 + f.key_len + f.value_len)
		return LUNE_ERR_PROTO;
	if (n < size + 4)
		return 0;
	f.key = (const char *)p + LN_META_FRAME_HEAD;
	f.value = p + LN_META_FRAME_HEAD + f.key_len;
	if (memchr(f.key, 0, f.key_len))
		return LUNE_ERR_PROTO;
	*out = f;
	return (int)size + 4;
}

size_t ln_meta_frame_bytes(const struct ln_meta_frame *f)
{
	return LN_META_FRAME_HEAD + f->key_len + f->value_len;
}

void ln_meta_frame_write(const struct ln_meta_frame *f, uint8_t *p)
{
	size_t bytes = ln_meta_frame_bytes(f);
	struct ln_pack k = { .p = p, .cap = bytes };

	ln_pack_u32(&k, (uint32_t)(bytes - 4));
	ln_pack_u8(&k, f->type);
	ln_pack_u8(&k, f->flag);
	ln_pack_u16(&k, (uint16_t)f->key_len);
	ln_pack_u32(&k, (uint32_t)f->value_len);
	ln_pack_u64(&k, f->a);
	ln_pack_u64(&k, f->b);
	ln_pack_u64(&k, f->c);
	if (f->key_len)
		ln_pack_bytes(&k, f->key, f->key_len);
	if (f->value_len)
		ln_pack_bytes(&k, f->value, f->value_len);
}

void ln_meta_frame_proof(const uint8_t key[LN_KEY_BYTES], char from,
			 const uint8_t nonces[2 * LN_META_NONCE_BYTES],
			 uint8_t mac[LN_MAC_BYTES])
{
	uint8_t text[9 + 1 + 2 * LN_META_NONCE_BYTES];

	/* The side is in the text, so that no answer can be sent back. */
	memcpy(text, "lune-meta", 9);
	text[9] = (uint8_t)from;
	memcpy(text + 10, nonces, 2 * LN_META_NONCE_BYTES);
	ln_hmac(key, text, sizeof(text), mac);
}
