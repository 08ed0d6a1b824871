/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote atomics on 64-bit words, and signals sent alone.  On mapped memory
 * they are the processor's own, which are coherent with those that the
 * owner's process does for peers elsewhere.
 */
#include "rma/rma.h"

static uint64_t apply(_Atomic uint64_t *word, const struct lune_atomic *a)
{
	uint64_t expected = a->compare;

	switch (a->how) {
	case LUNE_ATOMIC_FETCH_ADD:
		return atomic_fetch_add(word, a->operand);
	case LUNE_ATOMIC_SWAP:
		return atomic_exchange(word, a->operand);
	default:
		atomic_compare_exchange_strong(word, &expected, a->operand);
		return expected;
	}
}

struct atomic {
	lune_rmem *r;
	uint64_t offset;
	const struct lune_atomic *a;
	uint64_t *old;
};

static int atomic_posted(const struct atomic *t, const struct lune_op *op)
{
	struct ln_post how = { .r = t->r, .kind = LN_OP_ATOMIC, .nsegs = 1,
			       .op = op };
	struct lune_req *req;
	int rc;

	rc = ln_post_take(&how, &req);
	if (rc)
		return rc;
	/* Nobody wants the old value: it lands in the request's own room. */
	req->op.result = t->old ? t->old : (uint64_t *)(void *)req->segs_buf;
	req->op.nsegs = 0;
	req->op.sig_rmem = &ln_rmem_ref(t->r)->net;
	req->op.sig_offset = t->offset;
	req->op.sig_how = (uint8_t)t->a->how;
	req->op.sig_value = t->a->operand;
	req->op.compare = t->a->compare;
	return ln_post_start(req, op);
}

static int check(lune_rmem *r, uint64_t offset, const struct lune_op *op)
{
	int rc;

	LN_CTX_CHECK(r->ctx);
	rc = ln_rmem_check_word(r, offset);
	if (!rc && op)
		rc = ln_inline_check_op(r, op, false);
	return rc;
}

int lune_atomic(lune_rmem *r, uint64_t offset, const struct lune_atomic *a,
		uint64_t *old, const struct lune_op *op)
{
	struct atomic t = { r, offset, a, old };
	struct ln_inline in;
	uint64_t v;
	int rc;

	if (!r || !a || (unsigned)a->how > LUNE_ATOMIC_SWAP)
		return ln_error(LUNE_ERR_INVAL, "lune_atomic: NULL or unknown");
	rc = check(r, offset, op);
	if (rc)
		return rc;
	rc = ln_inline_open(&in, r, LUNE_MEM_ATOMIC, op);
	if (rc < 0)
		return rc;
	ln_count(&r->ctx->counters, atomic_ops, 1);
	if (!rc)
		return atomic_posted(&t, op);
	v = apply((void *)(in.data.base + offset), a);
	rc = ln_inline_close(&in, op, 8);
	if (rc)
		return rc;
	if (old)
		*old = v;
	ln_rmem_ring(r);
	return LUNE_OK;
}

static int signal_posted(const struct lune_signal_to *s,
			 const struct lune_op *op)
{
	struct lune_op with = { .flags = 0 };
	struct ln_post how = { .r = s->rmem, .kind = LN_OP_PUT, .op = &with };

	if (op)
		with = *op;
	with.signal = *s;
	return ln_post_one(&how, NULL);
}

static int signal_alone(const struct lune_signal_to *s,
			const struct lune_op *op)
{
	struct ln_inline in;
	_Atomic uint64_t *word;
	int rc;

	if (!s->rmem || (op && op->signal.rmem))
		return ln_error(LUNE_ERR_INVAL,
				"a signal needs memory and carries no other");
	rc = check(s->rmem, s->offset, op);
	if (rc)
		return rc;
	rc = ln_inline_open(&in, s->rmem, LUNE_MEM_ATOMIC, op);
	if (rc < 0)
		return rc;
	if (!rc)
		return signal_posted(s, op);
	word = (void *)(in.data.base + s->offset);
	if (s->how == LUNE_SIGNAL_SET)
		atomic_store_explicit(word, s->value, memory_order_release);
	else
		atomic_fetch_add_explicit(word, s->value,
					  memory_order_release);
	rc = ln_inline_close(&in, op, 0);
	ln_rmem_ring(s->rmem);
	return rc;
}

int lune_signal_add(lune_rmem *r, uint64_t offset, uint64_t value,
		    const struct lune_op *op)
{
	struct lune_signal_to s = { r, offset, value, LUNE_SIGNAL_ADD };

	return signal_alone(&s, op);
}

int lune_signal_set(lune_rmem *r, uint64_t offset, uint64_t value,
		    const struct lune_op *op)
{
	struct lune_signal_to s = { r, offset, value, LUNE_SIGNAL_SET };

	return signal_alone(&s, op);
}
