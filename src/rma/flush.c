/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flush: wait until nothing posted to a peer is unfinished.  What went by the
 * inline way was done when its call returned.  Errors that no request and no
 * queue reported are kept by the peer and come out here, the first one, once.
 *
 * While other threads keep posting, there may never be a moment with nothing
 * in flight.  Then an empty ORDERED put is posted: it starts when all earlier
 * operations are done, and later ones queue behind it.
 */
#include "rma/rma.h"

struct drain {
	struct ln_peer *p;
	uint64_t posted; /* when the flush began */
	bool drained;
};

static bool drained(struct ln_peer *p)
{
	/* In this order: equal means that there was a moment with none. */
	uint64_t finished = atomic_load(&p->finished);

	return atomic_load(&p->posted) == finished;
}

static bool drained_or_more(void *arg)
{
	struct drain *d = arg;

	d->drained = drained(d->p);
	return d->drained || atomic_load(&d->p->posted) != d->posted;
}

static int push_through(lune_ctx *ctx, struct ln_peer *p, uint64_t deadline)
{
	lune_req *req = NULL;
	const struct lune_op how = { .req = &req };
	int rc = ln_req_take(ctx, 0, &how, &req);

	if (rc)
		return rc;
	req->op.peer = p;
	req->op.kind = LN_OP_PUT;
	req->op.flags = LN_OP_ORDERED;
	req->op.nsegs = 0;
	req->op.sig_rmem = NULL;
	rc = ln_req_start(req, &how);
	/* Whatever became of it: what was earlier is done then. */
	if (rc || !req)
		return LUNE_OK;
	rc = lune_req_wait(&req, deadline == LN_NEVER ? LUNE_FOREVER :
			   ln_deadline_left_ms(deadline), NULL);
	if (req)
		lune_req_free(&req);
	return rc == LUNE_ERR_TIMEOUT ? rc : LUNE_OK;
}

static int drain(lune_ctx *ctx, struct ln_peer *p, uint64_t deadline)
{
	struct drain d = { p, atomic_load(&p->posted), drained(p) };
	int rc;

	if (d.drained)
		return LUNE_OK;
	rc = ln_net_wait(ctx->net, drained_or_more, &d, deadline);
	if (rc || d.drained)
		return rc;
	return push_through(ctx, p, deadline);
}

static int flush_peer(lune_ctx *ctx, struct ln_peer *p, uint64_t deadline)
{
	char text[256];
	int rc = drain(ctx, p, deadline);

	if (rc == LUNE_ERR_TIMEOUT) {
		ln_peer_text(p, text, sizeof(text));
		return ln_error(rc, "operations to %s are still in flight",
				text);
	}
	if (rc)
		return rc;
	rc = atomic_exchange(&p->lost_error, 0);
	if (rc) {
		ln_peer_text(p, text, sizeof(text));
		return ln_error(rc, "an earlier operation to %s failed: %s",
				text, lune_strerror(rc));
	}
	return LUNE_OK;
}

static int flush_all(lune_comm *comm, uint64_t deadline)
{
	int n = lune_comm_size(comm), first = LUNE_OK, rc;
	struct ln_peer *p;

	for (int i = 0; i < n; i++) {
		/* Nothing is in flight to the dead, but they may have lost
		 * something: that is told. */
		p = __atomic_load_n(&comm->peers[i], __ATOMIC_ACQUIRE);
		if (!p)
			continue;
		rc = flush_peer(comm->ctx, p, deadline);
		if (rc && !first)
			first = rc;
	}
	return first;
}

int lune_flush(lune_comm *comm, int rank, int timeout_ms)
{
	struct ln_peer *p;
	uint64_t deadline;
	int rc;

	if (!comm)
		return ln_error(LUNE_ERR_INVAL, "lune_flush: NULL");
	LN_CTX_CHECK(comm->ctx);
	deadline = ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout);
	if (rank == LUNE_ALL_RANKS)
		return flush_all(comm, deadline);
	rc = ln_comm_peer_of(comm, rank, &p);
	if (rc)
		return rc;
	return flush_peer(comm->ctx, p, deadline);
}

int lune_rmem_flush(lune_rmem *r, int timeout_ms)
{
	if (!r)
		return ln_error(LUNE_ERR_INVAL, "lune_rmem_flush: NULL");
	LN_CTX_CHECK(r->ctx);
	return flush_peer(r->ctx, r->net.peer,
			  ln_deadline(timeout_ms, (int)r->ctx->conf.timeout));
}
