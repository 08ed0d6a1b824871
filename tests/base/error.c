/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>

#include "base/base.h"
#include "tests/harness/unit.h"

static void the_sentence_is_the_last_recorded(void **state)
{
	(void)state;
	assert_int_equal(ln_error(LUNE_ERR_PEER, "rank %d is gone", 3),
			 LUNE_ERR_PEER);
	assert_string_equal(lune_last_error(), "rank 3 is gone");
	ln_error(LUNE_ERR_INVAL, "second");
	assert_string_equal(lune_last_error(), "second");
}

static void errno_is_named_and_kept(void **state)
{
	(void)state;
	errno = ECONNREFUSED;
	assert_int_equal(ln_error_errno(LUNE_ERR_SYSTEM, "connect to %s", "a"),
			 LUNE_ERR_SYSTEM);
	assert_int_equal(errno, ECONNREFUSED);
	assert_string_equal(lune_last_error(),
			    "connect to a: Connection refused");
	errno = EINTR;
	ln_error(LUNE_ERR_INVAL, "x");
	ln_error_prefix(LUNE_ERR_INVAL, "y");
	assert_int_equal(errno, EINTR);
}

static void a_prefix_goes_before_the_cause(void **state)
{
	(void)state;
	ln_error(LUNE_ERR_IO, "disk full");
	assert_int_equal(ln_error_prefix(LUNE_ERR_IO, "writing %s", "f"),
			 LUNE_ERR_IO);
	assert_string_equal(lune_last_error(), "writing f: disk full");
	ln_error_set("");
	ln_error_prefix(LUNE_ERR_TIMEOUT, "rank 1");
	assert_string_equal(lune_last_error(), "rank 1: the deadline passed");
}

static void a_sentence_may_quote_the_one_before(void **state)
{
	(void)state;
	ln_error(LUNE_ERR_IO, "inner");
	ln_error(LUNE_ERR_IO, "outer (%s)", lune_last_error());
	assert_string_equal(lune_last_error(), "outer (inner)");
	ln_error_set(lune_last_error());
	assert_string_equal(lune_last_error(), "outer (inner)");
}

static void long_sentences_are_cut(void **state)
{
	char text[5000];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ln_error(LUNE_ERR_IO, "%s", text);
	assert_in_range(strlen(lune_last_error()), 500, 4998);
	for (int i = 0; i < 2000; i++)
		ln_error_prefix(LUNE_ERR_IO, "p%d", i);
	assert_in_range(strlen(lune_last_error()), 500, 4998);
	for (size_t n = 1000; n < 1100; n++) {
		errno = EIO;
		ln_error_errno(LUNE_ERR_IO, "%.*s", (int)n, text);
		assert_in_range(strlen(lune_last_error()), 1000, 4998);
	}
	ln_error_set(text);
	assert_in_range(strlen(lune_last_error()), 500, 4998);
}

static void *other_thread(void *arg)
{
	(void)arg;
	if (lune_last_error()[0])
		return (void *)1;
	ln_error(LUNE_ERR_IO, "theirs");
	return NULL;
}

static void each_thread_has_its_own(void **state)
{
	pthread_t t;
	void *bad;

	(void)state;
	ln_error(LUNE_ERR_IO, "mine");
	assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
	pthread_join(t, &bad);
	assert_null(bad);
	assert_string_equal(lune_last_error(), "mine");
}

static void every_code_has_a_name_and_a_sentence(void **state)
{
	(void)state;
#define CHECK_CODE(name, value, text)                                    \
	assert_string_equal(lune_strcode(LUNE_##name), "LUNE_" #name);   \
	assert_string_equal(lune_strerror(value), text);
	LUNE_STATUS_MAP(CHECK_CODE)
#undef CHECK_CODE
	assert_string_equal(lune_strcode(17), "LUNE_OK");
	for (int code = -200; code < 200; code++) {
		assert_non_null(lune_strerror(code));
		assert_non_null(lune_strcode(code));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sentence_is_the_last_recorded),
		cmocka_unit_test(errno_is_named_and_kept),
		cmocka_unit_test(a_prefix_goes_before_the_cause),
		cmocka_unit_test(a_sentence_may_quote_the_one_before),
		cmocka_unit_test(long_sentences_are_cut),
		cmocka_unit_test(each_thread_has_its_own),
		cmocka_unit_test(every_code_has_a_name_and_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
