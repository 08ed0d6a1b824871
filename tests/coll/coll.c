/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier, allgather and broadcast: every number of ranks up to 9, every root,
 * sizes around the limits of messages and blocks, and members that call
 * something else.
 */
#include <stdatomic.h>

#include <lune/lune.h>

#include "tests/harness/unit.h"

#define N_MAX 9
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

/* ---- barrier ------------------------------------------------------------ */

/* Nobody leaves before everybody has come. */
static int barrier_body(int rank, int n, void *arg)
{
	_Atomic int *entered = ranks_scratch();
	struct world w;

	(void)rank;
	(void)arg;
	world_open(&w);
	for (int round = 0; round < 50; round++) {
		/* A different rank is late each time. */
		if (round % n == w.rank)
			for (int i = 0; i < 100; i++)
				CHECK_GE0(lune_ctx_progress(w.ctx));
		atomic_fetch_add(&entered[round], 1);
		CHECK_OK(lune_barrier(w.comm, WAIT_MS));
		CHECK_EQ(entered[round], n);
	}
	CHECK_OK(lune_barrier(lune_ctx_self(w.ctx), WAIT_MS));
	return lune_ctx_close(w.ctx, 2000);
}

/* ---- allgather ---------------------------------------------------------- */

static uint8_t byte_of(int rank, size_t i, int round)
{
	return (uint8_t)(rank * 37 + (int)(i * 7) + (int)(i >> 8) + round);
}

static void gather(struct world *w, size_t bytes, int round, bool in_place)
{
	uint8_t *all = malloc((size_t)w->n * bytes + 1);
	uint8_t *own = malloc(bytes + 1), *mine;

	CHECK(all && own);
	memset(all, 0xee, (size_t)w->n * bytes + 1);
	mine = in_place ? all + (size_t)w->rank * bytes : own;
	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(w->rank, i, round);
	CHECK_OK(lune_allgather(w->comm, mine, bytes, all, WAIT_MS));
	for (int r = 0; r < w->n; r++)
		for (size_t i = 0; i < bytes; i++)
			CHECK_MSG(all[(size_t)r * bytes + i] ==
					  byte_of(r, i, round),
				  "byte %zu of rank %d of %d is wrong", i, r,
				  w->n);
	CHECK_EQ(all[(size_t)w->n * bytes], 0xee);
	free(all);
	free(own);
}

static int allgather_body(int rank, int n, void *arg)
{
	static const size_t sizes[] = { 0, 1, 7, 1026, 32768, 32769, 70000,
					200001 };
	struct world w;

	(void)rank;
	(void)n;
	(void)arg;
	world_open(&w);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		gather(&w, sizes[i], (int)i, false);
		gather(&w, sizes[i], (int)i + 100, true);
	}
	return lune_ctx_close(w.ctx, 2000);
}

/* ---- broadcast ---------------------------------------------------------- */

static void bcast(struct world *w, int root, size_t bytes)
{
	uint8_t *buf = malloc(bytes + 2);

	CHECK(buf);
	memset(buf, w->rank == root ? 0 : 0xcc, bytes + 2);
	/* Not aligned, and with a byte behind that must stay. */
	for (size_t i = 0; w->rank == root && i < bytes; i++)
		buf[1 + i] = byte_of(root, i, (int)bytes);
	buf[bytes + 1] = 0xdd;
	CHECK_OK(lune_bcast(w->comm, root, buf + 1, bytes, WAIT_MS));
	for (size_t i = 0; i < bytes; i++)
		CHECK_MSG(buf[1 + i] == byte_of(root, i, (int)bytes),
			  "byte %zu of %zu from root %d is wrong", i, bytes,
			  root);
	CHECK_EQ(buf[bytes + 1], 0xdd);
	free(buf);
}

static int bcast_body(int rank, int n, void *arg)
{
	static const size_t sizes[] = { 0, 1, 4096, 32768, 32769, 524287,
					524289, 1500000 };
	struct world w;

	(void)rank;
	(void)arg;
	world_open(&w);
	for (int root = 0; root < n; root++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			bcast(&w, root, sizes[i]);
	bcast(&w, n - 1, 9u << 20);
	return lune_ctx_close(w.ctx, 2000);
}

/* ---- members that disagree ---------------------------------------------- */

static int other_call_body(int rank, int n, void *arg)
{
	struct world w;
	char buf[64] = { 0 };
	int rc;

	(void)n;
	(void)arg;
	world_open(&w);
	if (rank == 1)
		rc = lune_bcast(w.comm, 0, buf, sizeof(buf), WAIT_MS);
	else
		rc = lune_barrier(w.comm, WAIT_MS);
	CHECK_MSG(rc == LUNE_ERR_INVAL, "got %s: %s", lune_strcode(rc),
		  lune_last_error());
	CHECK_RC(lune_barrier(w.comm, WAIT_MS), LUNE_ERR_PEER);
	return lune_ctx_close(w.ctx, 2000);
}

static int other_size_body(int rank, int n, void *arg)
{
	char *buf = calloc(1, 200000);
	struct world w;
	int rc;

	(void)n;
	(void)arg;
	CHECK(buf);
	world_open(&w);
	rc = lune_bcast(w.comm, 0, buf, rank == 1 ? 100001 : 100000, WAIT_MS);
	CHECK_MSG(rc == LUNE_ERR_INVAL, "got %s: %s", lune_strcode(rc),
		  lune_last_error());
	free(buf);
	return lune_ctx_close(w.ctx, 2000);
}

static int other_root_body(int rank, int n, void *arg)
{
	struct world w;
	char buf[64] = { 0 };
	int rc;

	(void)n;
	(void)arg;
	world_open(&w);
	rc = lune_bcast(w.comm, rank == 2 ? 1 : 0, buf, sizeof(buf), WAIT_MS);
	/* The root may have left before the others disagree. */
	if (!rc)
		rc = lune_barrier(w.comm, WAIT_MS);
	CHECK_MSG(rc == LUNE_ERR_INVAL || rc == LUNE_ERR_PEER, "got %s: %s",
		  lune_strcode(rc), lune_last_error());
	return lune_ctx_close(w.ctx, 2000);
}

static int bad_args_body(int rank, int n, void *arg)
{
	struct world w;
	char c = 0;

	(void)rank;
	(void)arg;
	world_open(&w);
	CHECK_RC(lune_bcast(w.comm, n, &c, 1, WAIT_MS), LUNE_ERR_INVAL);
	CHECK_RC(lune_bcast(w.comm, -1, &c, 1, WAIT_MS), LUNE_ERR_INVAL);
	CHECK_RC(lune_bcast(w.comm, 0, NULL, 1, WAIT_MS), LUNE_ERR_INVAL);
	CHECK_RC(lune_bcast(NULL, 0, &c, 1, WAIT_MS), LUNE_ERR_INVAL);
	CHECK_RC(lune_barrier(NULL, WAIT_MS), LUNE_ERR_INVAL);
	CHECK_RC(lune_allgather(w.comm, &c, (size_t)-1, &c, WAIT_MS),
		 LUNE_ERR_INVAL);
	/* Nothing was started: the communicator is as good as new. */
	CHECK_OK(lune_barrier(w.comm, WAIT_MS));
	return lune_ctx_close(w.ctx, 2000);
}

/* One who does not come: the others' deadline, and the end of all. */
static int late_body(int rank, int n, void *arg)
{
	struct world w;
	int rc;

	(void)n;
	(void)arg;
	world_open(&w);
	CHECK_OK(lune_barrier(w.comm, WAIT_MS));
	if (rank == 0)
		ranks_wait(1, 2);
	rc = lune_barrier(w.comm, rank == 0 ? WAIT_MS : 200);
	ranks_add(1, 1);
	CHECK_MSG(rc == (rank == 0 ? LUNE_ERR_PEER : LUNE_ERR_TIMEOUT),
		  "got %s: %s", lune_strcode(rc), lune_last_error());
	return lune_ctx_close(w.ctx, 2000);
}

/* ---- running ------------------------------------------------------------ */

static const char *const shm[] = { "LUNE_TRANSPORTS=self,shm,tcp", NULL };
static const char *const tcp[] = { "LUNE_TRANSPORTS=self,tcp",
				   "LUNE_NET_DEVICES=lo",
				   "LUNE_TCP_STREAMS=3", "LUNE_TCP_SLICE=64k",
				   NULL };
/* Two ranks a node. */
static const char *const nodes[] = { "0:LUNE_NODE=a", "1:LUNE_NODE=b",
				     "2:LUNE_NODE=a", "3:LUNE_NODE=b",
				     "4:LUNE_NODE=c", "LUNE_NET_DEVICES=lo",
				     NULL };
static const char *const manual[] = { "LUNE_PROGRESS=manual", NULL };

static void run(ranks_fn *fn, int n, const char *const *env)
{
	struct ranks_opts o = { .n = n, .fn = fn, .env = env,
				.timeout_ms = 60000 };

	if (ranks_run(&o))
		fail_msg("%d ranks", n);
}

static void sizes_of_world(ranks_fn *fn, const char *const *env)
{
	for (int n = 1; n <= N_MAX; n++)
		run(fn, n, env);
}

static void barrier_holds_everybody(void **state)
{
	(void)state;
	sizes_of_world(barrier_body, shm);
	run(barrier_body, 5, tcp);
	run(barrier_body, 3, manual);
}

static void allgather_gives_all_blobs(void **state)
{
	(void)state;
	sizes_of_world(allgather_body, shm);
	run(allgather_body, 5, tcp);
	run(allgather_body, 5, nodes);
	run(allgather_body, 3, manual);
}

static void bcast_from_every_root(void **state)
{
	(void)state;
	sizes_of_world(bcast_body, shm);
	for (int n = 2; n <= 5; n++)
		run(bcast_body, n, tcp);
	run(bcast_body, 5, nodes);
	run(bcast_body, 3, manual);
}

static void members_that_disagree_are_told(void **state)
{
	(void)state;
	run(other_call_body, 3, shm);
	run(other_size_body, 3, shm);
	run(other_root_body, 3, shm);
}

static void bad_arguments_start_nothing(void **state)
{
	(void)state;
	run(bad_args_body, 2, shm);
}

static void a_late_member_ends_it_by_the_deadline(void **state)
{
	(void)state;
	run(late_body, 3, shm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(barrier_holds_everybody),
		cmocka_unit_test(allgather_gives_all_blobs),
		cmocka_unit_test(bcast_from_every_root),
		cmocka_unit_test(members_that_disagree_are_told),
		cmocka_unit_test(bad_arguments_start_nothing),
		cmocka_unit_test(a_late_member_ends_it_by_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
