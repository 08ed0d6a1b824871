/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets on the wire, little-endian:
 *
 *   u32 magic "LNTK"  u8 version  u8 flags (1: shareable)  u16 bytes, all
 *   u64 key  u64 base  u64 length  u32 rights  u16 card length  card
 *   u32 checksum of everything before (XXH3, low 32 bits)
 *
 * The checksum finds damage, not malice: what a ticket may do is checked by
 * the owner against its own table.
 */
#include "mem/mem.h"

#include <lune/mem.h>

#define TICKET_MAGIC 0x4b544e4cu
#define TICKET_VERSION 1
#define FLAG_SHAREABLE 1

int ln_ticket_pack(const struct ln_ticket *t, void *out, size_t cap,
		   size_t *bytes)
{
	struct ln_pack k = { .p = out, .cap = cap };
	size_t all = 4 + 1 + 1 + 2 + 8 * 3 + 4 + 2 + t->card_len + 4;

	ln_pack_u32(&k, TICKET_MAGIC);
	ln_pack_u8(&k, TICKET_VERSION);
	ln_pack_u8(&k, t->shareable ? FLAG_SHAREABLE : 0);
	ln_pack_u16(&k, (uint16_t)all);
	ln_pack_u64(&k, t->key);
	ln_pack_u64(&k, t->base);
	ln_pack_u64(&k, t->bytes);
	ln_pack_u32(&k, t->rights);
	ln_pack_u16(&k, t->card_len);
	ln_pack_bytes(&k, t->card, t->card_len);
	if (!k.bad)
		ln_pack_u32(&k, ln_checksum32(out, k.len));
	if (k.bad)
		return ln_error(LUNE_ERR_LIMIT,
				"a ticket needs %zu bytes, %zu were given", all,
				cap);
	*bytes = k.len;
	return LUNE_OK;
}

static int bad_ticket(const char *why)
{
	return ln_error(LUNE_ERR_INVAL, "not a usable ticket: %s", why);
}

int ln_ticket_unpack(const void *p, size_t bytes, struct ln_ticket *out)
{
	struct ln_unpack u = { .p = p, .len = bytes };
	struct ln_ticket t;
	uint8_t version, flags;
	uint32_t sum;
	uint16_t all;

	memset(&t, 0, sizeof(t));
	if (bytes > LUNE_TICKET_MAX)
		return bad_ticket("too long");
	if (ln_unpack_u32(&u) != TICKET_MAGIC)
		return bad_ticket("wrong magic");
	version = ln_unpack_u8(&u);
	flags = ln_unpack_u8(&u);
	all = ln_unpack_u16(&u);
	if (u.bad || all != bytes)
		return bad_ticket("cut short");
	if (version != TICKET_VERSION)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"the ticket has version %u, this library knows "
				"%u", version, TICKET_VERSION);
	t.key = ln_unpack_u64(&u);
	t.base = ln_unpack_u64(&u);
	t.bytes = ln_unpack_u64(&u);
	t.rights = ln_unpack_u32(&u);
	t.card_len = ln_unpack_u16(&u);
	if (u.bad || t.card_len > sizeof(t.card))
		return bad_ticket("cut short");
	ln_unpack_bytes(&u, t.card, t.card_len);
	sum = ln_unpack_u32(&u);
	if (u.bad || u.pos != bytes || sum != ln_checksum32(p, bytes - 4))
		return bad_ticket("damaged");
	if (!t.bytes || t.base + t.bytes < t.base || !(t.key >> 32 & 1) ||
	    !t.rights || (t.rights & ~(uint32_t)LUNE_MEM_ALL))
		return bad_ticket("impossible values");
	t.shareable = flags & FLAG_SHAREABLE;
	*out = t;
	return LUNE_OK;
}
