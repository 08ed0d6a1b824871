/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The torch bootstrap against a store of our own: it meets there, it is not
 * misled by what earlier worlds left, and falls back where the store is none.
 */
#include "tests/boot/store.h"
#include "tests/boot/world.h"

/* Flags: ranks that are through; ranks of the first run that are over. */
enum { DONE = 1, OVER = 9 };

static char port_var[64], size_var[64];
static const char *env[] = { "LUNE_BOOTSTRAP", "RANK={rank}", size_var,
			     "MASTER_ADDR=127.0.0.1", port_var,
			     "TORCHELASTIC_RUN_ID=run",
			     "TORCHELASTIC_RESTART_COUNT=3",
			     "TORCHELASTIC_USE_AGENT_STORE=True", NULL };
static enum store_kind kind;
static int port;

static int serve(int rank, int n, void *arg)
{
	(void)rank;
	(void)arg;
	store_serve(port, kind, DONE, n);
	return 0;
}

static int run_ranks(ranks_fn *fn, int n, int size)
{
	struct ranks_opts o = { .n = n, .fn = fn, .env = env,
				.control = serve };

	port = ranks_free_port();
	snprintf(port_var, sizeof(port_var), "MASTER_PORT=%d", port);
	snprintf(size_var, sizeof(size_var), "WORLD_SIZE=%d", size);
	return ranks_run(&o);
}

static int meet(int rank, int n, const char *by)
{
	struct ln_boot_card *cards;
	struct member m;

	CHECK_OK(member_open(&m, NULL, 15000));
	CHECK_EQ(ln_boot_info(m.b)->rank, rank);
	CHECK_EQ(ln_boot_info(m.b)->size, n);
	CHECK_EQ(ln_boot_info(m.b)->epoch, 3);
	CHECK_MSG(strstr(ln_boot_info(m.b)->url, by), "%s",
		  ln_boot_info(m.b)->url);
	CHECK_OK(member_exchange(&m, &cards));
	member_check(&m, cards);
	member_close(&m);
	return 0;
}

static int meet_in_store(int rank, int n, void *arg)
{
	(void)arg;
	meet(rank, n, "store");
	ranks_add(DONE, 1);
	return 0;
}

static void ranks_meet_in_the_store(void **state)
{
	(void)state;
	kind = STORE_GOOD;
	assert_int_equal(run_ranks(meet_in_store, 2, 2), 0);
	assert_int_equal(run_ranks(meet_in_store, 8, 8), 0);
}

/* The same processes again, over what they left in the store. */
static int meet_many_times(int rank, int n, void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		meet(rank, n, "store");
	ranks_add(DONE, 1);
	return 0;
}

static void worlds_follow_each_other_in_one_store(void **state)
{
	(void)state;
	kind = STORE_GOOD;
	assert_int_equal(run_ranks(meet_many_times, 3, 3), 0);
}

/*
 * All are started again with the same restart count, as torchrun does when a
 * node joins: some had come no further than the log, some to the end.  It
 * ends all of them before it starts the first anew.
 */
static int meet_again(int rank, int n, void *arg)
{
	struct member m;

	(void)arg;
	if (!ranks_incarnation()) {
		if (rank != 2)
			member_open(&m, NULL, 300);
		ranks_add(OVER, 1);
		ranks_wait(OVER, 3);
		ranks_restart(rank);
		return 0;
	}
	meet(rank, n, "store");
	ranks_add(DONE, 1);
	return 0;
}

static void leftovers_of_dead_ranks_mislead_nobody(void **state)
{
	(void)state;
	kind = STORE_GOOD;
	assert_int_equal(run_ranks(meet_again, 3, 3), 0);
}

/* Ranks 0 and 1 of 4 come. */
static int half(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)n;
	(void)arg;
	if (rank) {
		CHECK_OK(member_open(&m, NULL, 1500));
		CHECK_RC(member_exchange(&m, &cards), LUNE_ERR_TIMEOUT);
	} else {
		CHECK_RC(member_open(&m, NULL, 1500), LUNE_ERR_TIMEOUT);
	}
	CHECK_SAYS("ranks 2..3 of 4 did not join within");
	member_close(&m);
	ranks_add(DONE, 1);
	return 0;
}

static void missing_ranks_are_named(void **state)
{
	(void)state;
	kind = STORE_GOOD;
	assert_int_equal(run_ranks(half, 2, 4), 0);
}

static int meet_by_tcp(int rank, int n, void *arg)
{
	(void)arg;
	meet(rank, n, "tcp");
	ranks_add(DONE, 1);
	return 0;
}

static void a_store_that_is_none_is_not_used(void **state)
{
	static const enum store_kind kinds[] = { STORE_SILENT, STORE_CLOSES,
						 STORE_GARBAGE };

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(kinds); i++) {
		kind = kinds[i];
		assert_int_equal(run_ranks(meet_by_tcp, 3, 3), 0);
	}
}

static int lose_the_store(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)rank;
	(void)n;
	(void)arg;
	/* The first card ends it, which rank 0 may meet while still joining. */
	if (!member_open(&m, NULL, 15000))
		CHECK_RC(member_exchange(&m, &cards), LUNE_ERR_BOOT);
	CHECK_SAYS("torchrun's store at 127.0.0.1");
	member_close(&m);
	ranks_add(DONE, 1);
	return 0;
}

static void a_store_that_goes_away_is_an_error(void **state)
{
	(void)state;
	kind = STORE_STOPS;
	assert_int_equal(run_ranks(lose_the_store, 2, 2), 0);
}

static int bad_environment(int rank, int n, void *arg)
{
	static const char *const bad[][2] = {
		{ "RANK", "x" },	 { "RANK", "2" },
		{ "RANK", "" },		 { "WORLD_SIZE", "0" },
		{ "MASTER_PORT", "0" },	 { "MASTER_PORT", "" },
		{ "MASTER_ADDR", "" },	 { "LOCAL_RANK", "-1" },
		{ "TORCHELASTIC_RESTART_COUNT", "1x" },
	};
	struct member m;

	(void)rank;
	(void)n;
	(void)arg;
	for (size_t i = 0; i < LN_ARRAY_SIZE(bad); i++) {
		const char *old = getenv(bad[i][0]);
		char *copy = old ? strdup(old) : NULL;

		setenv(bad[i][0], bad[i][1], 1);
		CHECK_RC(member_open(&m, "torch:", 1000), LUNE_ERR_BOOT);
		CHECK_SAYS(bad[i][0]);
		member_close(&m);
		if (copy)
			setenv(bad[i][0], copy, 1);
		else
			unsetenv(bad[i][0]);
		free(copy);
	}
	ranks_add(DONE, 1);
	return 0;
}

static void bad_variables_are_named(void **state)
{
	(void)state;
	kind = STORE_GOOD;
	assert_int_equal(run_ranks(bad_environment, 1, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_meet_in_the_store),
		cmocka_unit_test(worlds_follow_each_other_in_one_store),
		cmocka_unit_test(leftovers_of_dead_ranks_mislead_nobody),
		cmocka_unit_test(missing_ranks_are_named),
		cmocka_unit_test(a_store_that_is_none_is_not_used),
		cmocka_unit_test(a_store_that_goes_away_is_an_error),
		cmocka_unit_test(bad_variables_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
