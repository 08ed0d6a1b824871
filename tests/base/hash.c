/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

static void hmac_matches_rfc_4231(void **state)
{
	/* Test case 1: HMAC pads a short key with zeros. */
	static const uint8_t want[LN_MAC_BYTES] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
		0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
		0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
		0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	uint8_t key[LN_KEY_BYTES] = { 0 }, mac[LN_MAC_BYTES];

	(void)state;
	memset(key, 0x0b, 20);
	ln_hmac(key, "Hi There", 8, mac);
	assert_memory_equal(mac, want, sizeof(want));
	assert_true(ln_mac_equal(mac, want));
}

static void any_changed_bit_is_seen(void **state)
{
	uint8_t key[LN_KEY_BYTES] = { 1 }, text[16] = { 2 };
	uint8_t a[LN_MAC_BYTES], b[LN_MAC_BYTES];

	(void)state;
	ln_hmac(key, text, sizeof(text), a);
	for (size_t i = 0; i < 8 * sizeof(b); i++) {
		memcpy(b, a, sizeof(b));
		b[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_false(ln_mac_equal(a, b));
	}
	text[15] ^= 1;
	ln_hmac(key, text, sizeof(text), b);
	assert_false(ln_mac_equal(a, b));
	text[15] ^= 1;
	key[31] ^= 1;
	ln_hmac(key, text, sizeof(text), b);
	assert_false(ln_mac_equal(a, b));
}

static void the_hash_is_xxh3(void **state)
{
	(void)state;
	assert_true(ln_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(ln_checksum32("", 0) == 0x38d394c2);
	assert_true(ln_hash64("abc", 3) != ln_hash64("abd", 3));
}

static void random_bytes_differ_and_fill_the_buffer(void **state)
{
	uint8_t a[1000] = { 0 }, b[1000] = { 0 };
	int zeros = 0;

	(void)state;
	assert_int_equal(ln_random(a, sizeof(a)), LUNE_OK);
	assert_int_equal(ln_random(b, sizeof(b)), LUNE_OK);
	assert_memory_not_equal(a, b, sizeof(a));
	for (int i = 900; i < 1000; i++)
		zeros += a[i] == 0;
	assert_true(zeros < 50);
	assert_int_equal(ln_random(a, 0), LUNE_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hmac_matches_rfc_4231),
		cmocka_unit_test(any_changed_bit_is_seen),
		cmocka_unit_test(the_hash_is_xxh3),
		cmocka_unit_test(random_bytes_differ_and_fill_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
