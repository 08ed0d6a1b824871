/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a TCPStore.  The first byte says how many values were asked for,
 * the second bounds their length.
 */
#include <string.h>

#include "boot/tcpstore.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ln_store_bytes out[LN_STORE_BATCH];
	size_t count, max, used = 0;
	int rc;

	if (bytes < 2)
		return 0;
	count = data[0] % LN_STORE_BATCH + 1u;
	max = data[1] * 16u;
	data += 2;
	bytes -= 2;
	rc = ln_store_parse(data, bytes, max, count, out);
	fuzz_require(rc == LUNE_OK || rc == LUNE_ERR_AGAIN ||
		     rc == LUNE_ERR_PROTO, "a known result");
	if (rc == LUNE_ERR_AGAIN)
		fuzz_require(bytes < count * (8 + max),
			     "a full answer does not ask for more");
	if (rc)
		return 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *p = out[i].p;

		fuzz_require(out[i].len <= max, "the length is bounded");
		fuzz_require(p == data + used + 8, "values follow each other");
		used += 8 + out[i].len;
	}
	fuzz_require(used == bytes, "nothing is left over");
	return 0;
}

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static uint8_t buf[2 + 3 * (8 + 300)];
	static const uint8_t counts[] = { 1, 2, 3 };
	size_t at = 2;

	if (i >= sizeof(counts))
		return NULL;
	buf[0] = (uint8_t)(counts[i] - 1);
	buf[1] = 255;
	for (unsigned k = 0; k < counts[i]; k++) {
		uint64_t len = 100u * k;

		memcpy(buf + at, &len, sizeof(len));
		memset(buf + at + 8, 'v', len);
		at += 8 + len;
	}
	*bytes = at;
	return buf;
}
