/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded little-endian encoding for everything that travels: cards, tickets,
 * frames.  Each step checks the space that is left, so neither a short buffer
 * nor a hostile message can move it past the end; `bad` then sticks.
 *
 * Invariants: len <= cap (writer), pos <= len (reader), always.
 */
#include "base/base.h"

/* The next n bytes of the buffer, or NULL and `bad`. */
static uint8_t *room(struct ln_pack *k, size_t n)
{
	uint8_t *p;

	if (k->bad || n > k->cap - k->len) {
		k->bad = true;
		return NULL;
	}
	p = k->p + k->len;
	k->len += n;
	return p;
}

static const uint8_t *take(struct ln_unpack *u, size_t n)
{
	const uint8_t *p;

	if (u->bad || n > u->len - u->pos) {
		u->bad = true;
		return NULL;
	}
	p = u->p + u->pos;
	u->pos += n;
	return p;
}

static void put_le(struct ln_pack *k, uint64_t v, size_t n)
{
	uint8_t *p = room(k, n);

	for (size_t i = 0; p && i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_le(struct ln_unpack *u, size_t n)
{
	const uint8_t *p = take(u, n);
	uint64_t v = 0;

	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

void ln_pack_u8(struct ln_pack *k, uint8_t v)
{
	put_le(k, v, 1);
}

void ln_pack_u16(struct ln_pack *k, uint16_t v)
{
	put_le(k, v, 2);
}

void ln_pack_u32(struct ln_pack *k, uint32_t v)
{
	put_le(k, v, 4);
}

void ln_pack_u64(struct ln_pack *k, uint64_t v)
{
	put_le(k, v, 8);
}

void ln_pack_bytes(struct ln_pack *k, const void *p, size_t n)
{
	uint8_t *to = room(k, n);

	if (to && n)
		memcpy(to, p, n);
}

void ln_pack_str(struct ln_pack *k, const char *s)
{
	size_t n = strlen(s);

	if (n > UINT16_MAX) {
		k->bad = true;
		return;
	}
	ln_pack_u16(k, (uint16_t)n);
	ln_pack_bytes(k, s, n);
}

uint8_t ln_unpack_u8(struct ln_unpack *u)
{
	return (uint8_t)get_le(u, 1);
}

uint16_t ln_unpack_u16(struct ln_unpack *u)
{
	return (uint16_t)get_le(u, 2);
}

uint32_t ln_unpack_u32(struct ln_unpack *u)
{
	return (uint32_t)get_le(u, 4);
}

uint64_t ln_unpack_u64(struct ln_unpack *u)
{
	return get_le(u, 8);
}

void ln_unpack_bytes(struct ln_unpack *u, void *out, size_t n)
{
	const uint8_t *p = take(u, n);

	if (!n)
		return;
	if (p)
		memcpy(out, p, n);
	else
		memset(out, 0, n);
}

void ln_unpack_str(struct ln_unpack *u, char *out, size_t cap)
{
	size_t n = ln_unpack_u16(u);
	const uint8_t *p;

	if (cap > 0)
		out[0] = '\0';
	if (n >= cap)
		u->bad = true;
	p = take(u, n);
	/* An embedded NUL would make two texts of one: refuse it. */
	if (p && memchr(p, '\0', n)) {
		u->bad = true;
		p = NULL;
	}
	if (!p)
		return;
	memcpy(out, p, n);
	out[n] = '\0';
}
