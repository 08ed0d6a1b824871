/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/internal.h"
#include "tests/harness/unit.h"

struct good {
	const char *text, *scheme, *host;
	int port;
	const char *job;
	int rank, size;
};

static void good_urls_are_understood(void **state)
{
	static const struct good table[] = {
		{ "self:", "self", "", 0, "", -1, 0 },
		{ "self", "self", "", 0, "", -1, 0 },
		{ "pmix:", "pmix", "", 0, "", -1, 0 },
		{ "torch://", "torch", "", 0, "", -1, 0 },
		{ "tcp://h:1?rank=0&size=1", "tcp", "h", 1, "", 0, 1 },
		{ "tcp://h:1/?size=8&rank=7", "tcp", "h", 1, "", 7, 8 },
		{ "tcp://h:0?rank=0&size=1", "tcp", "h", 0, "", 0, 1 },
		{ "tcp://[::1]:65535/a.b-C_9?rank=0&size=65536", "tcp", "::1",
		  65535, "a.b-C_9", 0, 65536 },
		{ "etcd://a:1/j", "etcd", "a", 1, "j", -1, 0 },
		{ "etcd://a:1,b:2,[fe::1]:3/j?size=4", "etcd", "a", 1, "j",
		  -1, 4 },
		{ "lune://[fe::2]:9/j?size=4&rank=3", "lune", "fe::2", 9, "j",
		  3, 4 },
	};
	struct ln_boot_url u;

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(table); i++) {
		const struct good *g = &table[i];

		assert_int_equal(ln_url_parse(g->text, &u), LUNE_OK);
		assert_string_equal(u.scheme, g->scheme);
		assert_string_equal(u.host, g->host);
		assert_int_equal(u.port, g->port);
		assert_string_equal(u.job, g->job);
		assert_int_equal(u.rank, g->rank);
		assert_int_equal(u.size, g->size);
	}
}

static void bad_urls_are_refused_by_name(void **state)
{
	static const char *const table[] = {
		"", ":", "http://a:1", "tcp:", "tcp:/a:1?rank=0&size=2",
		"tcp://?rank=0&size=2", "tcp://a?rank=0&size=2",
		"tcp://a:?rank=0&size=2", "tcp://a:65536?rank=0&size=2",
		"tcp://a:-1?rank=0&size=2", "tcp://a:1x?rank=0&size=2",
		"tcp://:1?rank=0&size=2", "tcp://[::1?rank=0&size=2",
		"tcp://[::1]1?rank=0&size=2", "tcp://[]:1?rank=0&size=2",
		"tcp://a:1", "tcp://a:1?rank=0", "tcp://a:1?size=2",
		"tcp://a:1?rank=2&size=2", "tcp://a:1?rank=-1&size=2",
		"tcp://a:1?rank=0&size=0", "tcp://a:1?rank=0&size=65537",
		"tcp://a:1?rank=0&size=2&x=1", "tcp://a:1?rank=&size=2",
		"tcp://a:1?rank=0x1&size=2", "tcp://a:0?rank=0&size=2",
		"tcp://a:1?rank=0&size=99999999999999999999",
		"tcp://a:1,b:2?rank=0&size=2", "etcd://a:1", "etcd://a:1/",
		"etcd://a:1,/j", "etcd://a:1,b/j", "etcd://a:1,b:0/j",
		"etcd://a:0/j", "etcd://a:1/j/k", "etcd://a:1/..",
		"etcd://a:1/j k", "etcd://a:1/j?rank=1", "self:x", "pmix:1",
		"self//", "selfish:", "torch:host:1",
	};
	struct ln_boot_url u;

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(table); i++) {
		int rc = ln_url_parse(table[i], &u);

		if (rc != LUNE_ERR_INVAL)
			fail_msg("\"%s\" gave %d", table[i], rc);
		assert_non_null(strstr(lune_last_error(), table[i]));
	}
}

static void too_long_parts_are_refused(void **state)
{
	char text[2048];
	struct ln_boot_url u;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "tcp://", 6);
	snprintf(text + 6 + 256, 64, ":1?rank=0&size=2");
	assert_int_equal(ln_url_parse(text, &u), LUNE_ERR_INVAL);
	memset(text, 'a', sizeof(text));
	memcpy(text, "etcd://a:1/", 11);
	text[11 + 127] = '\0';
	assert_int_equal(ln_url_parse(text, &u), LUNE_OK);
	text[11 + 127] = 'a';
	text[11 + 128] = '\0';
	assert_int_equal(ln_url_parse(text, &u), LUNE_ERR_INVAL);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(ln_url_parse(text, &u), LUNE_ERR_INVAL);
}

static void missing_is(const char *there, const char *want, int count)
{
	bool t[64] = { false };
	int n = (int)strlen(there);
	char text[128];

	for (int i = 0; i < n; i++)
		t[i] = there[i] == '1';
	assert_int_equal(ln_ranks_missing(t, n, text, sizeof(text)), count);
	assert_string_equal(text, want);
}

static void missing_ranks_read_as_a_sentence(void **state)
{
	(void)state;
	missing_is("1110", "rank 3", 1);
	missing_is("0", "rank 0", 1);
	missing_is("00", "ranks 0..1", 2);
	missing_is("11101000", "ranks 3 and 5..7", 4);
	missing_is("0110100", "ranks 0, 3 and 5..6", 4);
	missing_is("10101010", "ranks 1, 3, 5 and 7", 4);
	missing_is("00000000", "ranks 0..7", 8);
}

static void a_long_list_of_missing_ranks_is_cut(void **state)
{
	static bool t[1000];
	char text[64];

	(void)state;
	for (int i = 0; i < 1000; i++)
		t[i] = i & 1;
	assert_int_equal(ln_ranks_missing(t, 1000, text, sizeof(text)), 500);
	assert_true(strlen(text) < sizeof(text));
	assert_non_null(strstr(text, "ranks 0, 2, 4"));
	assert_non_null(strstr(text, " and more"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_urls_are_understood),
		cmocka_unit_test(bad_urls_are_refused_by_name),
		cmocka_unit_test(too_long_parts_are_refused),
		cmocka_unit_test(missing_ranks_read_as_a_sentence),
		cmocka_unit_test(a_long_list_of_missing_ranks_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
