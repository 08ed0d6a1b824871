/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

/* The compiler must not see that these are absurd. */
static volatile size_t huge = SIZE_MAX / 2 + 1;

static void the_nth_allocation_fails_once(void **state)
{
	void *p[5];

	(void)state;
	for (long n = 1; n <= 5; n++) {
		ln_alloc_fail_after(n);
		for (int i = 0; i < 5; i++)
			p[i] = ln_malloc(16);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(p[i] == NULL, i + 1 == n);
			ln_free(p[i]);
		}
	}
	ln_alloc_fail_after(1);
	ln_alloc_fail_after(0);
	p[0] = ln_malloc(1);
	assert_non_null(p[0]);
	ln_free(p[0]);
}

static void *by_each_call(int which)
{
	switch (which) {
	case 0:
		return ln_malloc(10);
	case 1:
		return ln_calloc(10, 10);
	case 2:
		return ln_realloc_array(NULL, 10, 10);
	case 3:
		return ln_alloc_aligned(64, 10);
	case 4:
		return ln_strdup("text");
	case 5:
		return ln_asprintf("%d", 5);
	default:
		return NULL;
	}
}

static void every_call_can_fail_and_says_so(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		uint64_t before = ln_alloc_count();
		void *p;

		ln_alloc_fail_after(1);
		ln_error_set("");
		assert_null(by_each_call(i));
		assert_non_null(strstr(lune_last_error(), "out of memory"));
		p = by_each_call(i);
		assert_non_null(p);
		ln_free(p);
		assert_int_equal(ln_alloc_count(), before + 2);
	}
}

static void sizes_that_overflow_are_refused(void **state)
{
	(void)state;
	assert_null(ln_calloc(huge, 2));
	assert_null(ln_calloc(2, huge));
	assert_null(ln_realloc_array(NULL, huge, 4));
	assert_non_null(strstr(lune_last_error(), "out of memory"));
}

static void a_failed_realloc_keeps_the_old(void **state)
{
	char *p = ln_strdup("kept");

	(void)state;
	assert_non_null(p);
	ln_alloc_fail_after(1);
	assert_null(ln_realloc_array(p, 100, 100));
	assert_string_equal(p, "kept");
	assert_null(ln_realloc_array(p, huge, 100));
	assert_string_equal(p, "kept");
	ln_free(p);
}

static void empty_is_not_a_failure(void **state)
{
	void *p = ln_malloc(0), *q = ln_calloc(0, 5);
	void *r = ln_realloc_array(NULL, 0, 5), *s = ln_alloc_aligned(4096, 0);

	(void)state;
	assert_non_null(p);
	assert_non_null(q);
	assert_non_null(r);
	assert_non_null(s);
	ln_free(p);
	ln_free(q);
	ln_free(r);
	ln_free(s);
	ln_free(NULL);
}

static void aligned_memory_is_aligned_and_zero(void **state)
{
	(void)state;
	for (size_t align = 64; align <= 65536; align *= 2) {
		uint8_t *p = ln_alloc_aligned(align, 1000);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % align, 0);
		for (int i = 0; i < 1000; i++)
			assert_int_equal(p[i], 0);
		ln_free(p);
	}
}

static void formatted_strings_are_whole(void **state)
{
	char *p = ln_asprintf("%0*d", 5000, 7), *q = ln_asprintf("%s", "");

	(void)state;
	assert_non_null(p);
	assert_int_equal(strlen(p), 5000);
	assert_int_equal(p[4999], '7');
	assert_string_equal(q, "");
	ln_free(p);
	ln_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_allocation_fails_once),
		cmocka_unit_test(every_call_can_fail_and_says_so),
		cmocka_unit_test(sizes_that_overflow_are_refused),
		cmocka_unit_test(a_failed_realloc_keeps_the_old),
		cmocka_unit_test(empty_is_not_a_failure),
		cmocka_unit_test(aligned_memory_is_aligned_and_zero),
		cmocka_unit_test(formatted_strings_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
