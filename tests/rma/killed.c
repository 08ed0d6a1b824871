/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer is killed in the middle of traffic of every kind: what involves it
 * ends with LUNE_ERR_PEER in time, what does not goes on.
 */
#include <unistd.h>

#include "tests/rma/suite.h"

#define BYTES (1 << 20)
#define BOUND_MS 2000
#define FLAG_GOING 1

/* Operations are kept in flight to the victim until one fails. */
static int keep_going(struct area *a, int what, char *buf)
{
	lune_rmem *r = a->rmem[a->w->n - 1];
	struct lune_iov v[3] = {
		{ buf, 0, 1000 }, { buf + 2000, 5000, 70000 },
		{ buf + 100000, 100000, 1 },
	};
	lune_req *req = NULL;
	struct lune_op op = { .req = &req };
	uint64_t old;
	int rc;

	switch (what % 5) {
	case 0: rc = lune_put(r, 0, buf, BYTES, &op); break;
	case 1: rc = lune_get(r, 0, buf, BYTES, &op); break;
	case 2: rc = lune_putv(r, v, 3, &op); break;
	case 3: rc = lune_getv(r, v, 3, &op); break;
	default:
		rc = lune_atomic(r, 0, &(struct lune_atomic){
				 LUNE_ATOMIC_FETCH_ADD, 1, 0 }, &old, &op);
	}
	return rc ? rc : lune_req_wait(&req, WAIT_MS, NULL);
}

static void victim(struct area *a)
{
	ranks_wait(FLAG_GOING, (uint32_t)a->w->n - 1);
	for (;;)
		pause();
}

static void use_each_other(struct area *a, char *buf)
{
	lune_req *req = NULL;

	/* Rank 0 and 1 still reach each other. */
	memset(buf, a->w->rank + 1, 1000);
	CHECK_OK(lune_put(a->rmem[1 - a->w->rank], 0, buf, 1000,
			  &(struct lune_op){ .req = &req }));
	finish(&req, 1000);
	meet_of(3, 2);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(a->mine[i], 2 - a->w->rank);
}

static void everything_to_a_killed_peer_ends(struct rma *w)
{
	char *buf = calloc(1, BYTES);
	struct lune_notify n = { .rank = w->n - 1 };
	lune_req *req = NULL;
	struct area a;
	int64_t start;
	int rc = 0;

	CHECK(buf);
	area_open(w, BYTES, &a);
	if (w->rank == w->n - 1)
		victim(&a);
	for (int i = 0; i < 10; i++)
		CHECK_OK(keep_going(&a, i + w->rank, buf));
	ranks_add(FLAG_GOING, 1);
	if (w->rank == 0) {
		ranks_wait(FLAG_GOING, (uint32_t)w->n - 1);
		ranks_kill(w->n - 1);
		ranks_set(FLAG_GOING + 1, 1);
	}
	start = ranks_now_ms();
	for (int i = w->rank; !rc; i++) {
		rc = keep_going(&a, i, buf);
		/* From the death on, not from the call on. */
		if (!ranks_get(FLAG_GOING + 1))
			start = ranks_now_ms();
		CHECK(ranks_now_ms() - start < BOUND_MS * ranks_scale());
	}
	CHECK_RC(rc, LUNE_ERR_PEER);
	/* At once, from now on. */
	CHECK_RC(keep_going(&a, 0, buf), LUNE_ERR_PEER);
	rc = lune_notify_send(w->comm, &n, &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_PEER);
	use_each_other(&a, buf);
	for (int r = 0; r < w->n; r++)
		lune_rmem_detach(a.rmem[r]);
	CHECK_OK(lune_mem_release(a.mem, WAIT_MS));
	free(buf);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "everything to a killed peer ends",
		  .n = 3, .fn = everything_to_a_killed_peer_ends,
		  .not_self = true },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
