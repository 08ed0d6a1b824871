/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what goes over every connection, tcp and unix (docs/wire.md).
 *
 *	0  magic u32     16 op u64      48 bytes u64
 *	4  version u8    24 total u64   56 reserved u32 (0)
 *	5  type u8       32 a u64       60 checksum u32 of bytes 0..59
 *	6  flags u16     40 b u64
 *	8  count u32, index u32
 *
 * followed by count descriptors, a signal if flagged, and `bytes` of payload.
 * Little endian.  Pure functions: the fuzzer calls them with anything.  A
 * frame that decodes well has lengths that the receiver may rely on: whatever
 * is not streamed to its destination fits the receive buffer of a stream.
 */
#include <endian.h>

#include "net/internal.h"

static void put16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

void ln_frame_encode(const struct ln_frame *f, uint8_t out[LN_FRAME_BYTES])
{
	put32(out, LN_FRAME_MAGIC);
	out[4] = LN_FRAME_VERSION;
	out[5] = f->type;
	put16(out + 6, f->flags);
	put32(out + 8, f->count);
	put32(out + 12, f->index);
	put64(out + 16, f->op);
	put64(out + 24, f->total);
	put64(out + 32, f->a);
	put64(out + 40, f->b);
	put64(out + 48, f->bytes);
	put32(out + 56, 0);
	put32(out + 60, ln_checksum32(out, 60));
}

/* Payload limits by type: what is kept in the receive buffer is bounded. */
static bool lengths_good(const struct ln_frame *f)
{
	switch (f->type) {
	case LN_FRAME_HELLO:
		return f->bytes <= LN_HELLO_BYTES_MAX && !f->count;
	case LN_FRAME_PROOF:
		return f->bytes == LN_MAC_BYTES && !f->count;
	case LN_FRAME_MSG:
		return f->bytes <= LN_MSG_MAX && !f->count;
	case LN_FRAME_PUT:
		return f->count <= LN_DESCS_MAX && f->bytes <= f->total;
	case LN_FRAME_DATA:
		return !f->count && f->bytes <= f->total;
	case LN_FRAME_ACK:
		return !f->count && f->bytes <= LN_ACKS_MAX * 8 &&
		       f->bytes % 8 == 0;
	case LN_FRAME_GET:
		return f->count >= 1 && f->count <= LN_DESCS_MAX && !f->bytes;
	case LN_FRAME_ATOMIC:
		return f->count == 1 && !f->bytes;
	case LN_FRAME_READY:
	case LN_FRAME_DUP:
	case LN_FRAME_PING:
	case LN_FRAME_PONG:
	case LN_FRAME_BYE:
	case LN_FRAME_STATUS:
		return !f->count && !f->bytes;
	}
	return f->type >= LN_FRAME_USER && f->type < LN_FRAME_TYPES &&
	       !f->count && f->bytes <= LN_USER_BYTES_MAX;
}

int ln_frame_decode(const uint8_t in[LN_FRAME_BYTES], struct ln_frame *out)
{
	struct ln_frame f;

	if (get32(in) != LN_FRAME_MAGIC || in[4] != LN_FRAME_VERSION)
		return ln_error(LUNE_ERR_PROTO, "not a frame of version %d",
				LN_FRAME_VERSION);
	if (get32(in + 60) != ln_checksum32(in, 60) || get32(in + 56))
		return ln_error(LUNE_ERR_PROTO, "a frame's header is damaged");
	f.type = in[5];
	f.flags = get16(in + 6);
	f.count = get32(in + 8);
	f.index = get32(in + 12);
	f.op = get64(in + 16);
	f.total = get64(in + 24);
	f.a = get64(in + 32);
	f.b = get64(in + 40);
	f.bytes = get64(in + 48);
	if (!lengths_good(&f))
		return ln_error(LUNE_ERR_PROTO,
				"a frame of type %u has bad lengths", f.type);
	*out = f;
	return LUNE_OK;
}

size_t ln_frame_meta_bytes(const struct ln_frame *f)
{
	size_t n = (size_t)f->count * LN_DESC_BYTES;

	if (f->type == LN_FRAME_PUT && (f->flags & LN_FRAME_SIGNAL))
		n += LN_SIGNAL_BYTES;
	if (f->type == LN_FRAME_MSG)
		n += LN_MSG_ARGS * 8;
	return n;
}

void ln_desc_encode(const struct ln_desc *d, uint8_t out[LN_DESC_BYTES])
{
	put64(out, d->key);
	put64(out + 8, d->offset);
	put64(out + 16, d->bytes);
}

void ln_desc_decode(const uint8_t in[LN_DESC_BYTES], struct ln_desc *out)
{
	out->key = get64(in);
	out->offset = get64(in + 8);
	out->bytes = get64(in + 16);
}

void ln_sigdesc_encode(const struct ln_sigdesc *s, uint8_t out[LN_SIGNAL_BYTES])
{
	put64(out, s->key);
	put64(out + 8, s->offset);
	put64(out + 16, s->value);
	put64(out + 24, s->how);
}

int ln_sigdesc_decode(const uint8_t in[LN_SIGNAL_BYTES], struct ln_sigdesc *out)
{
	uint64_t how = get64(in + 24);

	if (how > 1)
		return ln_error(LUNE_ERR_PROTO, "a signal of no known kind");
	out->key = get64(in);
	out->offset = get64(in + 8);
	out->value = get64(in + 16);
	out->how = (uint8_t)how;
	return LUNE_OK;
}

void ln_words_encode(const uint64_t *v, int n, uint8_t *out)
{
	for (int i = 0; i < n; i++)
		put64(out + 8 * i, v[i]);
}

void ln_words_decode(const uint8_t *in, int n, uint64_t *out)
{
	for (int i = 0; i < n; i++)
		out[i] = get64(in + 8 * i);
}
