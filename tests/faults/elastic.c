/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic world of six through a real etcd: members join one after the
 * other, one leaves, one is killed, one comes back in the free slot; slots
 * stay, changes are reported, and the living make a dense communicator and
 * use it.
 */
#include <lune/lune.h>

#include "tests/harness/unit.h"
#include "tests/meta/etcd_server.h"

#define N 6
#define LEAVER 1
#define VICTIM 4
#define FLAG_JOINED 1	/* members in */
#define FLAG_SHRUNK 2
#define FLAG_GONE 3	/* who has seen the two go */
#define FLAG_BACK 4
#define FLAG_END 5
#define MEET_ALL 20
#define MEET_FOUR 21
#define MEET_FIVE 22

static bool live(lune_comm *w, int slot)
{
	return slot < lune_comm_size(w) && lune_comm_alive(w, slot);
}

static int living(lune_comm *w)
{
	int n = 0;

	for (int s = 0; s < lune_comm_size(w); s++)
		n += live(w, s);
	return n;
}

/* Follow the events until so many live. */
static void until_living(lune_comm *w, int n)
{
	struct lune_member_event ev;

	while (living(w) != n) {
		CHECK_OK(lune_comm_event(w, 20000, &ev));
		CHECK(ev.rank >= 0 && ev.rank < N);
	}
}

static void use(lune_comm *w, int n)
{
	lune_comm *dense;
	int slots[N], mine = lune_comm_rank(w);

	CHECK_OK(lune_comm_shrink(w, 20000, &dense));
	CHECK_EQ(lune_comm_size(dense), n);
	CHECK_OK(lune_allgather(dense, &mine, sizeof(mine), slots, 10000));
	for (int i = 1; i < n; i++)
		CHECK(slots[i] > slots[i - 1]);
	CHECK_OK(lune_barrier(dense, 10000));
	lune_comm_close(dense);
}

static int join(lune_ctx **ctx, lune_comm **w)
{
	CHECK_OK(lune_ctx_open(NULL, ctx));
	*w = lune_ctx_world(*ctx);
	return lune_comm_rank(*w);
}

/* The one that comes back: a new process of the killed one. */
static int newcomer(void)
{
	lune_ctx *ctx;
	lune_comm *w;
	int slot = join(&ctx, &w);

	CHECK_MSG(slot == LEAVER || slot == VICTIM, "slot %d", slot);
	until_living(w, N - 1);
	ranks_barrier_of(MEET_FIVE, N - 1);
	use(w, N - 1);
	ranks_barrier_of(MEET_FIVE, N - 1);
	return lune_ctx_close(ctx, 5000);
}

static int member(int rank, int n, void *arg)
{
	lune_ctx *ctx;
	lune_comm *w;
	int slot;

	(void)n;
	(void)arg;
	if (ranks_incarnation())
		return newcomer();
	/* One after the other, so that slots are known. */
	ranks_wait(FLAG_JOINED, (uint32_t)rank);
	slot = join(&ctx, &w);
	CHECK_EQ(slot, rank);
	ranks_add(FLAG_JOINED, 1);
	until_living(w, N);
	ranks_barrier_of(MEET_ALL, N);
	use(w, N);
	ranks_barrier_of(MEET_ALL, N);
	if (rank == LEAVER)
		return lune_ctx_close(ctx, 5000);
	if (rank == VICTIM) {
		ranks_add(FLAG_END, 1);
		ranks_wait_ms(63, 1, 60000); /* until it is killed */
		return 1;
	}
	if (rank == 0) {
		ranks_wait(FLAG_END, 1);
		ranks_kill(VICTIM);
	}
	until_living(w, N - 2);
	CHECK(!live(w, LEAVER) && !live(w, VICTIM));
	CHECK_EQ(lune_comm_rank(w), rank);
	ranks_barrier_of(MEET_FOUR, N - 2);
	use(w, N - 2);
	ranks_barrier_of(MEET_FOUR, N - 2);
	if (rank == 0)
		ranks_restart(VICTIM);
	until_living(w, N - 1);
	ranks_barrier_of(MEET_FIVE, N - 1);
	use(w, N - 1);
	ranks_barrier_of(MEET_FIVE, N - 1);
	return lune_ctx_close(ctx, 5000);
}

static struct etcd etcd;

static void six_join_leave_die_and_return(void **state)
{
	char url[128];
	const char *env[] = { url, "LUNE_LEASE=2000", "LUNE_HEARTBEAT=200",
			      "LUNE_PEER_TIMEOUT=2000", NULL };
	struct ranks_opts o = { .n = N, .fn = member, .env = env,
				.timeout_ms = 90000 };

	(void)state;
	snprintf(url, sizeof(url),
		 "LUNE_BOOTSTRAP=etcd://127.0.0.1:%d/elastic",
		 etcd.member[0].port);
	assert_int_equal(ranks_run(&o), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(six_join_leave_die_and_return),
	};
	int rc;

	etcd_find(&etcd);
	if (etcd_start(&etcd, 1)) {
		fprintf(stderr, "etcd did not start\n");
		return 1;
	}
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	etcd_stop(&etcd);
	return rc;
}
