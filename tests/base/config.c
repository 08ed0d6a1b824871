/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "tests/harness/unit.h"

#include <unistd.h>

static struct ln_config conf;

/* The text of a row after ln_config_init, "" when there is no such row. */
static const char *value_of(const char *env, const char **source)
{
	static struct ln_config_row row;

	for (int i = 0; ln_config_row(&conf, i, &row); i++) {
		if (strcmp(row.env, env))
			continue;
		*source = row.source;
		return row.value;
	}
	return "";
}

static int clean_env(void **state)
{
	(void)state;
	clearenv();
	ln_alloc_fail_after(0);
	return 0;
}

static void every_default_is_a_good_value(void **state)
{
	struct ln_config_row row;
	int rows = 0;

	(void)state;
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	while (ln_config_row(&conf, rows, &row)) {
		assert_string_equal(row.source, "default");
		assert_true(strlen(row.help) > 0);
		rows++;
	}
	assert_true(rows > 10);
	assert_false(ln_config_row(&conf, -1, &row));
	assert_int_equal(conf.timeout, 30000);
	assert_int_equal(conf.tcp_slice, 1 << 20);
	assert_string_equal(conf.progress, "thread");
	assert_false(conf.hugetlb);
	ln_config_fini(&conf);
}

static void the_environment_wins_over_the_default(void **state)
{
	const char *source;

	(void)state;
	setenv("LUNE_TIMEOUT", "1234", 1);
	setenv("LUNE_NODE", "left", 1);
	setenv("LUNE_HUGETLB", "yes", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(conf.timeout, 1234);
	assert_string_equal(conf.node, "left");
	assert_true(conf.hugetlb);
	assert_string_equal(value_of("LUNE_TIMEOUT", &source), "1234");
	assert_string_equal(source, "environment");
	assert_string_equal(value_of("LUNE_HUGETLB", &source), "yes");
	assert_string_equal(value_of("LUNE_SPIN", &source), "-1");
	assert_string_equal(source, "default");
	ln_config_fini(&conf);
}

static void sizes_take_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = { { "4096", 4096 },	       { "64k", 65536 },
		     { "64K", 65536 },	       { "2M", 2 << 20 },
		     { "67108864", 67108864 }, { "64m", 67108864 } };

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(good); i++) {
		setenv("LUNE_TCP_SLICE", good[i].text, 1);
		assert_int_equal(ln_config_init(&conf), LUNE_OK);
		assert_int_equal(conf.tcp_slice, good[i].bytes);
		ln_config_fini(&conf);
	}
}

static void bad_values_are_refused_by_name(void **state)
{
	static const char *const bad[][2] = {
		{ "LUNE_TIMEOUT", "abc" },
		{ "LUNE_TIMEOUT", "0" },
		{ "LUNE_TIMEOUT", "12x" },
		{ "LUNE_TIMEOUT", "1.5" },
		{ "LUNE_TIMEOUT", "99999999999999999999" },
		{ "LUNE_TIMEOUT", "86400001" },
		{ "LUNE_SPIN", "-2" },
		{ "LUNE_TCP_SLICE", "-1" },
		{ "LUNE_TCP_SLICE", " 65536" },
		{ "LUNE_TCP_SLICE", "4095" },
		{ "LUNE_TCP_SLICE", "1Q" },
		{ "LUNE_TCP_SLICE", "1kk" },
		{ "LUNE_TCP_SLICE", "65M" },
		{ "LUNE_TCP_SLICE", "18446744073709551615G" },
		{ "LUNE_TCP_SLICE", "17179869184G" },
		/* 2^54 + 4: shifted, the top bit falls out and 4096 stays. */
		{ "LUNE_TCP_SLICE", "18014398509481988k" },
		{ "LUNE_HUGETLB", "maybe" },
		{ "LUNE_PROGRESS", "threads" },
		{ "LUNE_PROGRESS", "thread|manual" },
		{ "LUNE_LOG", "loud" },
		{ "LUNE_TRANSPORTS", "shm,udp" },
		{ "LUNE_TRANSPORTS", "shm,,tcp" },
		{ "LUNE_TRANSPORTS", "tcp," },
	};

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(bad); i++) {
		clearenv();
		setenv(bad[i][0], bad[i][1], 1);
		assert_int_equal(ln_config_init(&conf), LUNE_ERR_INVAL);
		assert_non_null(strstr(lune_last_error(), bad[i][0]));
		assert_non_null(strstr(lune_last_error(), bad[i][1]));
		assert_non_null(strstr(lune_last_error(), "must be"));
	}
}

static void lists_and_choices_are_taken(void **state)
{
	(void)state;
	setenv("LUNE_TRANSPORTS", "tcp", 1);
	setenv("LUNE_SHM_MODES", "ring,map", 1);
	setenv("LUNE_PROGRESS", "manual", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_string_equal(conf.transports, "tcp");
	assert_string_equal(conf.shm_modes, "ring,map");
	assert_string_equal(conf.progress, "manual");
	ln_config_fini(&conf);
}

static void set_but_empty_is_the_default(void **state)
{
	(void)state;
	setenv("LUNE_TIMEOUT", "", 1);
	setenv("LUNE_TRANSPORTS", "", 1);
	setenv("LUNE_NODE", "", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(conf.timeout, 30000);
	assert_string_equal(conf.transports, "self,shm,tcp,verbs");
	ln_config_fini(&conf);
}

static char warned[4][300];
static int warnings;

static void take(void *arg, int level, const char *line)
{
	(void)arg;
	assert_int_equal(level, LUNE_LOG_WARN);
	if (warnings < 4)
		snprintf(warned[warnings], sizeof(warned[0]), "%s", line);
	warnings++;
}

static void an_unknown_variable_is_warned_about(void **state)
{
	(void)state;
	setenv("LUNE_TIMEOT", "5", 1);
	setenv("LUNE_QQQQQQQQQQQQQQQ", "5", 1);
	setenv("LUNE_TEST_ANYTHING", "5", 1);
	setenv("LUNA_X", "5", 1);
	warnings = 0;
	lune_log_sink(take, NULL);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	lune_log_sink(NULL, NULL);
	assert_int_equal(warnings, 2);
	assert_non_null(strstr(warned[0], "LUNE_TIMEOT "));
	assert_non_null(strstr(warned[0], "did you mean LUNE_TIMEOUT?"));
	assert_non_null(strstr(warned[1], "LUNE_QQQQQQQQQQQQQQQ"));
	assert_null(strstr(warned[1], "did you mean"));
	ln_config_fini(&conf);
}

static void a_huge_unknown_name_does_no_harm(void **state)
{
	char name[3000];

	(void)state;
	memset(name, 'A', sizeof(name));
	memcpy(name, "LUNE_", 5);
	name[sizeof(name) - 1] = '\0';
	setenv(name, "1", 1);
	warnings = 0;
	lune_log_sink(take, NULL);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	lune_log_sink(NULL, NULL);
	assert_int_equal(warnings, 1);
	ln_config_fini(&conf);
}

static void any_allocation_may_fail(void **state)
{
	long n = 1;

	(void)state;
	setenv("LUNE_NODE", "x", 1);
	for (;; n++) {
		ln_alloc_fail_after(n);
		if (!ln_config_init(&conf))
			break;
	}
	ln_alloc_fail_after(0);
	assert_true(n > 5);
	ln_config_fini(&conf);
	/* Twice is harmless. */
	ln_config_fini(&conf);
}

static void the_log_level_follows_the_variable(void **state)
{
	(void)state;
	setenv("LUNE_LOG", "debug", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(atomic_load(&ln_log_level), LUNE_LOG_DEBUG);
	ln_config_fini(&conf);
	unsetenv("LUNE_LOG");
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(atomic_load(&ln_log_level), LUNE_LOG_WARN);
	ln_config_fini(&conf);
	/* The program's word is the last. */
	lune_log_set_level(LUNE_LOG_ERROR);
	setenv("LUNE_LOG", "debug", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(atomic_load(&ln_log_level), LUNE_LOG_ERROR);
	ln_config_fini(&conf);
}

static void the_launcher_is_read_as_it_is(void **state)
{
	(void)state;
	setenv("RANK", "3", 1);
	assert_string_equal(ln_config_launcher("RANK"), "3");
	assert_null(ln_config_launcher("WORLD_SIZE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_default_is_a_good_value,
				       clean_env),
		cmocka_unit_test_setup(the_environment_wins_over_the_default,
				       clean_env),
		cmocka_unit_test_setup(sizes_take_units, clean_env),
		cmocka_unit_test_setup(bad_values_are_refused_by_name,
				       clean_env),
		cmocka_unit_test_setup(lists_and_choices_are_taken, clean_env),
		cmocka_unit_test_setup(set_but_empty_is_the_default, clean_env),
		cmocka_unit_test_setup(an_unknown_variable_is_warned_about,
				       clean_env),
		cmocka_unit_test_setup(a_huge_unknown_name_does_no_harm,
				       clean_env),
		cmocka_unit_test_setup(any_allocation_may_fail, clean_env),
		cmocka_unit_test_setup(the_launcher_is_read_as_it_is,
				       clean_env),
		/* Last: it sets the level for good. */
		cmocka_unit_test_setup(the_log_level_follows_the_variable,
				       clean_env),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
