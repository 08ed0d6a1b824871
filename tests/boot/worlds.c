/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/meta.h"
#include "tests/boot/world.h"
#include "tests/boot/worlds.h"

static const char *service;
static char job[64]; /* another one for each test */

static int new_job(void **state)
{
	static int count;

	(void)state;
	snprintf(job, sizeof(job), "job-%d", count++);
	return 0;
}

static const char *fixed_url(int rank, int size)
{
	static char url[256];
	int n = snprintf(url, sizeof(url), "%s/%s?size=%d", service, job, size);

	if (rank >= 0)
		snprintf(url + n, sizeof(url) - (size_t)n, "&rank=%d", rank);
	return url;
}

static const char *elastic_url(void)
{
	static char url[256];

	snprintf(url, sizeof(url), "%s/%s", service, job);
	return url;
}

/* How many records of the job have this in their key. */
static size_t count_records(const char *what)
{
	struct ln_meta_list l;
	struct ln_meta *m;
	char prefix[128];
	size_t count = 0;

	CHECK_OK(ln_meta_open(service, &m));
	snprintf(prefix, sizeof(prefix), "lune/%s/", job);
	CHECK_OK(ln_meta_list(m, prefix, ln_deadline(5000, 0), &l));
	for (size_t i = 0; i < l.count; i++)
		count += strstr(l.records[i].key, what) != NULL;
	ln_meta_list_fini(&l);
	ln_meta_close(m);
	return count;
}

/* ---- fixed worlds -------------------------------------------------------- */

static int given_ranks(int rank, int n, void *arg)
{
	(void)arg;
	member_run(fixed_url(rank, n), rank, n);
	return 0;
}

static int claimed_ranks(int rank, int n, void *arg)
{
	_Atomic int *taken = ranks_scratch();
	struct ln_boot_card *cards;
	struct member m;

	(void)rank;
	(void)arg;
	CHECK_OK(member_open(&m, fixed_url(-1, n), 20000));
	CHECK_EQ(taken[ln_boot_info(m.b)->rank]++, 0);
	CHECK_OK(member_exchange(&m, &cards));
	member_check(&m, cards);
	member_close(&m);
	return 0;
}

static void ranks_are_given_or_claimed(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = given_ranks };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
	o.fn = claimed_ranks;
	assert_int_equal(ranks_run(&o), 0);
	o.n = 1;
	assert_int_equal(ranks_run(&o), 0);
}

static int again_and_again(int rank, int n, void *arg)
{
	(void)arg;
	for (int i = 0; i < 5; i++)
		member_run(fixed_url(i & 1 ? rank : -1, n), -1, n);
	return 0;
}

static void worlds_of_one_name_follow_each_other(void **state)
{
	struct ranks_opts o = { .n = 3, .fn = again_and_again };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* Ranks 0 and 2 of 4. */
static int two_of_four(int rank, int n, void *arg)
{
	struct member m;

	(void)n;
	(void)arg;
	CHECK_RC(member_open(&m, fixed_url(2 * rank, 4), 2000),
		 LUNE_ERR_TIMEOUT);
	CHECK_SAYS("ranks 1 and 3 of 4 did not join");
	member_close(&m);
	return 0;
}

static void missing_ranks_are_named(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = two_of_four };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/*
 * A run is killed while it forms, its records still there; the next one comes
 * at once.
 */
static int killed_while_forming(int rank, int n, void *arg)
{
	struct member m;

	(void)arg;
	if (ranks_incarnation()) {
		member_run(fixed_url(-1, n), -1, n);
		return 0;
	}
	/* One too few, so this does not end by itself. */
	if (rank)
		member_open(&m, fixed_url(-1, n), 30000);
	ranks_wait(1, 2);
	return 0;
}

/* All die before the first of them comes back. */
static void restart_all(int n)
{
	for (int i = 0; i < n; i++)
		ranks_kill(i);
	for (int i = 0; i < n; i++)
		ranks_restart(i);
}

static int restart_when_formed(int rank, int n, void *arg)
{
	(void)rank;
	(void)arg;
	while (count_records("/rank/") < (size_t)n - 1)
		ranks_wait_ms(1, 1, 20);
	restart_all(n);
	return 0;
}

static const char *const short_lease[] = { "LUNE_LEASE=1000", NULL };

static void a_run_that_died_forming_does_no_harm(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = killed_while_forming,
				.control = restart_when_formed,
				.env = short_lease };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* A run is killed after it was complete. */
static int killed_while_running(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)rank;
	(void)arg;
	if (ranks_incarnation()) {
		member_run(fixed_url(-1, n), -1, n);
		return 0;
	}
	CHECK_OK(member_open(&m, fixed_url(-1, n), 20000));
	CHECK_OK(member_exchange(&m, &cards));
	member_check(&m, cards);
	ranks_add(1, 1);
	ranks_wait(1, 100);
	return 0;
}

static int restart_when_complete(int rank, int n, void *arg)
{
	(void)rank;
	(void)arg;
	ranks_wait(1, (uint32_t)n);
	restart_all(n);
	return 0;
}

static void a_run_that_died_running_does_no_harm(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = killed_while_running,
				.control = restart_when_complete,
				.env = short_lease };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* Rank 2 comes while ranks 0 and 1 run under this name. */
static int one_too_many(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)arg;
	if (rank < 2) {
		CHECK_OK(member_open(&m, fixed_url(-1, 2), 20000));
		CHECK_OK(member_exchange(&m, &cards));
		member_check(&m, cards);
		ranks_barrier_of(1, n);
	} else {
		ranks_barrier_of(1, n);
		CHECK_RC(member_open(&m, fixed_url(-1, 2), 1000),
			 LUNE_ERR_TIMEOUT);
		CHECK_SAYS("a run with this name");
		member_close(&m);
		CHECK_RC(member_open(&m, fixed_url(-1, 3), 1000),
			 LUNE_ERR_BOOT);
		CHECK_SAYS("size 2");
	}
	ranks_barrier_of(2, n);
	member_close(&m);
	return 0;
}

static void a_run_that_goes_on_takes_nobody_in(void **state)
{
	struct ranks_opts o = { .n = 3, .fn = one_too_many };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int no_service(int rank, int n, void *arg)
{
	struct member m;
	char url[128];

	(void)rank;
	(void)n;
	(void)arg;
	snprintf(url, sizeof(url), "%.4s://127.0.0.1:%d/j?size=2", service,
		 ranks_free_port());
	CHECK_RC(member_open(&m, url, 700), LUNE_ERR_META);
	CHECK_SAYS("127.0.0.1:");
	member_close(&m);
	return 0;
}

static void a_service_that_is_not_there_is_named(void **state)
{
	struct ranks_opts o = { .n = 1, .fn = no_service };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* ---- elastic worlds ------------------------------------------------------ */

/* A member's card: its process. */
static int join(struct member *m)
{
	uint32_t card = (uint32_t)ranks_pid(ranks_rank());

	CHECK_OK(member_open(m, elastic_url(), 20000));
	CHECK(ln_boot_info(m->b)->elastic);
	CHECK_OK(ln_boot_join(m->b, &card, sizeof(card), m->deadline));
	return ln_boot_info(m->b)->rank;
}

/* The next change is this one. */
static void expect(struct member *m, int slot, bool left, uint64_t *epoch)
{
	struct ln_boot_member e;

	CHECK_OK(ln_boot_member_next(m->b, ln_deadline(15000, 0), &e));
	CHECK_MSG(e.slot == slot && e.left == left,
		  "slot %d %s, not slot %d %s", e.slot,
		  e.left ? "left" : "joined", slot, left ? "left" : "joined");
	CHECK(e.epoch > *epoch);
	CHECK_EQ(e.card_len, left ? 0 : 4);
	ln_free(e.card);
	*epoch = e.epoch;
}

static void expect_quiet(struct member *m)
{
	struct ln_boot_member e;

	CHECK_RC(ln_boot_member_next(m->b, ln_deadline(50, 0), &e),
		 LUNE_ERR_TIMEOUT);
}

/* Everybody meets, by number of steps done. */
static void step(int n)
{
	static unsigned id;

	ranks_barrier_of(1 + id++ % 2, n);
}

/*
 * Six members join in order; slot 2 leaves, and is taken again.
 */
static int six_members(int rank, int n, void *arg)
{
	uint64_t epoch = 0;
	struct member m;

	(void)arg;
	for (int i = 0; i < n; i++) {
		if (i == rank)
			CHECK_EQ(join(&m), i);
		step(n);
	}
	for (int i = 0; i < n; i++)
		expect(&m, i, false, &epoch);
	expect_quiet(&m);
	step(n);
	if (rank == 2) {
		member_close(&m);
		epoch = 0;
	} else {
		expect(&m, 2, true, &epoch);
	}
	step(n);
	if (rank == 2)
		CHECK_EQ(join(&m), 2);
	/* A newcomer sees all, the others see it. */
	for (int i = 0; rank == 2 && i < n; i++)
		expect(&m, i, false, &(uint64_t){ 0 });
	if (rank != 2)
		expect(&m, 2, false, &epoch);
	step(n);
	expect_quiet(&m);
	step(n);
	member_close(&m);
	return 0;
}

static void slots_are_stable_and_filled_again(void **state)
{
	struct ranks_opts o = { .n = 6, .fn = six_members,
				.env = short_lease };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* Rank 1 is killed, rank 2 is stopped for longer than its lease. */
static int deaths(int rank, int n, void *arg)
{
	uint64_t epoch = 0;
	struct member m;

	(void)arg;
	for (int i = 0; i < n; i++) {
		if (i == rank)
			CHECK_EQ(join(&m), i);
		step(n);
	}
	for (int i = 0; i < n; i++)
		expect(&m, i, false, &epoch);
	ranks_add(10, 1);
	if (rank == 1)
		ranks_wait(11, 9);
	if (rank == 2) {
		CHECK(!ln_boot_lost(m.b));
		ranks_wait(11, 1);
		/* The client notices when it comes to renew the lease. */
		while (!ln_boot_lost(m.b))
			ranks_wait_ms(11, 9, 20);
		member_close(&m);
		return 0;
	}
	expect(&m, 1, true, &epoch);
	ranks_add(12, 1);
	expect(&m, 2, true, &epoch);
	ranks_add(13, 1);
	CHECK(!ln_boot_lost(m.b));
	ranks_barrier_of(3, n - 2);
	member_close(&m);
	return 0;
}

static int bring_death(int rank, int n, void *arg)
{
	(void)rank;
	(void)arg;
	ranks_wait(10, (uint32_t)n);
	ranks_kill(1);
	ranks_wait(12, (uint32_t)n - 2);
	ranks_stop(2);
	ranks_wait(13, (uint32_t)n - 2);
	ranks_continue(2);
	ranks_set(11, 1);
	return 0;
}

static void a_lost_lease_is_leaving(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = deaths, .control = bring_death,
				.env = short_lease };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int join_at_once(int rank, int n, void *arg)
{
	_Atomic int *taken = ranks_scratch();
	uint8_t *keys = (uint8_t *)ranks_scratch() + 4096;
	uint64_t epoch = 0;
	struct member m;
	int slot;

	(void)arg;
	ranks_barrier();
	slot = join(&m);
	CHECK(slot >= 0 && slot < n);
	CHECK_EQ(taken[slot]++, 0);
	memcpy(keys + rank * LN_KEY_BYTES, ln_boot_info(m.b)->key,
	       LN_KEY_BYTES);
	ranks_barrier();
	CHECK(!memcmp(keys, keys + rank * LN_KEY_BYTES, LN_KEY_BYTES));
	for (int i = 0; i < n; i++) {
		struct ln_boot_member e;

		CHECK_OK(ln_boot_member_next(m.b, m.deadline, &e));
		CHECK(!e.left && e.epoch != epoch);
		epoch = e.epoch;
		ln_free(e.card);
	}
	ranks_barrier();
	member_close(&m);
	return 0;
}

static void many_join_at_once(void **state)
{
	struct ranks_opts o = { .n = 8, .fn = join_at_once };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int wrong_calls(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)rank;
	(void)n;
	(void)arg;
	join(&m);
	CHECK_RC(ln_boot_join(m.b, "x", 1, m.deadline), LUNE_ERR_EXIST);
	CHECK_RC(ln_boot_exchange(m.b, "x", 1, m.deadline, &cards),
		 LUNE_ERR_INVAL);
	member_close(&m);
	CHECK_EQ(count_records("/member/"), 0);
	return 0;
}

static void wrong_calls_are_refused(void **state)
{
	struct ranks_opts o = { .n = 1, .fn = wrong_calls };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

int worlds_run(const char *url)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup(f, new_job)
		T(ranks_are_given_or_claimed),
		T(worlds_of_one_name_follow_each_other),
		T(missing_ranks_are_named),
		T(a_run_that_died_forming_does_no_harm),
		T(a_run_that_died_running_does_no_harm),
		T(a_run_that_goes_on_takes_nobody_in),
		T(a_service_that_is_not_there_is_named),
		T(slots_are_stable_and_filled_again),
		T(a_lost_lease_is_leaving),
		T(many_join_at_once),
		T(wrong_calls_are_refused),
#undef T
	};

	service = url;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
