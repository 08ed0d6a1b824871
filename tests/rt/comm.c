/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: dup, split, shrink; messages that come before theirs exists;
 * members that die while the others agree.
 */
#include <stdatomic.h>
#include <unistd.h>

#include <lune/lune.h>

#include "base/base.h"
#include "tests/harness/unit.h"

#define WAIT_MS 20000

struct world {
	lune_ctx *ctx;
	lune_comm *comm;
	int rank, n;
};

static void world_open(struct world *w)
{
	CHECK_OK(lune_ctx_open(NULL, &w->ctx));
	w->comm = lune_ctx_world(w->ctx);
	w->rank = lune_comm_rank(w->comm);
	w->n = lune_comm_size(w->comm);
}

/* The world ranks of a communicator's members. */
static int members(struct world *w, lune_comm *c, int *out)
{
	CHECK_OK(lune_allgather(c, &w->rank, sizeof(int), out, WAIT_MS));
	return lune_comm_size(c);
}

static void run(ranks_fn *fn, int n, ranks_fn *control, void *arg)
{
	static const char *const env[] = { "LUNE_HEARTBEAT=200",
					   "LUNE_PEER_TIMEOUT=1500", NULL };
	struct ranks_opts o = { .n = n, .fn = fn, .control = control,
				.arg = arg, .env = env, .timeout_ms = 60000 };

	assert_int_equal(ranks_run(&o), 0);
}

/* ---- dup and split ------------------------------------------------------ */

static int dup_body(int rank, int n, void *arg)
{
	int got[RANKS_MAX];
	lune_comm *a, *b;
	struct world w;

	(void)arg;
	world_open(&w);
	CHECK_OK(lune_comm_dup(w.comm, WAIT_MS, &a));
	CHECK_OK(lune_comm_dup(a, WAIT_MS, &b));
	CHECK_EQ(lune_comm_rank(b), rank);
	CHECK_EQ(members(&w, b, got), n);
	for (int r = 0; r < n; r++)
		CHECK_EQ(got[r], r);
	/* Independent: one may be in use while another is not. */
	if (rank == 0)
		CHECK_OK(lune_barrier(lune_ctx_self(w.ctx), WAIT_MS));
	CHECK_OK(lune_barrier(a, WAIT_MS));
	lune_comm_close(a);
	CHECK_OK(lune_barrier(b, WAIT_MS));
	lune_comm_close(b);
	return lune_ctx_close(w.ctx, 2000);
}

static int split_body(int rank, int n, void *arg)
{
	struct lune_split how = { rank % 2, -rank };
	int got[RANKS_MAX], size;
	lune_comm *half, *again;
	struct world w;

	(void)arg;
	world_open(&w);
	/* Odd and even, in the opposite order. */
	CHECK_OK(lune_comm_split(w.comm, &how, WAIT_MS, &half));
	size = members(&w, half, got);
	CHECK_EQ(size, (n + !(rank % 2)) / 2);
	for (int i = 0; i < size; i++)
		CHECK_EQ(got[size - 1 - i], 2 * i + rank % 2);
	/* A split of a split; its last member takes no part. */
	how.color = lune_comm_rank(half) == size - 1 ? LUNE_COMM_NO_COLOR : 9;
	how.key = 0;
	again = half;
	CHECK_OK(lune_comm_split(half, &how, WAIT_MS, &again));
	if (how.color == LUNE_COMM_NO_COLOR) {
		CHECK(!again);
	} else {
		CHECK_EQ(members(&w, again, got), size - 1);
		lune_comm_close(again);
	}
	lune_comm_close(half);
	CHECK_OK(lune_barrier(w.comm, WAIT_MS));
	return lune_ctx_close(w.ctx, 2000);
}

/* Rank 0 uses the new communicator long before rank 1 has made it. */
static int early_body(int rank, int n, void *arg)
{
	struct lune_notify note = { .rank = 1 };
	struct world w;
	lune_comm *c;

	(void)n;
	(void)arg;
	world_open(&w);
	for (int round = 0; round < 200; round++) {
		CHECK_OK(lune_comm_dup(w.comm, WAIT_MS, &c));
		note.tag = (uint64_t)round;
		if (rank == 0)
			CHECK_OK(lune_notify_send(c, &note, NULL));
		else
			CHECK_OK(lune_notify_recv(c, WAIT_MS, &note));
		CHECK_EQ(note.tag, round);
		note.rank = 1;
		lune_comm_close(c);
	}
	CHECK_OK(lune_barrier(w.comm, WAIT_MS));
	return lune_ctx_close(w.ctx, 2000);
}

static int disagree_body(int rank, int n, void *arg)
{
	struct lune_split how = { 0, 0 };
	lune_comm *c = NULL;
	struct world w;

	(void)n;
	(void)arg;
	world_open(&w);
	if (rank == 1)
		CHECK_RC(lune_comm_split(w.comm, &how, WAIT_MS, &c),
			 LUNE_ERR_INVAL);
	else
		CHECK_RC(lune_comm_dup(w.comm, WAIT_MS, &c), LUNE_ERR_INVAL);
	CHECK(!c);
	how.color = -2;
	CHECK_RC(lune_comm_split(w.comm, &how, WAIT_MS, &c), LUNE_ERR_INVAL);
	CHECK_OK(lune_comm_dup(w.comm, WAIT_MS, &c));
	lune_comm_close(c);
	return lune_ctx_close(w.ctx, 2000);
}

/* Who gave up may try again: it is the same agreement. */
static int again_body(int rank, int n, void *arg)
{
	struct world w;
	lune_comm *c;

	(void)n;
	(void)arg;
	world_open(&w);
	if (rank == 2) {
		ranks_wait(1, 2);
	} else {
		CHECK_RC(lune_comm_dup(w.comm, 100, &c), LUNE_ERR_TIMEOUT);
		CHECK(rank || strstr(lune_last_error(), "2"));
		ranks_add(1, 1);
	}
	CHECK_OK(lune_comm_dup(w.comm, WAIT_MS, &c));
	CHECK_OK(lune_barrier(c, WAIT_MS));
	lune_comm_close(c);
	return lune_ctx_close(w.ctx, 2000);
}

static void dup_gives_the_same_members(void **state)
{
	(void)state;
	run(dup_body, 1, NULL, NULL);
	run(dup_body, 4, NULL, NULL);
}

static void split_sorts_by_color_and_key(void **state)
{
	(void)state;
	for (int n = 1; n <= 6; n++)
		run(split_body, n, NULL, NULL);
}

static void early_messages_wait(void **state)
{
	(void)state;
	run(early_body, 2, NULL, NULL);
}

static void members_that_disagree_are_told(void **state)
{
	(void)state;
	run(disagree_body, 3, NULL, NULL);
}

static void who_gave_up_may_try_again(void **state)
{
	(void)state;
	run(again_body, 3, NULL, NULL);
}

/* ---- shrink ------------------------------------------------------------- */

#define N 6
#define FLAG_GO 1

struct plan {
	int victims[2], count;
	int after; /* shrinks, then the victims die */
	bool stop;
};

/* Kill or stop them while the others shrink again and again. */
static int control(int rank, int n, void *arg)
{
	const struct plan *p = arg;

	(void)rank;
	(void)n;
	ranks_wait(FLAG_GO, (uint32_t)p->after);
	for (int i = 0; i < p->count; i++) {
		if (p->stop)
			ranks_stop(p->victims[i]);
		else
			ranks_kill(p->victims[i]);
	}
	return 0;
}

static bool is_victim(const struct plan *p, int rank)
{
	for (int i = 0; i < p->count; i++)
		if (p->victims[i] == rank)
			return true;
	return false;
}

static void check_living(const struct plan *p, const int *got, int size)
{
	int i = 0;

	CHECK_EQ(size, N - p->count);
	for (int r = 0; r < N; r++)
		if (!is_victim(p, r))
			CHECK_EQ(got[i++], r);
}

/* Shrink until nobody is missing that should be, as a program would. */
static int shrink_body(int rank, int n, void *arg)
{
	const struct plan *p = arg;
	int got[N], size = n, count, failed[N], rc;
	lune_comm *now, *next;
	struct world w;

	world_open(&w);
	CHECK_OK(lune_comm_dup(w.comm, WAIT_MS, &now));
	while (size > n - p->count) {
		CHECK_OK(lune_comm_shrink(now, WAIT_MS, &next));
		ranks_add(FLAG_GO, 1);
		lune_comm_close(now);
		now = next;
		size = lune_comm_size(now);
		/* All of now's members agree on what comes next. */
		rc = lune_barrier(now, WAIT_MS);
		CHECK_MSG(!rc || rc == LUNE_ERR_PEER, "the barrier gave %s: %s",
			  lune_strcode(rc), lune_last_error());
	}
	CHECK(!is_victim(p, rank));
	CHECK_OK(lune_comm_shrink(now, WAIT_MS, &next));
	check_living(p, got, members(&w, next, got));
	CHECK_OK(lune_comm_failed(w.comm, failed, N, &count));
	CHECK_EQ(count, p->count);
	for (int r = 0; r < N; r++)
		CHECK(!is_victim(p, r) || !lune_comm_alive(w.comm, r));
	CHECK_OK(lune_barrier(next, WAIT_MS));
	lune_comm_close(now);
	lune_comm_close(next);
	return lune_ctx_close(w.ctx, 2000);
}

static void one_dies_while_the_others_shrink(void **state)
{
	(void)state;
	for (int v = 0; v < N; v++) {
		struct plan p = { .victims = { v }, .count = 1,
				  .after = 20 + 7 * v };

		run(shrink_body, N, control, &p);
	}
}

static void two_die_while_the_others_shrink(void **state)
{
	static const int pairs[][2] = { { 0, 1 }, { 1, 0 }, { 0, 5 },
					{ 2, 4 } };

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct plan p = { .victims = { pairs[i][0], pairs[i][1] },
				  .count = 2, .after = 15 + 11 * (int)i };

		run(shrink_body, N, control, &p);
	}
}

static void one_stops_while_the_others_shrink(void **state)
{
	struct plan first = { .victims = { 0 }, .count = 1, .after = 30,
			      .stop = true };
	struct plan last = { .victims = { N - 1 }, .count = 1, .after = 30,
			     .stop = true };

	(void)state;
	run(shrink_body, N, control, &first);
	run(shrink_body, N, control, &last);
}

/* Nobody had a connection to the dead one. */
static int strangers_body(int rank, int n, void *arg)
{
	struct world w;
	lune_comm *c;

	(void)arg;
	world_open(&w);
	ranks_barrier();
	if (rank == 1)
		ranks_wait(2, 1);
	if (rank == 0) {
		ranks_kill(1);
		ranks_set(3, 1);
	}
	ranks_wait(3, 1);
	CHECK_OK(lune_comm_shrink(w.comm, WAIT_MS, &c));
	CHECK_EQ(lune_comm_size(c), n - 1);
	CHECK_OK(lune_barrier(c, WAIT_MS));
	CHECK_RC(lune_barrier(w.comm, WAIT_MS), LUNE_ERR_PEER);
	CHECK_RC(lune_barrier(w.comm, WAIT_MS), LUNE_ERR_PEER);
	lune_comm_close(c);
	CHECK_RC(lune_comm_dup(w.comm, WAIT_MS, &c), LUNE_ERR_PEER);
	return lune_ctx_close(w.ctx, 2000);
}

static void the_dead_need_no_connection(void **state)
{
	(void)state;
	run(strangers_body, 4, NULL, NULL);
}

/* ---- memory ------------------------------------------------------------- */

/* The n-th allocation in rank 0 fails: an error or none, no hang. */
static int nomem_body(int rank, int n, void *arg)
{
	struct lune_split how = { 0, 0 };
	lune_comm *c;
	struct world w;
	int rc;

	(void)n;
	world_open(&w);
	CHECK_OK(lune_barrier(w.comm, WAIT_MS));
	if (rank == 0)
		ln_alloc_fail_after(*(long *)arg);
	rc = lune_comm_split(w.comm, &how, 5000, &c);
	ln_alloc_fail_after(0);
	if (!rc)
		lune_comm_close(c);
	else
		CHECK(rank || *lune_last_error());
	/* Nobody tears a connection down that another still needs. */
	ranks_barrier();
	return lune_ctx_close(w.ctx, 2000);
}

static void split_survives_any_failed_allocation(void **state)
{
	(void)state;
	for (long n = 1; n <= 16; n++)
		run(nomem_body, 2, NULL, &n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dup_gives_the_same_members),
		cmocka_unit_test(split_sorts_by_color_and_key),
		cmocka_unit_test(early_messages_wait),
		cmocka_unit_test(members_that_disagree_are_told),
		cmocka_unit_test(who_gave_up_may_try_again),
		cmocka_unit_test(one_dies_while_the_others_shrink),
		cmocka_unit_test(two_die_while_the_others_shrink),
		cmocka_unit_test(one_stops_while_the_others_shrink),
		cmocka_unit_test(the_dead_need_no_connection),
		cmocka_unit_test(split_survives_any_failed_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
