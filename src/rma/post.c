/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way by net: a request around an ln_op.  The request holds a reference
 * on every rmem its op names until the op is done.
 */
#include "rma/rma.h"

static void release(lune_rmem *r, struct ln_rmem *sig)
{
	ln_rmem_unref(r);
	if (sig)
		ln_rmem_unref(ln_rmem_of(sig));
}

static void post_done(struct lune_req *req)
{
	release(req->on_done_arg, req->op.sig_rmem);
}

static void count(const struct ln_post *how, const struct ln_op *op)
{
	struct ln_counters *c = &how->r->ctx->counters;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < op->nsegs; i++)
		bytes += op->segs[i].bytes;
	if (op->kind == LN_OP_PUT) {
		ln_count(c, put_ops, 1);
		ln_count(c, put_bytes, bytes);
	} else if (op->kind == LN_OP_GET) {
		ln_count(c, get_ops, 1);
		ln_count(c, get_bytes, bytes);
	}
}

int ln_post_take(const struct ln_post *how, struct lune_req **out)
{
	const struct lune_op *op = how->op;
	struct lune_req *req;
	int rc;

	rc = ln_req_take(how->r->ctx, how->nsegs, op, &req);
	if (rc)
		return rc;
	req->op.peer = how->r->net.peer;
	req->op.kind = (uint8_t)how->kind;
	req->op.flags = op ? (uint16_t)(op->flags &
					(LUNE_OP_LOCAL | LUNE_OP_ORDERED)) : 0;
	req->op.nsegs = how->nsegs;
	req->op.segs = req->segs_buf;
	req->op.sig_rmem = NULL;
	if (op && op->signal.rmem) {
		req->op.sig_rmem = &ln_rmem_ref(op->signal.rmem)->net;
		req->op.sig_offset = op->signal.offset;
		req->op.sig_value = op->signal.value;
		req->op.sig_how = (uint8_t)op->signal.how;
	}
	req->on_done = post_done;
	req->on_done_arg = ln_rmem_ref(how->r);
	*out = req;
	return LUNE_OK;
}

int ln_post_start(struct lune_req *req, const struct lune_op *op)
{
	/* On an error the request is put back and may be taken again. */
	lune_rmem *r = req->on_done_arg;
	struct ln_rmem *sig = req->op.sig_rmem;
	struct ln_post how = { .r = r };
	int rc;

	count(&how, &req->op);
	rc = ln_req_start(req, op);
	if (rc)
		release(r, sig);
	return rc;
}

int ln_post_nothing(lune_ctx *ctx, const struct lune_op *op)
{
	const struct lune_status st = { .code = LUNE_OK };
	int rc = LUNE_OK;

	if (op && op->cq)
		rc = ln_req_reserve(op);
	if (!rc && op)
		ln_req_finished(ctx, op, &st);
	return rc;
}

int ln_post_one(const struct ln_post *how, const struct ln_seg *seg)
{
	struct lune_req *req;
	int rc = ln_post_take(how, &req);

	if (rc)
		return rc;
	if (how->nsegs)
		req->op.segs[0] = *seg;
	return ln_post_start(req, how->op);
}
