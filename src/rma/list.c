/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists: many pieces, one operation.  Everything is checked before the first
 * byte moves, so that what is refused at once has touched nothing.  By net,
 * entry i of the list is segment i of the op, empty ones included: the index
 * of a failure needs no translation.
 */
#include "rma/rma.h"

struct list {
	lune_rmem *r;
	const struct lune_iov *v;
	size_t count;
	const struct lune_op *op;
	enum ln_op_kind kind;
	uint32_t rights;
};

static int check(const struct list *l, uint64_t *total)
{
	uint64_t sum = 0;
	int rc;

	if (!l->r || !l->v || !l->count)
		return ln_error(LUNE_ERR_INVAL, "a list with no entries");
	LN_CTX_CHECK(l->r->ctx);
	if (l->count > LUNE_LIST_MAX)
		return ln_error(LUNE_ERR_LIMIT,
				"a list of %zu entries, at most %u are allowed",
				l->count, LUNE_LIST_MAX);
	for (size_t i = 0; i < l->count; i++) {
		const struct lune_iov *e = &l->v[i];

		rc = ln_rmem_check(l->r, e->offset, e->bytes, l->rights);
		if (!rc && !e->addr && e->bytes)
			rc = ln_error(LUNE_ERR_INVAL, "NULL address");
		if (!rc && __builtin_add_overflow(sum, e->bytes, &sum))
			rc = ln_error(LUNE_ERR_LIMIT, "too many bytes");
		if (rc)
			return ln_error_prefix(rc, "entry %zu", i);
	}
	*total = sum;
	return l->op ? ln_inline_check_op(l->r, l->op, l->kind == LN_OP_PUT) :
		       LUNE_OK;
}

static int posted(const struct list *l, uint64_t total)
{
	struct ln_post how = { .r = l->r, .kind = l->kind,
			       .nsegs = (uint32_t)l->count, .op = l->op };
	struct lune_req *req;
	int rc;

	if (!total && l->kind == LN_OP_GET)
		return ln_post_nothing(l->r->ctx, l->op);
	rc = ln_post_take(&how, &req);
	if (rc)
		return rc;
	for (size_t i = 0; i < l->count; i++)
		req->op.segs[i] = (struct ln_seg){
			l->v[i].addr, &l->r->net, l->v[i].offset, l->v[i].bytes,
		};
	return ln_post_start(req, l->op);
}

static void copy(const struct list *l, char *base)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct lune_iov *e = &l->v[i];

		if (l->kind == LN_OP_PUT)
			ln_path_copy(base + e->offset, e->addr, e->bytes);
		else
			ln_path_copy(e->addr, base + e->offset, e->bytes);
	}
}

static int run(const struct list *l)
{
	struct ln_inline in;
	uint64_t total = 0;
	int rc = check(l, &total);

	if (rc)
		return rc;
	rc = ln_inline_open(&in, l->r, l->rights, l->op);
	if (rc < 0)
		return rc;
	if (!rc)
		return posted(l, total);
	copy(l, in.data.base);
	ln_rmem_tally(l->r, l->kind == LN_OP_PUT ? LN_RMA_PUT : LN_RMA_GET,
		      total);
	return ln_inline_close(&in, l->op, total);
}

int lune_putv(lune_rmem *dst, const struct lune_iov *list, size_t count,
	      const struct lune_op *op)
{
	struct list l = { dst, list, count, op, LN_OP_PUT, LUNE_MEM_WRITE };

	return run(&l);
}

int lune_getv(lune_rmem *src, const struct lune_iov *list, size_t count,
	      const struct lune_op *op)
{
	struct list l = { src, list, count, op, LN_OP_GET, LUNE_MEM_READ };

	return run(&l);
}
