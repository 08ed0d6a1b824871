/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the embedded server without its sockets: the history that it
 * keeps, and that a change is made whole or not at all.
 */
#include "tests/harness/unit.h"

#include "meta/store.h"

static struct ln_meta_store *open_store(void)
{
	struct ln_meta_store *s;

	assert_int_equal(ln_meta_store_open(0, &s), 0);
	return s;
}

static struct ln_meta_edit edit(const char *key, const char *value)
{
	struct ln_meta_edit e = { .key = key, .key_len = strlen(key),
				  .value = value };

	e.value_len = value ? strlen(value) : 0;
	return e;
}

static void old_changes_are_forgotten(void **state)
{
	struct ln_meta_store *s = open_store();
	struct ln_meta_edit e = edit("a", "x");
	uint64_t first = ln_meta_store_revision(s) + 1;
	struct ln_meta_version *v;

	(void)state;
	for (int i = 0; i < 65536; i++)
		assert_int_equal(ln_meta_store_put(s, &e), 0);
	v = ln_meta_store_change(s, first);
	assert_non_null(v);
	assert_int_equal(v->mod_rev, first);
	assert_int_equal(ln_meta_store_put(s, &e), 0);
	assert_null(ln_meta_store_change(s, first));
	v = ln_meta_store_change(s, first + 1);
	assert_non_null(v);
	assert_int_equal(v->mod_rev, first + 1);
	assert_int_equal(v->create_rev, first);
	assert_null(ln_meta_store_change(s, ln_meta_store_revision(s) + 1));
	ln_meta_store_close(s);
}

static void big_changes_are_forgotten_sooner(void **state)
{
	struct ln_meta_store *s = open_store();
	char *big = calloc(1, LN_META_VALUE_MAX);
	struct ln_meta_edit e = edit("a", NULL);
	uint64_t first = ln_meta_store_revision(s) + 1;

	(void)state;
	assert_non_null(big);
	e.value = big;
	e.value_len = LN_META_VALUE_MAX;
	for (int i = 0; i < 65; i++)
		assert_int_equal(ln_meta_store_put(s, &e), 0);
	assert_null(ln_meta_store_change(s, first));
	assert_non_null(ln_meta_store_change(s, ln_meta_store_revision(s)));
	free(big);
	ln_meta_store_close(s);
}

/* Make the n-th allocation of a change fail, until none is left to fail. */
static void no_memory_changes_nothing(void **state)
{
	struct ln_meta_edit e = edit("b", "new"), del = edit("a", NULL);
	int rc = -1, failures = 0;

	(void)state;
	for (long n = 1; rc; n++) {
		struct ln_meta_store *s = open_store();
		struct ln_meta_edit a = edit("a", "old");
		uint64_t rev;

		assert_int_equal(ln_meta_store_put(s, &a), 0);
		rev = ln_meta_store_revision(s);
		ln_alloc_fail_after(n);
		rc = ln_meta_store_put(s, &e);
		if (!rc)
			rc = ln_meta_store_delete(s, &del);
		ln_alloc_fail_after(0);
		if (rc) {
			failures++;
			assert_int_equal(rc, LUNE_ERR_NOMEM);
			assert_non_null(ln_meta_store_get(s, "a", 1));
			assert_int_equal(ln_meta_store_revision(s) - rev,
					 ln_meta_store_get(s, "b", 1) != NULL);
		}
		ln_meta_store_close(s);
	}
	assert_true(failures >= 3);
}

static void a_moved_lease_does_not_take_the_record(void **state)
{
	struct ln_meta_store *s = open_store();
	struct ln_meta_edit e = edit("a", "x");
	uint64_t one, two;

	(void)state;
	assert_int_equal(ln_meta_store_lease_open(s, 1000, &one), 0);
	assert_int_equal(ln_meta_store_lease_open(s, 1000, &two), 0);
	e.lease = one;
	assert_int_equal(ln_meta_store_put(s, &e), 0);
	e.lease = two;
	assert_int_equal(ln_meta_store_put(s, &e), 0);
	assert_int_equal(ln_meta_store_lease_close(s, one), 0);
	assert_non_null(ln_meta_store_get(s, "a", 1));
	assert_int_equal(ln_meta_store_lease_close(s, two), 0);
	assert_null(ln_meta_store_get(s, "a", 1));
	assert_int_equal(ln_meta_store_lease_close(s, two), LUNE_ERR_NOTFOUND);
	ln_meta_store_close(s);
}

static void keys_sort_as_bytes(void **state)
{
	static const char *const keys[] = { "b", "a\xff", "a", "aa", "B" };
	static const char *const want[] = { "B", "a", "aa", "a\xff", "b" };
	struct ln_meta_store *s = open_store();
	struct ln_meta_version **all;
	size_t count;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct ln_meta_edit e = edit(keys[i], "x");

		assert_int_equal(ln_meta_store_put(s, &e), 0);
	}
	assert_int_equal(ln_meta_store_list(s, "", 0, &all, &count), 0);
	assert_int_equal(count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(all[i]->bytes, want[i]);
		ln_meta_version_unref(all[i]);
	}
	ln_free(all);
	ln_meta_store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_changes_are_forgotten),
		cmocka_unit_test(big_changes_are_forgotten_sooner),
		cmocka_unit_test(no_memory_changes_nothing),
		cmocka_unit_test(a_moved_lease_does_not_take_the_record),
		cmocka_unit_test(keys_sort_as_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
