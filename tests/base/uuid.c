/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

static void made_ones_differ_and_are_version_4(void **state)
{
	struct ln_uuid u[100];

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ln_uuid_make(&u[i]), LUNE_OK);
		assert_int_equal(u[i].b[6] >> 4, 4);
		assert_int_equal(u[i].b[8] >> 6, 2);
		for (int j = 0; j < i; j++)
			assert_false(ln_uuid_equal(&u[i], &u[j]));
		assert_true(ln_uuid_equal(&u[i], &u[i]));
	}
}

static void text_is_32_digits_in_byte_order(void **state)
{
	struct ln_uuid u;
	char text[LN_UUID_TEXT];

	(void)state;
	for (int i = 0; i < 16; i++)
		u.b[i] = (uint8_t)(i * 17);
	ln_uuid_text(&u, text);
	assert_string_equal(text, "00112233445566778899aabbccddeeff");
}

static void order_is_by_bytes(void **state)
{
	struct ln_uuid a = { { 0 } }, b = { { 0 } };

	(void)state;
	assert_int_equal(ln_uuid_compare(&a, &b), 0);
	for (int i = 0; i < 16; i++) {
		b.b[i] = 0x80;
		assert_true(ln_uuid_compare(&a, &b) < 0);
		assert_true(ln_uuid_compare(&b, &a) > 0);
		b.b[i] = 0;
	}
	a.b[15] = 255;
	b.b[0] = 1;
	assert_true(ln_uuid_compare(&a, &b) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_ones_differ_and_are_version_4),
		cmocka_unit_test(text_is_32_digits_in_byte_order),
		cmocka_unit_test(order_is_by_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
