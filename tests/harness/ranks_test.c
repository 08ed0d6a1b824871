/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness itself: it must fail a run that should fail, in time.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/harness/unit.h"

static int sees_its_place(int rank, int n, void *arg)
{
	const char *url = getenv("LUNE_BOOTSTRAP");
	char end[64];
	uint8_t *scratch = ranks_scratch();

	CHECK(arg == NULL);
	CHECK_EQ(ranks_rank(), rank);
	CHECK_EQ(ranks_size(), n);
	CHECK_EQ(ranks_incarnation(), 0);
	snprintf(end, sizeof(end), "?rank=%d&size=%d", rank, n);
	CHECK(url && strstr(url, end) && !strncmp(url, "tcp://", 6));
	snprintf(end, sizeof(end), "n%d", rank);
	CHECK(!strcmp(getenv("LUNE_NODE"), end));
	CHECK(!strcmp(getenv("LUNE_JOB"), rank == 1 ? "other" : "all"));
	CHECK(getenv("LUNE_LOG") == NULL);
	scratch[rank] = (uint8_t)(rank + 1);
	ranks_barrier();
	for (int i = 0; i < n; i++)
		CHECK_EQ(scratch[i], i + 1);
	/* A barrier that let somebody through early would show here. */
	for (int round = 1; round <= 200; round++) {
		ranks_add(1, 1);
		ranks_barrier();
		CHECK_EQ(ranks_get(1), round * n);
		ranks_barrier();
	}
	return 0;
}

static void ranks_see_their_place(void **state)
{
	static const char *const env[] = { "LUNE_NODE=n{rank}", "LUNE_JOB=all",
					   "1:LUNE_JOB=other", "LUNE_LOG",
					   NULL };
	struct ranks_opts o = { .n = 4, .fn = sees_its_place, .env = env };

	(void)state;
	setenv("LUNE_LOG", "info", 1);
	assert_int_equal(ranks_run(&o), 0);
}

static int rank_2_fails(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	fprintf(stderr, "a line of rank %d\n", rank);
	CHECK_EQ(rank == 2, 0);
	return 0;
}

static void a_failed_check_fails_the_run(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = rank_2_fails };

	(void)state;
	assert_int_equal(ranks_run(&o), 1);
}

static int rank_0_returns_3(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	return rank ? 0 : 3;
}

static void a_bad_return_fails_the_run(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = rank_0_returns_3 };

	(void)state;
	assert_int_equal(ranks_run(&o), 1);
}

static int rank_1_crashes(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	if (rank == 1)
		raise(SIGKILL);
	ranks_wait(0, 1); /* Never: the run must end all the same. */
	return 0;
}

static void a_death_fails_the_run_and_ends_it(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = rank_1_crashes };
	int64_t start = ranks_now_ms();

	(void)state;
	assert_int_equal(ranks_run(&o), 2);
	assert_true(ranks_now_ms() - start < 20000 * ranks_scale());
}

static int rank_1_hangs(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	while (rank == 1)
		pause();
	return 0;
}

static void a_hang_ends_at_the_deadline(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = rank_1_hangs, .timeout_ms = 300 };

	(void)state;
	assert_int_equal(ranks_run(&o), 1);
}

static int waits_for_nothing(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	CHECK(!ranks_wait_ms(1, 1, 10));
	ranks_wait(0, 1 + (uint32_t)rank);
	return 0;
}

static void a_wait_ends_before_the_deadline(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = waits_for_nothing,
				.timeout_ms = 300 };

	(void)state;
	assert_int_equal(ranks_run(&o), 2);
}

static int waits_for_control(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	if (ranks_incarnation() > 0) {
		ranks_add(2, 1);
		return 0;
	}
	ranks_add(0, 1);
	if (rank == 0) {
		ranks_wait(1, 1);
		return 0;
	}
	for (;;)
		pause();
}

static int kills_stops_restarts(int rank, int n, void *arg)
{
	(void)arg;
	CHECK_EQ(rank, RANKS_CONTROL);
	ranks_wait(0, (uint32_t)n);
	ranks_kill(1);
	CHECK(!ranks_running(1));
	ranks_stop(2);
	CHECK(ranks_running(2));
	ranks_restart(3);
	ranks_wait(2, 1);
	ranks_restart(1);
	ranks_wait(2, 2);
	ranks_set(1, 1);
	return 0;
}

static void control_kills_stops_and_restarts(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = waits_for_control,
				.control = kills_stops_restarts };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int rank_0_kills_rank_1(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	if (rank == 0) {
		ranks_kill(1);
		CHECK(!ranks_running(1));
		ranks_barrier_of(5, 1);
		return 0;
	}
	for (;;)
		pause();
}

static void a_rank_kills_another(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = rank_0_kills_rank_1 };

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(ranks_run(&o), 0);
}

static void free_ports_differ(void **state)
{
	int a = ranks_free_port(), b = ranks_free_port();

	(void)state;
	assert_true(a > 0 && b > 0);
	assert_int_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_see_their_place),
		cmocka_unit_test(a_failed_check_fails_the_run),
		cmocka_unit_test(a_bad_return_fails_the_run),
		cmocka_unit_test(a_death_fails_the_run_and_ends_it),
		cmocka_unit_test(a_hang_ends_at_the_deadline),
		cmocka_unit_test(a_wait_ends_before_the_deadline),
		cmocka_unit_test(control_kills_stops_and_restarts),
		cmocka_unit_test(a_rank_kills_another),
		cmocka_unit_test(free_ports_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
