/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include <lune/ctx.h>

#include "base/base.h"
#include "tests/harness/unit.h"

static void time_does_not_go_back(void **state)
{
	uint64_t last = ln_now_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = ln_now_ns();

		assert_true(now >= last);
		last = now;
	}
}

/* A deadline of ms was made between the two moments. */
static void assert_made(uint64_t before, uint64_t deadline, uint64_t ms)
{
	assert_true(deadline >= before + ms * 1000000u);
	assert_true(deadline <= ln_now_ns() + ms * 1000000u);
}

static void a_deadline_is_absolute(void **state)
{
	uint64_t before = ln_now_ns();

	(void)state;
	assert_made(before, ln_deadline(5000, 1), 5000);
	assert_made(before, ln_deadline(LUNE_TIMEOUT_DEFAULT, 700), 700);
	assert_made(before, ln_deadline(0, 700), 0);
	assert_made(before, ln_deadline(-77, 700), 0);
	assert_made(before, ln_deadline(INT_MAX, 1), INT_MAX);
	assert_true(ln_deadline(LUNE_FOREVER, 1) == LN_NEVER);
	assert_true(ln_deadline(LUNE_TIMEOUT_DEFAULT, LUNE_FOREVER) ==
		    LN_NEVER);
}

static void what_is_left_is_rounded_up(void **state)
{
	int left;

	(void)state;
	assert_int_equal(ln_deadline_left_ms(LN_NEVER), -1);
	assert_int_equal(ln_deadline_left_ms(0), 0);
	assert_int_equal(ln_deadline_left_ms(ln_now_ns()), 0);
	assert_int_equal(ln_deadline_left_ms(LN_NEVER - 1), INT_MAX);
	left = ln_deadline_left_ms(ln_now_ns() + 3600u * 1000000000ull);
	assert_in_range(left, 1, 3600000);
	/* Less than a millisecond is 1, not 0: poll must sleep, not spin. */
	do {
		uint64_t soon = ln_now_ns() + 900000;

		left = ln_deadline_left_ms(soon);
	} while (!left); /* the thread was away for 0.9 ms */
	assert_int_equal(left, 1);
}

static void never_does_not_pass(void **state)
{
	(void)state;
	assert_false(ln_deadline_passed(LN_NEVER));
	assert_true(ln_deadline_passed(0));
	assert_true(ln_deadline_passed(ln_now_ns()));
	assert_false(ln_deadline_passed(ln_deadline(3600000, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_does_not_go_back),
		cmocka_unit_test(a_deadline_is_absolute),
		cmocka_unit_test(what_is_left_is_rounded_up),
		cmocka_unit_test(never_does_not_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
