/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues: a bounded ring that many threads fill and drain without a
 * lock (Vyukov's: each slot has a turn number).
 *
 *	taken     places given to operations and not drained yet, <= depth
 *	inflight  of these, not filled yet
 *
 * Invariants
 *  1. A place is reserved before the operation starts, so filling never finds
 *     the ring full.
 *  2. The last thing that filling touches is inflight: close looks at it.
 */
#include "rt/rt.h"

#define DEPTH_MAX (1u << 24)

struct slot {
	_Atomic uint64_t turn;
	struct lune_completion c;
};

struct lune_cq {
	lune_ctx *ctx;
	unsigned depth;
	uint64_t mask;
	_Alignas(LN_CACHELINE) _Atomic unsigned taken;
	_Alignas(LN_CACHELINE) _Atomic uint64_t head; /* next to fill */
	_Alignas(LN_CACHELINE) _Atomic uint64_t tail; /* next to drain */
	_Alignas(LN_CACHELINE) _Atomic unsigned inflight;
	struct slot slots[];
};

int ln_cq_reserve(lune_cq *cq)
{
	unsigned n = atomic_load_explicit(&cq->taken, memory_order_relaxed);

	do {
		if (n >= cq->depth)
			return ln_error(LUNE_ERR_LIMIT,
					"the completion queue has %u "
					"operations that were not drained", n);
	} while (!atomic_compare_exchange_weak(&cq->taken, &n, n + 1));
	atomic_fetch_add(&cq->inflight, 1);
	return LUNE_OK;
}

void ln_cq_unreserve(lune_cq *cq)
{
	atomic_fetch_sub(&cq->taken, 1);
	atomic_fetch_sub(&cq->inflight, 1);
}

void ln_cq_push(lune_cq *cq, void *user, const struct lune_status *st)
{
	uint64_t at = atomic_fetch_add(&cq->head, 1);
	struct slot *s = &cq->slots[at & cq->mask];

	/* Its place is reserved: whoever drained it last is about to leave. */
	while (atomic_load_explicit(&s->turn, memory_order_acquire) != at)
		;
	s->c.user = user;
	s->c.status = *st;
	/* Pairs with the acquire of pop. */
	atomic_store_explicit(&s->turn, at + 1, memory_order_release);
	atomic_fetch_sub(&cq->inflight, 1);
}

static bool pop(lune_cq *cq, struct lune_completion *out)
{
	uint64_t at = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct slot *s;
	uint64_t turn;

	for (;;) {
		s = &cq->slots[at & cq->mask];
		turn = atomic_load_explicit(&s->turn, memory_order_acquire);
		if (turn == at + 1) {
			if (atomic_compare_exchange_weak(&cq->tail, &at,
							 at + 1))
				break;
		} else if (turn < at + 1) {
			return false;
		} else {
			at = atomic_load_explicit(&cq->tail,
						  memory_order_relaxed);
		}
	}
	*out = s->c;
	atomic_store_explicit(&s->turn, at + cq->mask + 1,
			      memory_order_release);
	atomic_fetch_sub(&cq->taken, 1);
	return true;
}

static bool any(void *arg)
{
	lune_cq *cq = arg;
	uint64_t at = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	return atomic_load_explicit(&cq->slots[at & cq->mask].turn,
				    memory_order_acquire) == at + 1;
}

static int take(lune_cq *cq, struct lune_completion *out, int max)
{
	int n = 0;

	while (n < max && pop(cq, &out[n]))
		n++;
	return n;
}

int lune_cq_drain(lune_cq *cq, struct lune_completion *out, int max,
		  int timeout_ms)
{
	uint64_t deadline;
	int n, rc;

	if (!cq || !out || max < 1)
		return ln_error(LUNE_ERR_INVAL, "lune_cq_drain: NULL, or room "
				"for %d completions", max);
	LN_CTX_CHECK(cq->ctx);
	n = take(cq, out, max);
	if (n)
		return n;
	ln_net_progress(cq->ctx->net);
	n = take(cq, out, max);
	if (n || !timeout_ms)
		return n;
	deadline = ln_deadline(timeout_ms, (int)cq->ctx->conf.timeout);
	while (!n) {
		rc = ln_net_wait(cq->ctx->net, any, cq, deadline);
		if (rc)
			return rc == LUNE_ERR_TIMEOUT ? 0 : rc;
		n = take(cq, out, max);
	}
	return n;
}

int lune_cq_open(lune_ctx *ctx, unsigned depth, lune_cq **out)
{
	uint64_t cap = 1;
	lune_cq *cq;

	if (!ctx || !out || !depth || depth > DEPTH_MAX)
		return ln_error(LUNE_ERR_INVAL, "a completion queue of depth "
				"%u (1 to %u)", depth, DEPTH_MAX);
	LN_CTX_CHECK(ctx);
	while (cap < depth)
		cap *= 2;
	cq = ln_alloc_aligned(LN_CACHELINE,
			      sizeof(*cq) + cap * sizeof(cq->slots[0]));
	if (!cq)
		return LUNE_ERR_NOMEM;
	cq->ctx = ctx;
	cq->depth = depth;
	cq->mask = cap - 1;
	for (uint64_t i = 0; i < cap; i++)
		atomic_store(&cq->slots[i].turn, i);
	atomic_fetch_add(&ctx->objects, 1);
	*out = cq;
	return LUNE_OK;
}

int lune_cq_close(lune_cq *cq)
{
	unsigned n;

	if (!cq)
		return LUNE_OK;
	LN_CTX_CHECK(cq->ctx);
	n = atomic_load(&cq->inflight);
	if (n)
		return ln_error(LUNE_ERR_BUSY, "%u operations are in flight to "
				"the completion queue", n);
	atomic_fetch_sub(&cq->ctx->objects, 1);
	ln_free(cq);
	return LUNE_OK;
}
