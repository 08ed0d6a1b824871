/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One suite over every way bytes can take.  A program of this folder is a
 * table of cases; suite_run() runs each of them over each route, in ranks of
 * its own:
 *
 *	static void puts_arrive(struct rma *w) { ... CHECK ... }
 *
 *	int main(void)
 *	{
 *		static const struct rma_case cases[] = {
 *			{ "puts arrive", 2, puts_arrive },
 *		};
 *		return suite_run(cases, 1);
 *	}
 *
 * LUNE_TEST_ROUTE=shm/cma runs that route only; LUNE_TEST_LONG=1 the full
 * sizes and rounds.
 */
#ifndef LUNE_TESTS_RMA_SUITE_H
#define LUNE_TESTS_RMA_SUITE_H

#include <lune/ctx.h>
#include <lune/mem.h>
#include <lune/notify.h>
#include <lune/req.h>
#include <lune/rma.h>
#include <lune/signal.h>

#include "tests/harness/unit.h"

#define WAIT_MS 20000 /* of calls that should not need it */

/* A rank's place in the world, and its context. */
struct rma {
	const struct rma_route *route;
	lune_ctx *ctx;
	lune_comm *comm;
	int rank, n;
	int to;	  /* the rank that we aim at: the next one */
	int from; /* the rank that aims at us */
};

struct rma_case {
	const char *name;
	int n; /* ranks; on the route "self" always 1 */
	void (*fn)(struct rma *w);
	int timeout_ms; /* 0: 30 s */
	bool not_self;	/* makes no sense with one rank */
};

struct rma_route {
	const char *name;   /* also what lune_rmem_route must begin with */
	const char *label;
	const char *env[6];
	bool registered;    /* memory is registered, not allocated */
	bool maybe;	    /* skip when the machine does not offer it */
	bool needs_v6;
};

int suite_run(const struct rma_case *cases, size_t count);

/* Memory of ours that the others reach, and theirs, by rank. */
struct area {
	struct rma *w;
	lune_mem *mem;
	char *mine;
	void *backing; /* registered memory */
	size_t bytes;
	lune_rmem *rmem[RANKS_MAX]; /* by rank */
	lune_rmem *there;	    /* that of w->to */
};
/* Collective.  Also checks that the route is the one under test. */
void area_open(struct rma *w, size_t bytes, struct area *out);
void area_open_rights(struct rma *w, size_t bytes, unsigned rights,
		      struct area *out);
void area_close(struct area *a);

/* ranks_barrier(), and everything that peers did here happened before. */
void meet(void);
void meet_of(unsigned id, int count); /* ranks_barrier_of */

bool suite_long(void);
/* `few` in make check, `many` in the long run. */
long suite_rounds(long few, long many);
/* Bytes that differ by seed and position; check names the first wrong one. */
void pattern_fill(void *p, size_t bytes, uint64_t seed);
void pattern_check(const void *p, size_t bytes, uint64_t seed);
/* Wait for one operation: CHECK_OK on it. */
void finish(lune_req **req, uint64_t bytes);
uint64_t next_random(uint64_t *state);

#endif
