/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticket import.  Half of the inputs get a right checksum, or nothing but the
 * checksum would ever be tested.
 */
#include <stdlib.h>
#include <string.h>

#include <lune/mem.h>

#include "mem/mem.h"
#include "tests/fuzz/fuzz.h"

static void one(const uint8_t *data, size_t bytes)
{
	struct ln_ticket t;
	uint8_t again[LUNE_TICKET_MAX];
	size_t n;

	if (ln_ticket_unpack(data, bytes, &t))
		return;
	fuzz_require(t.card_len <= sizeof(t.card), "the card fits");
	fuzz_require(t.bytes > 0 && t.base + t.bytes >= t.base,
		     "the region is not empty and does not wrap");
	fuzz_require(t.rights && !(t.rights & ~LUNE_MEM_ALL), "known rights");
	fuzz_require(!ln_ticket_pack(&t, again, sizeof(again), &n) &&
		     n == bytes, "what was unpacked can be packed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *p;
	uint32_t sum;

	one(data, bytes);
	if (bytes < 12)
		return 0;
	p = malloc(bytes);
	if (!p)
		return 0;
	memcpy(p, data, bytes);
	p[6] = (uint8_t)bytes;
	p[7] = (uint8_t)(bytes >> 8);
	sum = ln_checksum32(p, bytes - 4);
	for (int i = 0; i < 4; i++)
		p[bytes - 4 + (size_t)i] = (uint8_t)(sum >> 8 * i);
	one(p, bytes);
	free(p);
	return 0;
}

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static const uint16_t lens[] = { 0, 60, 300, 768 };
	static uint8_t buf[LUNE_TICKET_MAX];
	struct ln_ticket t;

	if (i >= LN_ARRAY_SIZE(lens))
		return NULL;
	memset(&t, 0, sizeof(t));
	t.key = (uint64_t)3 << 32 | 9;
	t.base = 0x7f1200000000;
	t.bytes = 1 << 20;
	t.rights = LUNE_MEM_ALL;
	t.shareable = i & 1;
	t.card_len = lens[i];
	memset(t.card, 0x5a, lens[i]);
	if (ln_ticket_pack(&t, buf, sizeof(buf), bytes))
		return NULL;
	return buf;
}
