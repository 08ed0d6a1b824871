/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: the life of an operation that goes by net.
 *
 *	take -> TAKEN -start-> FLYING ------done-----> DONE --test/wait--> pool
 *	          |               | `-cancel-> CANCELING -'
 *	          | drop          | free
 *	          v               v
 *	         pool          DETACHED --done--> (lost error of the peer) pool
 *
 * An operation with a queue flies DETACHED, too: done pushes its completion.
 *
 * Invariants
 *  1. on_done runs once, in whatever thread finishes the op, before anybody is
 *     told, and not while another thread is inside ln_op_cancel of it.
 *  2. Only one of done and free gives a detached request back: who comes
 *     second, by the exchange of `state`.
 *  3. A failed op's peer is kept (blamed) until its sentence has been told.
 */
#include <sched.h>

#include <lune/rma.h>

#include "rt/rt.h"

enum state { FREE, TAKEN, FLYING, CANCELING, DONE, DETACHED };

/* ---- ending ------------------------------------------------------------- */

static void put_back(struct lune_req *req)
{
	if (req->blamed)
		ln_peer_unref(req->blamed);
	req->blamed = NULL;
	atomic_store_explicit(&req->state, FREE, memory_order_relaxed);
	ln_pool_put(req->ctx->pool, req);
}

/* Nobody takes the result: the next flush tells of it. */
static void lose(struct ln_peer *peer, int code)
{
	int none = 0;

	if (code && code != LUNE_ERR_CANCELED)
		atomic_compare_exchange_strong(&peer->lost_error, &none, code);
}

static _Thread_local char me; /* its address names the thread */

/* A cancel in another thread still reads the op. */
static void wait_for_canceler(struct lune_req *req)
{
	while (atomic_load(&req->state) == CANCELING &&
	       atomic_load(&req->canceler) != &me)
		sched_yield();
}

static void op_done(struct ln_op *op)
{
	struct lune_req *req = ln_container_of(op, struct lune_req, op);
	struct lune_status st = { op->code, op->bytes, op->index };
	struct ln_peer *peer = op->peer;
	lune_cq *cq = req->cq;
	void *user = req->user;
	int old;

	wait_for_canceler(req);
	/* The layer's references may be all that keeps the peer. */
	if (st.code)
		req->blamed = ln_peer_ref(peer);
	if (req->on_done)
		req->on_done(req);
	/* Release: pairs with the acquire of who takes the result. */
	old = atomic_exchange(&req->state, DONE);
	if (old != DETACHED)
		return;
	/* on_done may have cleared it: nobody is to hear of it. */
	if (!cq)
		lose(peer, req->op.code);
	put_back(req);
	if (cq)
		ln_cq_push(cq, user, &st);
}

/* ---- for the layers above ----------------------------------------------- */

static int need_segs(struct lune_req *req, uint32_t nsegs)
{
	struct ln_seg *segs;

	if (nsegs <= req->segs_cap)
		return LUNE_OK;
	segs = ln_calloc(nsegs, sizeof(*segs));
	if (!segs)
		return LUNE_ERR_NOMEM;
	if (req->segs_buf != req->segs_own)
		ln_free(req->segs_buf);
	req->segs_buf = segs;
	req->segs_cap = nsegs;
	return LUNE_OK;
}

int ln_req_reserve(const struct lune_op *how)
{
	return how && how->cq ? ln_cq_reserve(how->cq) : LUNE_OK;
}

int ln_req_take(lune_ctx *ctx, uint32_t nsegs, const struct lune_op *how,
		struct lune_req **out)
{
	struct lune_req *req;
	int rc = ln_req_reserve(how);

	if (rc)
		return rc;
	req = ln_pool_get(ctx->pool);
	rc = req ? need_segs(req, nsegs) : LUNE_ERR_NOMEM;
	if (rc) {
		if (req)
			ln_pool_put(ctx->pool, req);
		if (how && how->cq)
			ln_cq_unreserve(how->cq);
		return rc;
	}
	memset(&req->op, 0, sizeof(req->op));
	req->cq = how ? how->cq : NULL;
	req->user = how ? how->user : NULL;
	req->on_done = NULL;
	atomic_store_explicit(&req->state, TAKEN, memory_order_relaxed);
	*out = req;
	return LUNE_OK;
}

void ln_req_drop(struct lune_req *req)
{
	lune_cq *cq = req->cq;

	put_back(req);
	if (cq)
		ln_cq_unreserve(cq);
}

int ln_req_start(struct lune_req *req, const struct lune_op *how)
{
	bool handle = how && how->req;
	int rc;

	req->op.done = op_done;
	atomic_store(&req->state, handle ? FLYING : DETACHED);
	/* From here on a detached request is not ours any more. */
	rc = ln_op_post(&req->op);
	if (rc) {
		ln_req_drop(req);
		return rc;
	}
	if (!handle)
		return LUNE_OK;
	if (atomic_load(&req->state) == DONE && !req->op.code) {
		put_back(req);
		req = NULL;
	}
	*how->req = req;
	return LUNE_OK;
}

void ln_req_finished(lune_ctx *ctx, const struct lune_op *how,
		     const struct lune_status *status)
{
	if (!how)
		return;
	if (how->cq) {
		ln_cq_push(how->cq, how->user, status);
		ln_net_event(ctx->net);
	} else if (how->req) {
		*how->req = NULL;
	}
}

/* ---- for users ---------------------------------------------------------- */

static bool is_done(void *arg)
{
	struct lune_req *req = arg;

	return atomic_load_explicit(&req->state, memory_order_acquire) == DONE;
}

static const char *const names[] = {
	[LN_OP_PUT] = "a put to",
	[LN_OP_GET] = "a get from",
	[LN_OP_ATOMIC] = "an atomic at",
	[LN_OP_MSG] = "a notification to",
};

static int tell(const struct lune_req *req)
{
	char text[256];

	if (!req->op.code)
		return LUNE_OK;
	ln_peer_text(req->blamed, text, sizeof(text));
	return ln_error(req->op.code,
			"%s %s: %s (%llu bytes done, entry %llu)",
			names[req->op.kind], text, lune_strerror(req->op.code),
			(unsigned long long)req->op.bytes,
			(unsigned long long)req->op.index);
}

/* The result of a done request, which goes back to the pool. */
static int result(lune_req **handle, struct lune_status *status)
{
	struct lune_req *req = *handle;
	int code = tell(req);

	if (status)
		*status = (struct lune_status){ code, req->op.bytes,
						req->op.index };
	*handle = NULL;
	put_back(req);
	return code;
}

static int nothing(struct lune_status *status)
{
	if (status)
		*status = (struct lune_status){ LUNE_OK, 0, 0 };
	return LUNE_OK;
}

int lune_req_test(lune_req **req, struct lune_status *status)
{
	if (!req)
		return ln_error(LUNE_ERR_INVAL, "lune_req_test: NULL");
	if (!*req)
		return nothing(status);
	LN_CTX_CHECK((*req)->ctx);
	if (!is_done(*req))
		ln_net_progress((*req)->ctx->net);
	return is_done(*req) ? result(req, status) : LUNE_ERR_AGAIN;
}

static int wait_until(lune_req **req, uint64_t deadline,
		      struct lune_status *status)
{
	lune_ctx *ctx;
	char text[256];
	int rc;

	if (!*req)
		return nothing(status);
	ctx = (*req)->ctx;
	LN_CTX_CHECK(ctx);
	rc = ln_net_wait(ctx->net, is_done, *req, deadline);
	if (!rc)
		return result(req, status);
	if (rc != LUNE_ERR_TIMEOUT)
		return rc;
	ln_peer_text((*req)->op.peer, text, sizeof(text));
	return ln_error(rc, "%s %s is still in flight", names[(*req)->op.kind],
			text);
}

int lune_req_wait(lune_req **req, int timeout_ms, struct lune_status *status)
{
	if (!req)
		return ln_error(LUNE_ERR_INVAL, "lune_req_wait: NULL");
	if (!*req)
		return nothing(status);
	return wait_until(req,
			  ln_deadline(timeout_ms,
				      (int)(*req)->ctx->conf.timeout),
			  status);
}

static lune_ctx *first_ctx(lune_req **reqs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (reqs[i])
			return reqs[i]->ctx;
	return NULL;
}

int lune_req_waitall(lune_req **reqs, size_t count, int timeout_ms,
		     struct lune_status *statuses)
{
	lune_ctx *ctx;
	uint64_t deadline;
	int first = LUNE_OK, rc;

	if (!reqs && count)
		return ln_error(LUNE_ERR_INVAL, "lune_req_waitall: NULL");
	ctx = first_ctx(reqs, count);
	deadline = ln_deadline(timeout_ms, ctx ? (int)ctx->conf.timeout : 0);
	for (size_t i = 0; i < count; i++) {
		rc = wait_until(&reqs[i], deadline,
				statuses ? &statuses[i] : NULL);
		/* Still in flight: the others are looked at all the same. */
		if (reqs[i] && statuses)
			statuses[i] = (struct lune_status){ rc, 0, 0 };
		if (!first)
			first = rc;
	}
	return first;
}

struct any {
	lune_req **reqs;
	size_t count, found;
};

static bool any_done(void *arg)
{
	struct any *a = arg;

	for (a->found = 0; a->found < a->count; a->found++)
		if (a->reqs[a->found] && is_done(a->reqs[a->found]))
			return true;
	return false;
}

int lune_req_waitany(lune_req **reqs, size_t count, int timeout_ms,
		     size_t *index)
{
	struct any a = { reqs, count, 0 };
	lune_ctx *ctx;
	int rc;

	if ((!reqs && count) || !index)
		return ln_error(LUNE_ERR_INVAL, "lune_req_waitany: NULL");
	ctx = first_ctx(reqs, count);
	if (!ctx)
		return ln_error(LUNE_ERR_NOTFOUND,
				"no request is left to wait for");
	LN_CTX_CHECK(ctx);
	for (size_t i = 0; i < count; i++)
		if (reqs[i] && reqs[i]->ctx != ctx)
			return ln_error(LUNE_ERR_INVAL,
					"request %zu is of another context", i);
	rc = ln_net_wait(ctx->net, any_done, &a,
			 ln_deadline(timeout_ms, (int)ctx->conf.timeout));
	if (rc == LUNE_ERR_TIMEOUT)
		return ln_error(rc, "none of %zu requests is done", count);
	if (rc)
		return rc;
	*index = a.found;
	return result(&reqs[a.found], NULL);
}

int lune_req_cancel(lune_req *req)
{
	int flying = FLYING, canceling = CANCELING;

	if (!req)
		return LUNE_OK;
	LN_CTX_CHECK(req->ctx);
	atomic_store(&req->canceler, &me);
	if (!atomic_compare_exchange_strong(&req->state, &flying, CANCELING))
		return LUNE_OK;
	ln_op_cancel(&req->op);
	/* Done already, if a transport ended it in our own call. */
	atomic_compare_exchange_strong(&req->state, &canceling, FLYING);
	return LUNE_OK;
}

void lune_req_free(lune_req **handle)
{
	struct lune_req *req = handle ? *handle : NULL;
	struct ln_peer *peer;

	if (!req || atomic_load(&req->ctx->forked))
		return;
	*handle = NULL;
	if (atomic_exchange(&req->state, DETACHED) != DONE)
		return;
	peer = req->blamed;
	if (peer)
		lose(peer, req->op.code);
	put_back(req);
}
