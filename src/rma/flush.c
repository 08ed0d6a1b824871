/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flush: wait until nothing posted to a peer is unfinished.  What went by the
 * inline way was done when its call returned.  Errors that no request and no
 * queue reported are kept by the peer and come out here, the first one, once.
 */
#include "rma/rma.h"

static bool drained(void *arg)
{
	struct ln_peer *p = arg;
	/* In this order: equal means that there was a moment with none. */
	uint64_t finished = atomic_load(&p->finished);

	return atomic_load(&p->posted) == finished;
}

static int flush_peer(lune_ctx *ctx, struct ln_peer *p, uint64_t deadline)
{
	char text[256];
	int rc = LUNE_OK;

	if (!drained(p))
		rc = ln_net_wait(ctx->net, drained, p, deadline);
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
