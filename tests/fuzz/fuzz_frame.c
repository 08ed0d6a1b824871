/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as a stranger or a peer may send them: the header's decoder, then
 * what follows it, the way the receiver goes.  The checksum is mended for half
 * of the inputs, or hardly any would get past it.  A card is parsed, too: it
 * is the largest thing in a HELLO.
 */
#include <stdlib.h>
#include <string.h>

#include "net/internal.h"
#include "tests/fuzz/fuzz.h"

#define IN_BYTES (72 * 1024) /* the receive buffer of a stream */

static void meta_parse(const struct ln_frame *f, const uint8_t *meta)
{
	struct ln_sigdesc s;
	struct ln_desc d;
	uint8_t out[LN_SIGNAL_BYTES];

	for (uint32_t i = 0; i < f->count; i++) {
		ln_desc_decode(meta + i * LN_DESC_BYTES, &d);
		ln_desc_encode(&d, out);
		fuzz_require(!memcmp(out, meta + i * LN_DESC_BYTES,
				     LN_DESC_BYTES),
			     "a descriptor survives");
	}
	if (f->type == LN_FRAME_PUT && (f->flags & LN_FRAME_SIGNAL) &&
	    !ln_sigdesc_decode(meta + f->count * LN_DESC_BYTES, &s)) {
		ln_sigdesc_encode(&s, out);
		fuzz_require(s.how <= 1, "a signal of a known kind");
	}
}

static void one(const uint8_t *data, size_t bytes)
{
	uint8_t again[LN_FRAME_BYTES];
	struct ln_card card;
	struct ln_frame f;
	bool streamed;
	size_t meta;

	if (bytes < LN_FRAME_BYTES || ln_frame_decode(data, &f))
		return;
	fuzz_require(f.type > 0 && f.type < LN_FRAME_TYPES, "a known type");
	meta = ln_frame_meta_bytes(&f);
	streamed = f.type == LN_FRAME_PUT || f.type == LN_FRAME_DATA;
	fuzz_require(LN_FRAME_BYTES + meta + (streamed ? 0 : f.bytes) <=
			     IN_BYTES,
		     "what is not streamed fits the buffer");
	ln_frame_encode(&f, again);
	fuzz_require(!memcmp(again, data, LN_FRAME_BYTES),
		     "the header survives");
	data += LN_FRAME_BYTES;
	bytes -= LN_FRAME_BYTES;
	if (bytes < meta)
		return;
	meta_parse(&f, data);
	if (!ln_card_unpack(data, bytes, &card))
		fuzz_require(card.naddrs >= 0 &&
				     card.naddrs <= LN_CARD_ADDRS_MAX,
			     "addresses within the limit");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint32_t sum;
	uint8_t *p;

	one(data, bytes);
	if (bytes < LN_FRAME_BYTES)
		return 0;
	/* Its own block, so that a sanitizer sees one byte too far. */
	p = malloc(bytes);
	if (!p)
		return 0;
	memcpy(p, data, bytes);
	memset(p + 56, 0, 4);
	sum = ln_checksum32(p, 60);
	for (int i = 0; i < 4; i++)
		p[60 + i] = (uint8_t)(sum >> 8 * i);
	one(p, bytes);
	free(p);
	return 0;
}

static size_t seed_card(uint8_t *out, size_t cap)
{
	struct ln_card c = { .incarnation = 7, .pid = 9, .naddrs = 2,
			     .host = "host", .node_name = "node",
			     .unix_name = "lune-0123" };
	size_t n;

	c.addrs[0].ss_family = AF_INET;
	c.addrs[1].ss_family = AF_INET6;
	return ln_card_pack(&c, out, cap, &n) ? 0 : n;
}

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static const struct ln_frame frames[] = {
		{ .type = LN_FRAME_HELLO },
		{ .type = LN_FRAME_PROOF, .bytes = LN_MAC_BYTES },
		{ .type = LN_FRAME_PING },
		{ .type = LN_FRAME_MSG, .flags = 1, .bytes = 128 },
		{ .type = LN_FRAME_PUT, .flags = LN_FRAME_SIGNAL, .count = 3,
		  .bytes = 300, .total = 1000 },
		{ .type = LN_FRAME_PUT, .flags = LN_FRAME_SKIP, .a = 5,
		  .total = 10 },
		{ .type = LN_FRAME_ACK, .bytes = 64 },
		{ .type = LN_FRAME_GET, .count = 5, .total = 99 },
		{ .type = LN_FRAME_DATA, .bytes = 77, .total = 99 },
		{ .type = LN_FRAME_STATUS, .flags = 24, .b = 1 },
		{ .type = LN_FRAME_ATOMIC, .count = 1 },
		{ .type = LN_FRAME_USER, .bytes = 100 },
	};
	static uint8_t buf[4096];
	struct ln_frame f;

	if (i >= LN_ARRAY_SIZE(frames))
		return NULL;
	f = frames[i];
	memset(buf, 0, sizeof(buf));
	if (f.type == LN_FRAME_HELLO)
		f.bytes = seed_card(buf + LN_FRAME_BYTES,
				    sizeof(buf) - LN_FRAME_BYTES);
	ln_frame_encode(&f, buf);
	*bytes = LN_FRAME_BYTES + ln_frame_meta_bytes(&f) + (size_t)f.bytes;
	return buf;
}
