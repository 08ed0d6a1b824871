/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the inline way (rma.h) that are not the fast path: memory of
 * our own context, the first use of an rmem, and operations that carry a
 * signal or report to somebody.
 */
#include "rma/rma.h"

int ln_path_open_self(struct ln_path *p, lune_rmem *r, uint32_t rights)
{
	struct ln_access a = { .key = r->net.key, .rights = rights };
	char *addr;
	int rc;

	rc = ln_mem_pin(r->ctx->mem, &a, &p->pinned, &addr);
	if (rc) {
		p->pinned = NULL;
		return rc;
	}
	/* A ticket is data: it may claim more than the region has. */
	if (r->net.bytes > p->pinned->bytes) {
		rc = ln_error(LUNE_ERR_BOUNDS,
			      "the ticket claims %llu bytes, the region has "
			      "%zu", (unsigned long long)r->net.bytes,
			      p->pinned->bytes);
		ln_mem_unpin(p->pinned);
		p->pinned = NULL;
		return rc;
	}
	p->base = addr;
	return LUNE_OK;
}

void ln_path_unpin(struct ln_path *p)
{
	if (p->pinned)
		ln_mem_unpin(p->pinned);
	p->pinned = NULL;
}

int ln_path_open_cold(struct ln_path *p, lune_rmem *r)
{
	int rc;

	if (atomic_load(&r->net.peer->state) == LN_PEER_DEAD)
		return ln_rmem_dead(r);
	if (atomic_load_explicit(&r->net.route, memory_order_acquire))
		return LUNE_OK;
	rc = ln_rmem_settle(r);
	if (rc)
		return rc;
	/* It may be mapped now; else base stays NULL. */
	if (atomic_load_explicit(&r->net.map, memory_order_acquire))
		return ln_path_open(p, r, 0);
	return LUNE_OK;
}

/* Nothing posted to the peer is unfinished. */
static bool drained(const struct ln_peer *p)
{
	uint64_t finished = atomic_load(&p->finished);

	return atomic_load(&p->posted) == finished;
}

/* 1: the signal (if any) can be fired from here, too. */
static int open_signal(struct ln_inline *in, const struct lune_op *op)
{
	int rc;

	if (!op->signal.rmem)
		return 1;
	rc = ln_path_open(&in->sig, op->signal.rmem, LUNE_MEM_ATOMIC);
	if (rc)
		return rc;
	return in->sig.base ? 1 : 0;
}

int ln_inline_open_slow(struct ln_inline *in, const struct lune_op *op)
{
	int rc = 0;

	in->sig.pinned = NULL;
	if (!(op->flags & LUNE_OP_ORDERED) || drained(in->data.r->net.peer))
		rc = open_signal(in, op);
	if (rc == 1 && op->cq) {
		rc = ln_req_reserve(op);
		rc = rc ? rc : 1;
	}
	if (rc != 1) {
		ln_path_unpin(&in->data);
		ln_path_unpin(&in->sig);
	}
	return rc;
}

void ln_rmem_ring(lune_rmem *r)
{
	struct ln_doorbell *bell;

	if (r->self) {
		ln_net_event(r->ctx->net);
		return;
	}
	bell = atomic_load_explicit(&r->net.peer->bell, memory_order_acquire);
	if (bell)
		ln_doorbell_ring(bell, r->net.peer->bell_fd);
}

static int fire(struct ln_inline *in, const struct lune_signal_to *s)
{
	_Atomic uint64_t *word = (void *)(in->sig.base + s->offset);
	int rc;

	/* Release: pairs with the acquire of lune_signal_read and _wait. */
	if (s->how == LUNE_SIGNAL_SET)
		atomic_store_explicit(word, s->value, memory_order_release);
	else
		atomic_fetch_add_explicit(word, s->value,
					  memory_order_release);
	rc = ln_path_close(&in->sig);
	ln_rmem_ring(in->sig.r);
	return rc;
}

int ln_inline_close_slow(struct ln_inline *in, const struct lune_op *op,
			 uint64_t bytes)
{
	struct lune_status st = { .bytes = bytes };

	st.code = ln_path_close(&in->data);
	if (!st.code && in->sig.r)
		st.code = fire(in, &op->signal);
	ln_path_unpin(&in->sig);
	if (st.code)
		st.bytes = 0;
	if (op->cq) {
		ln_req_finished(in->data.r->ctx, op, &st);
		return LUNE_OK;
	}
	if (!st.code && op->req)
		*op->req = NULL;
	return st.code;
}

static int check_signal(const lune_rmem *r, const struct lune_signal_to *s)
{
	if (s->rmem->ctx != r->ctx || s->rmem->net.peer != r->net.peer)
		return ln_error(LUNE_ERR_INVAL,
				"the signal's memory is not of the same peer");
	if (s->how != LUNE_SIGNAL_ADD && s->how != LUNE_SIGNAL_SET)
		return ln_error(LUNE_ERR_INVAL, "a signal of kind %d",
				(int)s->how);
	return ln_rmem_check_word(s->rmem, s->offset);
}

int ln_inline_check_op(const lune_rmem *r, const struct lune_op *op, bool put)
{
	if (op->flags & ~(LUNE_OP_LOCAL | LUNE_OP_ORDERED))
		return ln_error(LUNE_ERR_INVAL, "unknown flags %#x", op->flags);
	if (op->req && op->cq)
		return ln_error(LUNE_ERR_INVAL,
				"an operation reports to a request or to a "
				"queue, not both");
	if (!op->signal.rmem)
		return LUNE_OK;
	if (!put)
		return ln_error(LUNE_ERR_INVAL, "only puts carry a signal");
	return check_signal(r, &op->signal);
}
