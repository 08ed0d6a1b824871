/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and completion queues.  Ranks talk by tcp, so that operations are
 * really in flight; a stopped peer keeps them there.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <lune/lune.h>

#include "base/base.h"
#include "tests/harness/unit.h"

#define WAIT_MS 20000
#define BYTES (64u << 10)

struct pair {
	lune_ctx *ctx;
	lune_comm *comm;
	lune_mem *mem;
	lune_win *win;
	lune_rmem *there; /* of the other */
	char *local;
	int rank;
};

static void pair_open(struct pair *p, size_t bytes)
{
	CHECK_OK(lune_ctx_open(NULL, &p->ctx));
	p->comm = lune_ctx_world(p->ctx);
	p->rank = lune_comm_rank(p->comm);
	CHECK_OK(lune_mem_alloc(p->ctx, bytes, NULL, &p->mem));
	CHECK_OK(lune_win_open(p->comm, p->mem, WAIT_MS, &p->win));
	p->there = lune_win_rmem(p->win, 1 - p->rank);
	p->local = malloc(bytes);
	CHECK(p->local);
	memset(p->local, 'a' + p->rank, bytes);
	CHECK_OK(lune_barrier(p->comm, WAIT_MS));
}

static int pair_close(struct pair *p)
{
	lune_win_close(p->win);
	CHECK_OK(lune_mem_release(p->mem, WAIT_MS));
	CHECK_OK(lune_ctx_close(p->ctx, 2000));
	free(p->local);
	return 0;
}

static lune_req *put(struct pair *p, uint64_t at)
{
	lune_req *req = NULL;

	CHECK_OK(lune_put(p->there, at, p->local, 64,
			  &(struct lune_op){ .req = &req }));
	return req;
}

/* Every thread of rank 1 stands still. */
static void stop_it(void)
{
	char path[64], line[256], *state;
	FILE *f;

	ranks_stop(1);
	snprintf(path, sizeof(path), "/proc/%d/stat", ranks_pid(1));
	do {
		f = fopen(path, "r");
		CHECK(f && fgets(line, sizeof(line), f));
		fclose(f);
		state = strrchr(line, ')');
		CHECK(state);
		sched_yield();
	} while (state[2] != 'T');
}

/* ---- requests ----------------------------------------------------------- */

static int finish_body(int rank, int n, void *arg)
{
	struct lune_status st[8];
	lune_req *reqs[8], *none = NULL;
	struct pair p;
	size_t index;
	int rc, seen = 0;

	(void)rank;
	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	reqs[0] = put(&p, 0);
	while ((rc = lune_req_test(&reqs[0], &st[0])) == LUNE_ERR_AGAIN)
		;
	CHECK_OK(rc);
	CHECK(!reqs[0]);
	/* Finished is finished. */
	CHECK_OK(lune_req_test(&reqs[0], &st[0]));
	CHECK_OK(lune_req_wait(&reqs[0], 0, &st[0]));
	for (int i = 0; i < 8; i++)
		reqs[i] = put(&p, (uint64_t)i * 64);
	CHECK_OK(lune_req_waitall(reqs, 8, WAIT_MS, st));
	for (int i = 0; i < 8; i++)
		CHECK(!reqs[i] && st[i].code == LUNE_OK);
	for (int i = 0; i < 8; i++) {
		reqs[i] = put(&p, (uint64_t)i * 64);
		seen += !reqs[i];
	}
	while ((rc = lune_req_waitany(reqs, 8, WAIT_MS, &index)) == LUNE_OK) {
		CHECK(index < 8 && !reqs[index]);
		CHECK(++seen <= 8);
	}
	CHECK_EQ(rc, LUNE_ERR_NOTFOUND);
	CHECK_EQ(seen, 8);
	CHECK_OK(lune_req_waitall(&none, 1, 0, NULL));
	CHECK_OK(lune_req_waitall(NULL, 0, 0, NULL));
	CHECK_RC(lune_req_wait(NULL, 0, NULL), LUNE_ERR_INVAL);
	CHECK_OK(lune_req_cancel(NULL));
	/* Forgotten requests go on. */
	memset(p.local, 'z', 64);
	reqs[0] = put(&p, 0);
	lune_req_free(&reqs[0]);
	CHECK(!reqs[0]);
	CHECK_OK(lune_flush(p.comm, 1 - p.rank, WAIT_MS));
	CHECK_OK(lune_barrier(p.comm, WAIT_MS));
	CHECK_EQ(*(char *)lune_mem_addr(p.mem), 'z');
	CHECK_OK(lune_barrier(p.comm, WAIT_MS));
	return pair_close(&p);
}

/* Nothing moves at a stopped peer: times, cancels, and then its death. */
static int stopped_body(int rank, int n, void *arg)
{
	struct lune_status st;
	lune_req *reqs[3];
	struct pair p;
	size_t index;
	int64_t start;
	int rc;

	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	if (rank == 1) {
		ranks_set(1, 1);
		ranks_wait(2, 1);
		return 1; /* it is stopped, or killed */
	}
	ranks_wait(1, 1);
	stop_it();
	for (int i = 0; i < 3; i++)
		reqs[i] = put(&p, 0);
	CHECK_RC(lune_req_test(&reqs[0], NULL), LUNE_ERR_AGAIN);
	start = ranks_now_ms();
	CHECK_RC(lune_req_wait(&reqs[0], 50, NULL), LUNE_ERR_TIMEOUT);
	CHECK(ranks_now_ms() - start >= 50);
	CHECK_RC(lune_req_waitany(reqs, 3, 20, &index), LUNE_ERR_TIMEOUT);
	CHECK_RC(lune_req_waitall(reqs, 3, 20, NULL), LUNE_ERR_TIMEOUT);
	CHECK(reqs[0] && reqs[1] && reqs[2]);
	CHECK_OK(lune_req_cancel(reqs[1]));
	rc = lune_req_wait(&reqs[1], WAIT_MS, &st);
	CHECK_MSG(rc == LUNE_ERR_CANCELED || rc == LUNE_ERR_PEER,
		  "a canceled request gave %s", lune_strcode(rc));
	CHECK_EQ(st.code, rc);
	lune_req_free(&reqs[2]);
	CHECK_RC(lune_req_wait(&reqs[0], WAIT_MS, &st), LUNE_ERR_PEER);
	CHECK(strstr(lune_last_error(), "put"));
	/* The forgotten one's error is flush's. */
	rc = lune_flush(p.comm, LUNE_ALL_RANKS, WAIT_MS);
	CHECK_EQ(rc, LUNE_ERR_PEER);
	CHECK_OK(lune_flush(p.comm, LUNE_ALL_RANKS, WAIT_MS));
	CHECK_RC(lune_put(p.there, 0, p.local, 1, NULL), LUNE_ERR_PEER);
	ranks_kill(1);
	return pair_close(&p);
}

/* ---- queues ------------------------------------------------------------- */

static int cq_body(int rank, int n, void *arg)
{
	struct lune_completion got[8];
	struct lune_op op = { 0 };
	bool seen[5] = { false };
	struct pair p;
	lune_cq *cq;
	int have = 0, rc;

	(void)rank;
	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	CHECK_RC(lune_cq_open(p.ctx, 0, &cq), LUNE_ERR_INVAL);
	CHECK_OK(lune_cq_open(p.ctx, 5, &cq));
	CHECK_EQ(lune_cq_drain(cq, got, 8, 0), 0);
	CHECK_EQ(lune_cq_drain(cq, got, 8, 10), 0);
	op.cq = cq;
	for (int round = 0; round < 20; round++) {
		for (intptr_t i = 0; i < 5; i++) {
			op.user = (void *)i;
			CHECK_OK(lune_put(p.there, 0, p.local, 64, &op));
		}
		/* Delivered or not, all places are taken until they are
		 * drained. */
		CHECK_RC(lune_put(p.there, 0, p.local, 64, &op),
			 LUNE_ERR_LIMIT);
		memset(seen, 0, sizeof(seen));
		for (have = 0; have < 5; have += rc) {
			rc = lune_cq_drain(cq, got, 3, WAIT_MS);
			CHECK(rc > 0 && rc <= 3);
			for (int i = 0; i < rc; i++) {
				CHECK_OK(got[i].status.code);
				CHECK_EQ(got[i].status.bytes, 64);
				CHECK(!seen[(intptr_t)got[i].user]);
				seen[(intptr_t)got[i].user] = true;
			}
		}
		CHECK_EQ(have, 5);
	}
	CHECK_OK(lune_barrier(p.comm, WAIT_MS));
	CHECK_OK(lune_cq_close(cq));
	CHECK_OK(lune_cq_close(NULL));
	return pair_close(&p);
}

static int cq_busy_body(int rank, int n, void *arg)
{
	struct lune_completion got;
	struct pair p;
	lune_cq *cq;

	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	if (rank == 1) {
		ranks_set(1, 1);
		ranks_wait(2, 1);
		return 1;
	}
	ranks_wait(1, 1);
	stop_it();
	CHECK_OK(lune_cq_open(p.ctx, 2, &cq));
	CHECK_OK(lune_put(p.there, 0, p.local, 64,
			  &(struct lune_op){ .cq = cq, .user = &p }));
	CHECK_RC(lune_cq_close(cq), LUNE_ERR_BUSY);
	CHECK_EQ(lune_cq_drain(cq, &got, 1, WAIT_MS), 1);
	CHECK_EQ(got.status.code, LUNE_ERR_PEER);
	CHECK(got.user == &p);
	CHECK_OK(lune_cq_close(cq));
	ranks_kill(1);
	return pair_close(&p);
}

/* ---- threads, and no allocation ----------------------------------------- */

#define THREADS 4
#define ROUNDS 400

struct worker {
	struct pair *p;
	pthread_t thread;
	int number;
};

static void *work(void *arg)
{
	struct worker *t = arg;
	lune_req *reqs[4] = { NULL };
	size_t index;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK_OK(lune_req_wait(&reqs[i % 4], WAIT_MS, NULL));
		reqs[i % 4] = put(t->p, (uint64_t)t->number * 1024);
		/* Freed, canceled, or waited for in any order. */
		if (i % 5 == 1)
			lune_req_free(&reqs[i % 4]);
		if (i % 5 == 2)
			CHECK_OK(lune_req_cancel(reqs[i % 4]));
		if (i % 5 == 3) {
			int rc = lune_req_waitany(reqs, 4, WAIT_MS, &index);

			CHECK(rc == LUNE_OK || rc == LUNE_ERR_NOTFOUND ||
			      rc == LUNE_ERR_CANCELED);
		}
		for (int k = 0; i % 5 == 4 && k < 4; k++)
			(void)lune_req_wait(&reqs[k], WAIT_MS, NULL);
		if (i % 5 == 2)
			(void)lune_req_wait(&reqs[i % 4], WAIT_MS, NULL);
	}
	for (int k = 0; k < 4; k++)
		(void)lune_req_wait(&reqs[k], WAIT_MS, NULL);
	return NULL;
}

static int threads_body(int rank, int n, void *arg)
{
	struct worker workers[THREADS];
	struct pair p;

	(void)rank;
	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .p = &p, .number = i };
		CHECK(!pthread_create(&workers[i].thread, NULL, work,
				      &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	CHECK_OK(lune_flush(p.comm, LUNE_ALL_RANKS, WAIT_MS));
	CHECK_OK(lune_barrier(p.comm, WAIT_MS));
	return pair_close(&p);
}

static int warm_body(int rank, int n, void *arg)
{
	uint64_t before = 0;
	lune_req *req;
	struct pair p;

	(void)rank;
	(void)n;
	(void)arg;
	pair_open(&p, BYTES);
	for (int i = 0; i < 2000; i++) {
		if (i == 1000)
			before = ln_alloc_count();
		req = put(&p, 0);
		CHECK_OK(lune_req_wait(&req, WAIT_MS, NULL));
	}
	CHECK_EQ(ln_alloc_count() - before, 0);
	CHECK_OK(lune_barrier(p.comm, WAIT_MS));
	return pair_close(&p);
}

static void run(ranks_fn *fn)
{
	static const char *const env[] = { "LUNE_TRANSPORTS=self,tcp",
					   "LUNE_NET_DEVICES=lo",
					   "LUNE_HEARTBEAT=200",
					   "LUNE_PEER_TIMEOUT=1500", NULL };
	struct ranks_opts o = { .n = 2, .fn = fn, .env = env,
				.timeout_ms = 60000 };

	assert_int_equal(ranks_run(&o), 0);
}

#define CASE(name, fn)                 \
	static void name(void **state) \
	{                              \
		(void)state;           \
		run(fn);               \
	}
CASE(requests_finish_once, finish_body)
CASE(a_stopped_peer_keeps_them_in_flight, stopped_body)
CASE(a_queue_has_depth_places, cq_body)
CASE(a_queue_in_use_stays_open, cq_busy_body)
CASE(many_threads_share_the_pool, threads_body)
CASE(nothing_is_allocated_after_warm_up, warm_body)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_finish_once),
		cmocka_unit_test(a_stopped_peer_keeps_them_in_flight),
		cmocka_unit_test(a_queue_has_depth_places),
		cmocka_unit_test(a_queue_in_use_stays_open),
		cmocka_unit_test(many_threads_share_the_pool),
		cmocka_unit_test(nothing_is_allocated_after_warm_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
