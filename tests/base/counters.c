/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

static void counts_appear_under_their_name(void **state)
{
	struct ln_counters c;
	const char *name, *help;
	uint64_t value;
	int seen = 0;

	(void)state;
	memset(&c, 0, sizeof(c));
	ln_count(&c, put_ops, 1);
	ln_count(&c, put_ops, 2);
	ln_count(&c, get_bytes, UINT64_C(1) << 40);
	for (int i = 0; ln_counters_row(&c, i, &name, &help, &value); i++) {
		uint64_t want = 0;

		if (!strcmp(name, "put_ops"))
			want = 3;
		if (!strcmp(name, "get_bytes"))
			want = UINT64_C(1) << 40;
		assert_true(value == want);
		assert_true(strlen(help) > 0);
		seen++;
	}
	assert_int_equal(seen, sizeof(c) / sizeof(uint64_t));
	assert_false(ln_counters_row(&c, -1, &name, &help, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_appear_under_their_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
