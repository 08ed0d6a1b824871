/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank is killed or stopped at a random moment of puts, gets, barriers and
 * broadcasts.  Every survivor must learn of it within the promised time, its
 * operations with others must stay right, and after lune_comm_shrink the
 * survivors go on.
 */
#include <unistd.h>

#include <lune/lune.h>

#include "tests/harness/unit.h"

#define N 4
#define BLOCK 65536
#define FLAG_WORK 1	/* operations done, all ranks */
#define FLAG_SEEN 2	/* somebody has seen the failure */
#define FLAG_DOWN 3	/* the control process has acted */
#define MEET_UP 10
#define MEET_END 11

enum kind { PUT, GET, BARRIER, BCAST };

struct plan {
	enum kind kind;
	bool stop;	/* else kill */
	int victim;
	uint32_t after; /* operations */
	int bound_ms;	/* from the act to the error */
};

/* When the control process acted, for the bound. */
static _Atomic int64_t *acted(void)
{
	return (_Atomic int64_t *)ranks_scratch();
}

static int control(int rank, int n, void *arg)
{
	const struct plan *p = arg;

	(void)rank;
	(void)n;
	ranks_wait(FLAG_WORK, p->after);
	*acted() = ranks_now_ms();
	if (p->stop)
		ranks_stop(p->victim);
	else
		ranks_kill(p->victim);
	ranks_set(FLAG_DOWN, 1);
	return 0;
}

struct world {
	lune_ctx *ctx;
	lune_comm *comm;
	lune_mem *mem;
	lune_win *win;
	int rank, n;
	char *buf;
};

static void world_open(struct world *w)
{
	CHECK_OK(lune_ctx_open(NULL, &w->ctx));
	w->comm = lune_ctx_world(w->ctx);
	w->rank = lune_comm_rank(w->comm);
	w->n = lune_comm_size(w->comm);
	CHECK_OK(lune_mem_alloc(w->ctx, 4 * BLOCK, NULL, &w->mem));
	CHECK_OK(lune_win_open(w->comm, w->mem, 10000, &w->win));
	w->buf = lune_mem_addr(w->mem);
	memset(w->buf, w->rank + 1, 4 * BLOCK);
	CHECK_OK(lune_barrier(w->comm, 10000));
}

/* One operation of the kind; what comes back may be LUNE_ERR_PEER. */
static int one(struct world *w, enum kind kind, char *local, int *peer)
{
	lune_rmem *next = lune_win_rmem(w->win, (w->rank + 1) % w->n);
	lune_req *req = NULL;
	int rc;

	*peer = (w->rank + 1) % w->n;
	switch (kind) {
	case PUT:
		memset(local, w->rank + 1, BLOCK);
		rc = lune_put(next, 2 * BLOCK, local, BLOCK,
			      &(struct lune_op){ .req = &req });
		return rc ? rc : lune_req_wait(&req, 20000, NULL);
	case GET:
		rc = lune_get(next, BLOCK, local, BLOCK,
			      &(struct lune_op){ .req = &req });
		rc = rc ? rc : lune_req_wait(&req, 20000, NULL);
		for (int i = 0; !rc && i < BLOCK; i += 977)
			CHECK_EQ(local[i], *peer + 1);
		return rc;
	case BARRIER:
		return lune_barrier(w->comm, 20000);
	default:
		memset(local, w->rank == 0 ? 77 : 0, BLOCK);
		rc = lune_bcast(w->comm, 0, local, BLOCK, 20000);
		for (int i = 0; !rc && i < BLOCK; i += 977)
			CHECK_EQ(local[i], 77);
		return rc;
	}
}

static void check_next_world(struct world *w, const struct plan *p)
{
	lune_comm *dense;
	int rank, got[N], size;

	CHECK_OK(lune_comm_shrink(w->comm, 20000, &dense));
	CHECK_EQ(lune_comm_size(dense), w->n - 1);
	rank = lune_comm_rank(dense);
	CHECK_EQ(rank, w->rank - (w->rank > p->victim));
	size = lune_comm_size(dense);
	CHECK_OK(lune_allgather(dense, &w->rank, sizeof(int), got, 10000));
	for (int r = 0; r < size; r++)
		CHECK_EQ(got[r], r + (r >= p->victim));
	memset(w->buf, rank == 1 ? 55 : 0, BLOCK);
	CHECK_OK(lune_bcast(dense, 1, w->buf, BLOCK, 10000));
	for (int i = 0; i < BLOCK; i++)
		CHECK_EQ(w->buf[i], 55);
	CHECK_OK(lune_barrier(dense, 10000));
	lune_comm_close(dense);
}

static int body(int rank, int n, void *arg)
{
	const struct plan *p = arg;
	bool collective = p->kind == BARRIER || p->kind == BCAST;
	struct world w;
	char *local = malloc(BLOCK);
	int rc = 0, peer, failed[N], count;

	(void)n;
	CHECK(local);
	world_open(&w);
	/* Nobody is killed before all are through with the opening. */
	ranks_barrier();
	while (!rc && (collective || !ranks_get(FLAG_SEEN))) {
		rc = one(&w, p->kind, local, &peer);
		if (!rc)
			ranks_add(FLAG_WORK, 1);
	}
	CHECK(rank != p->victim);
	if (rc) {
		CHECK_RC(rc, LUNE_ERR_PEER);
		CHECK(ranks_get(FLAG_DOWN) || *acted());
		CHECK_MSG(ranks_now_ms() - *acted() <=
				  (int64_t)p->bound_ms * ranks_scale(),
			  "learned of it after %lld ms",
			  (long long)(ranks_now_ms() - *acted()));
		CHECK(collective || peer == p->victim);
		CHECK(*lune_last_error());
	}
	ranks_add(FLAG_SEEN, 1);
	CHECK(lune_comm_failed(w.comm, failed, N, &count) == LUNE_OK);
	check_next_world(&w, p);
	CHECK(!lune_comm_alive(w.comm, p->victim));
	CHECK_OK(lune_comm_failed(w.comm, failed, N, &count));
	CHECK_EQ(count, 1);
	CHECK_EQ(failed[0], p->victim);
	lune_win_close(w.win);
	CHECK_OK(lune_mem_release(w.mem, 20000));
	CHECK_OK(lune_ctx_close(w.ctx, 2000));
	free(local);
	return 0;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void many(enum kind kind, bool stop, const char *const *env)
{
	const char *rounds = getenv("LUNE_TEST_LONG") ? "25" : "3";
	uint32_t seed = 7u + (uint32_t)kind * 100u + stop;

	for (int i = 0; i < atoi(rounds); i++) {
		struct plan p = {
			.kind = kind, .stop = stop,
			.victim = (int)(next_random(&seed) % N),
			.after = next_random(&seed) % 400 + 1,
			.bound_ms = stop ? 3500 : 2000,
		};
		struct ranks_opts o = { .n = N, .fn = body, .arg = &p,
					.control = control, .env = env,
					.timeout_ms = 60000 };

		assert_int_equal(ranks_run(&o), 0);
	}
}

static const char *const shm[] = { "LUNE_TRANSPORTS=self,shm,tcp",
				   "LUNE_HEARTBEAT=200",
				   "LUNE_PEER_TIMEOUT=1500", NULL };
static const char *const tcp[] = { "LUNE_TRANSPORTS=self,tcp",
				   "LUNE_HEARTBEAT=200",
				   "LUNE_PEER_TIMEOUT=1500", NULL };

#define CASE(name, kind, stop, env)        \
	static void name(void **state)     \
	{                                  \
		(void)state;               \
		many((kind), (stop), env); \
	}
CASE(kill_in_put_shm, PUT, false, shm)
CASE(kill_in_get_shm, GET, false, shm)
CASE(kill_in_barrier_shm, BARRIER, false, shm)
CASE(kill_in_bcast_shm, BCAST, false, shm)
CASE(kill_in_put_tcp, PUT, false, tcp)
CASE(kill_in_get_tcp, GET, false, tcp)
CASE(kill_in_barrier_tcp, BARRIER, false, tcp)
CASE(kill_in_bcast_tcp, BCAST, false, tcp)
CASE(stop_in_put_shm, PUT, true, shm)
CASE(stop_in_get_tcp, GET, true, tcp)
CASE(stop_in_barrier_tcp, BARRIER, true, tcp)
CASE(stop_in_bcast_shm, BCAST, true, shm)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_in_put_shm),
		cmocka_unit_test(kill_in_get_shm),
		cmocka_unit_test(kill_in_barrier_shm),
		cmocka_unit_test(kill_in_bcast_shm),
		cmocka_unit_test(kill_in_put_tcp),
		cmocka_unit_test(kill_in_get_tcp),
		cmocka_unit_test(kill_in_barrier_tcp),
		cmocka_unit_test(kill_in_bcast_tcp),
		cmocka_unit_test(stop_in_put_shm),
		cmocka_unit_test(stop_in_get_tcp),
		cmocka_unit_test(stop_in_barrier_tcp),
		cmocka_unit_test(stop_in_bcast_shm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
