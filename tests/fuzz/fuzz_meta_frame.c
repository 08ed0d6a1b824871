/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the embedded metadata server, as either side parses them. */
#include <stdlib.h>
#include <string.h>

#include "meta/frame.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ln_meta_frame f;
	uint8_t *again;
	size_t at = 0;
	int n;

	/* As a connection does: frame after frame, until one is not whole. */
	for (;;) {
		n = ln_meta_frame_parse(data + at, bytes - at,
					LN_META_FRAME_MAX, &f);
		if (n <= 0)
			break;
		fuzz_require((size_t)n <= bytes - at, "the frame is there");
		fuzz_require((size_t)n == ln_meta_frame_bytes(&f),
			     "the lengths agree");
		fuzz_require(f.value + f.value_len == data + at + n,
			     "the value ends the frame");
		again = malloc((size_t)n);
		if (!again)
			return 0;
		ln_meta_frame_write(&f, again);
		fuzz_require(!memcmp(again, data + at, (size_t)n),
			     "what was read is written the same");
		free(again);
		at += (size_t)n;
	}
	n = ln_meta_frame_parse(data, bytes, LN_META_FRAME_HEAD + 48, &f);
	fuzz_require(n <= LN_META_FRAME_HEAD + 48, "a lower limit is kept");
	return 0;
}

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static const struct ln_meta_frame seeds[] = {
		{ .type = LN_META_HELLO, .b = LN_META_FRAME_VERSION, .flag = 1,
		  .value = (const uint8_t *)"0123456789abcdef",
		  .value_len = 16 },
		{ .type = LN_META_PUT, .key = "job/ranks/7", .key_len = 11,
		  .value = (const uint8_t *)"ten bytes!", .value_len = 10,
		  .a = 77, .b = 1ull << 40, .flag = 1 },
		{ .type = LN_META_WATCH, .key = "job/", .key_len = 4, .a = 5 },
		{ .type = LN_META_STATUS, .b = (uint64_t)-26,
		  .value = (const uint8_t *)"why", .value_len = 3 },
		{ .type = LN_META_END, .a = 1 },
	};
	static uint8_t buf[256];
	const struct ln_meta_frame *f = &seeds[i / 2];
	size_t n;

	if (i >= 2 * LN_ARRAY_SIZE(seeds))
		return NULL;
	/* Alone, and twice in a row. */
	n = ln_meta_frame_bytes(f);
	ln_meta_frame_write(f, buf);
	ln_meta_frame_write(f, buf + n);
	*bytes = n * (1 + i % 2);
	return buf;
}
