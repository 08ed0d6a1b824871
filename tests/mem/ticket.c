/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: a round trip, and everything that is not one. */
#include <lune/mem.h>

#include "mem/mem.h"
#include "tests/harness/unit.h"

static void fill(struct ln_ticket *t, uint16_t card_len)
{
	memset(t, 0, sizeof(*t));
	t->key = (uint64_t)7 << 32 | 5;
	t->base = 0x7f0000001000;
	t->bytes = (uint64_t)6 << 30;
	t->rights = LUNE_MEM_READ | LUNE_MEM_WRITE;
	t->shareable = true;
	t->card_len = card_len;
	for (unsigned i = 0; i < card_len; i++)
		t->card[i] = (uint8_t)(i * 7);
}

static void a_ticket_survives_the_trip(void **state)
{
	static const uint16_t lens[] = { 0, 1, 200, 768 };
	struct ln_ticket in, out;
	uint8_t buf[LUNE_TICKET_MAX];
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(lens); i++) {
		fill(&in, lens[i]);
		in.shareable = i & 1;
		assert_int_equal(ln_ticket_pack(&in, buf, sizeof(buf), &bytes),
				 LUNE_OK);
		assert_true(bytes <= LUNE_TICKET_MAX);
		memset(&out, 0xff, sizeof(out));
		assert_int_equal(ln_ticket_unpack(buf, bytes, &out), LUNE_OK);
		assert_int_equal(out.key, in.key);
		assert_int_equal(out.base, in.base);
		assert_int_equal(out.bytes, in.bytes);
		assert_int_equal(out.rights, in.rights);
		assert_int_equal(out.shareable, in.shareable);
		assert_int_equal(out.card_len, in.card_len);
		assert_memory_equal(out.card, in.card, in.card_len);
	}
}

static void a_short_buffer_is_refused_at_every_length(void **state)
{
	struct ln_ticket in, out;
	uint8_t buf[LUNE_TICKET_MAX];
	size_t all, bytes = 12345;

	(void)state;
	fill(&in, 100);
	assert_int_equal(ln_ticket_pack(&in, buf, sizeof(buf), &all), LUNE_OK);
	for (size_t n = 0; n < all; n++) {
		assert_int_equal(ln_ticket_unpack(buf, n, &out),
				 LUNE_ERR_INVAL);
		assert_int_equal(ln_ticket_pack(&in, buf, n, &bytes),
				 LUNE_ERR_LIMIT);
		assert_int_equal(bytes, 12345);
		assert_int_equal(ln_ticket_pack(&in, buf, sizeof(buf), &all),
				 LUNE_OK);
	}
}

static void every_flipped_bit_is_noticed(void **state)
{
	struct ln_ticket in, out;
	uint8_t buf[LUNE_TICKET_MAX];
	size_t bytes;
	int rc;

	(void)state;
	fill(&in, 300);
	assert_int_equal(ln_ticket_pack(&in, buf, sizeof(buf), &bytes),
			 LUNE_OK);
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rc = ln_ticket_unpack(buf, bytes, &out);
		/* The version byte is looked at before the checksum. */
		assert_true(rc == LUNE_ERR_INVAL ||
			    (bit / 8 == 4 && rc == LUNE_ERR_UNSUPPORTED));
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(ln_ticket_unpack(buf, bytes, &out), LUNE_OK);
}

static void impossible_values_are_refused(void **state)
{
	struct ln_ticket t[6], out;
	uint8_t buf[LUNE_TICKET_MAX];
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(t); i++)
		fill(&t[i], 10);
	t[0].bytes = 0;
	t[1].base = UINT64_MAX - 10;
	t[2].rights = LUNE_MEM_ALL + 1;
	t[3].rights = 0;
	t[4].key = (uint64_t)8 << 32;
	t[5].bytes = UINT64_MAX;
	for (size_t i = 0; i < LN_ARRAY_SIZE(t); i++) {
		assert_int_equal(ln_ticket_pack(&t[i], buf, sizeof(buf),
						&bytes), LUNE_OK);
		assert_int_equal(ln_ticket_unpack(buf, bytes, &out),
				 LUNE_ERR_INVAL);
	}
}

static void a_long_tail_is_refused(void **state)
{
	struct ln_ticket in, out;
	uint8_t buf[LUNE_TICKET_MAX + 16];
	size_t bytes;

	(void)state;
	fill(&in, 10);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(ln_ticket_pack(&in, buf, sizeof(buf), &bytes),
			 LUNE_OK);
	assert_int_equal(ln_ticket_unpack(buf, bytes + 1, &out),
			 LUNE_ERR_INVAL);
	assert_int_equal(ln_ticket_unpack(buf, sizeof(buf), &out),
			 LUNE_ERR_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ticket_survives_the_trip),
		cmocka_unit_test(a_short_buffer_is_refused_at_every_length),
		cmocka_unit_test(every_flipped_bit_is_noticed),
		cmocka_unit_test(impossible_values_are_refused),
		cmocka_unit_test(a_long_tail_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
