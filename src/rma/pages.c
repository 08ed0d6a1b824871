/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged KV caches.  A shape is checked once, when it is opened, so that a
 * transfer only has to hold each page index against one limit:
 *
 *   part 0 | page 0 | page 1 | ...        base + index * stride
 *   part 1 | page 0 | page 1 | ...
 *
 * A transfer walks part by part; pages that follow each other on both sides
 * (consecutive indices, no gap between pages) become one piece.  Where all
 * remote parts are mapped here, the pieces are copied at once; otherwise they
 * become the segments of one op, and a failed segment is translated back to
 * the block where it begins: bytes before it tell which that was.
 *
 * Invariants: a shape is never written after it was opened, except for its
 * reference count; each remote part's whole range lies in its rmem.
 */
#include "rma/rma.h"

struct part {
	char *base;		/* local */
	lune_rmem *rmem;	/* remote */
	uint64_t offset, stride, bytes;
};

struct lune_pages {
	lune_ctx *ctx;
	_Atomic int refs; /* the owner's, and one per op in flight */
	bool remote;
	bool self;	   /* remote: of this context; goes by net */
	uint32_t limit;	   /* page indices below it are good for all parts */
	uint32_t rights;   /* remote: what all rmems grant */
	uint32_t nrmems;
	lune_rmem **rmems; /* remote: each once; a reference each */
	size_t count;
	struct part parts[];
};

/* ---- shapes -------------------------------------------------------------- */

static void unref(lune_pages *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < p->nrmems; i++)
		ln_rmem_unref(p->rmems[i]);
	ln_free(p->rmems);
	ln_free(p);
}

/* Does the last byte of the last page lie in the region? */
static int check_range(const struct lune_pages_part *in)
{
	uint64_t span;

	if (__builtin_mul_overflow(in->stride, (uint64_t)in->count - 1,
				   &span) ||
	    __builtin_add_overflow(span, in->bytes, &span))
		return ln_error(LUNE_ERR_INVAL, "the part is too large");
	if (in->base && (uintptr_t)in->base + span < (uintptr_t)in->base)
		return ln_error(LUNE_ERR_INVAL, "the part wraps around");
	return in->rmem ? ln_rmem_check(in->rmem, in->offset, span, 0) :
			  LUNE_OK;
}

static int check_part(const struct lune_pages_part *in, bool remote)
{
	if (remote ? !in->rmem || in->base : in->rmem || !in->base)
		return ln_error(LUNE_ERR_INVAL,
				"all parts have a base, or all an rmem");
	if (!in->count || !in->bytes || in->stride < in->bytes)
		return ln_error(LUNE_ERR_INVAL,
				"%u pages of %llu bytes every %llu", in->count,
				(unsigned long long)in->bytes,
				(unsigned long long)in->stride);
	return check_range(in);
}

static int add_rmem(lune_pages *p, lune_rmem *r)
{
	/* Parts of one rmem mostly follow each other. */
	for (uint32_t i = p->nrmems; i > 0; i--)
		if (p->rmems[i - 1] == r)
			return LUNE_OK;
	if (r->ctx != p->ctx ||
	    (p->nrmems && r->net.peer != p->rmems[0]->net.peer))
		return ln_error(LUNE_ERR_INVAL,
				"the parts belong to different peers");
	p->rmems[p->nrmems++] = ln_rmem_ref(r);
	p->rights &= r->net.rights;
	p->self = r->self;
	return LUNE_OK;
}

static int add_part(lune_pages *p, const struct lune_pages_part *in)
{
	int rc = check_part(in, p->remote);

	if (!rc && p->remote)
		rc = add_rmem(p, in->rmem);
	if (rc)
		return ln_error_prefix(rc, "part %zu", p->count);
	p->limit = ln_min(p->limit, in->count);
	p->parts[p->count++] = (struct part){
		in->base, in->rmem, in->offset, in->stride, in->bytes,
	};
	return LUNE_OK;
}

int lune_pages_open(lune_ctx *ctx, const struct lune_pages_part *parts,
		    size_t count, lune_pages **out)
{
	lune_pages *p;
	int rc = LUNE_OK;

	if (!ctx || !parts || !out || !count || count > LUNE_PAGES_PARTS_MAX)
		return ln_error(LUNE_ERR_INVAL, "a shape of %zu parts", count);
	LN_CTX_CHECK(ctx);
	p = ln_calloc(1, sizeof(*p) + count * sizeof(p->parts[0]));
	if (!p)
		return LUNE_ERR_NOMEM;
	p->ctx = ctx;
	atomic_store(&p->refs, 1);
	p->limit = UINT32_MAX;
	p->rights = LUNE_MEM_ALL;
	p->remote = parts[0].rmem != NULL;
	if (p->remote) {
		p->rmems = ln_calloc(count, sizeof(p->rmems[0]));
		rc = p->rmems ? LUNE_OK : LUNE_ERR_NOMEM;
	}
	for (size_t i = 0; !rc && i < count; i++)
		rc = add_part(p, &parts[i]);
	if (rc)
		unref(p);
	else
		*out = p;
	return rc;
}

void lune_pages_close(lune_pages *p)
{
	if (p && !atomic_load(&p->ctx->forked))
		unref(p);
}

/* ---- transfers ----------------------------------------------------------- */

struct transfer {
	lune_pages *remote;
	const lune_pages *local;
	const struct lune_page_map *map;
	const struct lune_op *op;
	enum ln_op_kind kind;
	uint32_t rights;
};

static int check_index(const lune_pages *p, uint32_t index, size_t k)
{
	if (index < p->limit)
		return LUNE_OK;
	return ln_error(LUNE_ERR_BOUNDS,
			"entry %zu: %s page %u of %u", k,
			p->remote ? "remote" : "local", index, p->limit);
}

static int check_shapes(const lune_pages *remote, const lune_pages *local)
{
	if (remote->count != local->count)
		return ln_error(LUNE_ERR_INVAL,
				"%zu parts there, %zu parts here",
				remote->count, local->count);
	for (size_t i = 0; i < remote->count; i++)
		if (remote->parts[i].bytes != local->parts[i].bytes)
			return ln_error(LUNE_ERR_INVAL,
					"part %zu: pages of %llu bytes there, "
					"%llu here", i,
					(unsigned long long)
						remote->parts[i].bytes,
					(unsigned long long)
						local->parts[i].bytes);
	return LUNE_OK;
}

static int check_map(const struct transfer *t)
{
	const struct lune_page_map *m = t->map;
	int rc = LUNE_OK;

	if (m->count && (!m->local || !m->remote))
		return ln_error(LUNE_ERR_INVAL, "a page map without indices");
	if (m->count > LUNE_LIST_MAX / t->remote->count)
		return ln_error(LUNE_ERR_LIMIT,
				"%zu pages of %zu parts are more than %u "
				"blocks", m->count, t->remote->count,
				LUNE_LIST_MAX);
	for (size_t k = 0; !rc && k < m->count; k++) {
		rc = check_index(t->remote, m->remote[k], k);
		if (!rc)
			rc = check_index(t->local, m->local[k], k);
	}
	return rc;
}

static int check(const struct transfer *t)
{
	int rc;

	if (!t->remote || !t->local || !t->map || !t->remote->remote ||
	    t->local->remote)
		return ln_error(LUNE_ERR_INVAL,
				"a remote and a local shape and a page map "
				"are needed");
	LN_CTX_CHECK(t->remote->ctx);
	if ((t->remote->rights & t->rights) != t->rights)
		return ln_rmem_bad_access(t->remote->rmems[0], t->rights);
	rc = check_shapes(t->remote, t->local);
	if (!rc)
		rc = check_map(t);
	if (!rc && t->op)
		rc = ln_inline_check_op(t->remote->rmems[0], t->op,
					t->kind == LN_OP_PUT);
	return rc;
}

/* Blocks k, k + 1, ... of a part that lie side by side here and there. */
static size_t run_length(const struct transfer *t, size_t part, size_t k)
{
	const struct part *r = &t->remote->parts[part];
	const struct part *l = &t->local->parts[part];
	const struct lune_page_map *m = t->map;
	size_t n = 1;

	if (r->stride != r->bytes || l->stride != l->bytes)
		return 1;
	while (k + n < m->count && m->remote[k + n] == m->remote[k] + n &&
	       m->local[k + n] == m->local[k] + n)
		n++;
	return n;
}

/* The next piece from block *k of a part on; *k moves behind it. */
static struct ln_seg piece(const struct transfer *t, size_t part, size_t *k)
{
	const struct part *r = &t->remote->parts[part];
	const struct part *l = &t->local->parts[part];
	size_t n = run_length(t, part, *k);
	struct ln_seg s = {
		.local = l->base + t->map->local[*k] * l->stride,
		.rmem = &r->rmem->net,
		.offset = r->offset + t->map->remote[*k] * r->stride,
		.bytes = n * r->bytes,
	};

	*k += n;
	return s;
}

static uint64_t total_bytes(const struct transfer *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->remote->count; i++)
		sum += t->remote->parts[i].bytes;
	return sum * t->map->count;
}

/* ---- inline -------------------------------------------------------------- */

/*
 * All remote regions are mapped and current.  Also finds the routes at the
 * first use.  1, 0 (by net), or an error.
 */
static int all_mapped(const lune_pages *p)
{
	struct ln_path path;
	int rc, all = 1;

	if (p->self)
		return 0;
	for (uint32_t i = 0; i < p->nrmems; i++) {
		rc = ln_path_open(&path, p->rmems[i], 0);
		if (rc)
			return rc;
		if (!path.base)
			all = 0;
	}
	return all;
}

static int all_current(const lune_pages *p)
{
	for (uint32_t i = 0; i < p->nrmems; i++) {
		struct ln_path path = { .r = p->rmems[i] };
		int rc = ln_path_close(&path);

		if (rc)
			return rc;
	}
	return LUNE_OK;
}

static void copy_all(const struct transfer *t)
{
	for (size_t i = 0; i < t->remote->count; i++) {
		char *base = atomic_load_explicit(
			&t->remote->parts[i].rmem->net.map,
			memory_order_relaxed);

		for (size_t k = 0; k < t->map->count;) {
			struct ln_seg s = piece(t, i, &k);
			char *there = base + s.offset;

			if (t->kind == LN_OP_PUT)
				ln_path_copy(there, s.local, s.bytes);
			else
				ln_path_copy(s.local, there, s.bytes);
		}
	}
}

static int run_inline(const struct transfer *t, struct ln_inline *in)
{
	uint64_t bytes = total_bytes(t);
	int rc;

	copy_all(t);
	ln_rmem_tally(in->data.r,
		      t->kind == LN_OP_PUT ? LN_RMA_PUT : LN_RMA_GET, bytes);
	/* All regions but in's own; that one ln_inline_close looks at. */
	rc = all_current(t->remote);
	if (rc) {
		struct lune_status st = { .code = rc };

		if (!t->op || !t->op->cq)
			return rc;
		ln_req_finished(t->remote->ctx, t->op, &st);
		return LUNE_OK;
	}
	return ln_inline_close(in, t->op, bytes);
}

/* ---- by net -------------------------------------------------------------- */

/* Which block begins where segment `index` does? */
static uint64_t block_of(const struct lune_req *req, const lune_pages *p,
			 uint64_t count)
{
	uint64_t before = 0, block = 0;

	for (uint64_t i = 0; i < req->op.index && i < req->op.nsegs; i++)
		before += req->op.segs[i].bytes;
	for (size_t i = 0; i < p->count; i++) {
		uint64_t bytes = p->parts[i].bytes * count;

		if (before < bytes)
			return block + before / p->parts[i].bytes;
		before -= bytes;
		block += count;
	}
	return block ? block - 1 : 0;
}

/* Blocks per part, from what the op moves. */
static uint64_t count_of(const struct lune_req *req, const lune_pages *p)
{
	uint64_t page = 0, all = 0;

	for (size_t i = 0; i < p->count; i++)
		page += p->parts[i].bytes;
	for (uint32_t i = 0; i < req->op.nsegs; i++)
		all += req->op.segs[i].bytes;
	return all / page;
}

static void release(lune_pages *p, struct ln_rmem *sig)
{
	unref(p);
	if (sig)
		ln_rmem_unref(ln_rmem_of(sig));
}

static void pages_done(struct lune_req *req)
{
	lune_pages *p = req->on_done_arg;

	if (req->op.code && req->op.nsegs)
		req->op.index = block_of(req, p, count_of(req, p));
	release(p, req->op.sig_rmem);
}

static uint32_t fill(const struct transfer *t, struct ln_seg *segs)
{
	uint32_t n = 0;

	for (size_t i = 0; i < t->remote->count; i++)
		for (size_t k = 0; k < t->map->count;)
			segs[n++] = piece(t, i, &k);
	return n;
}

static int run_posted(const struct transfer *t)
{
	struct ln_post how = {
		.r = t->remote->rmems[0], .kind = t->kind, .op = t->op,
		.nsegs = (uint32_t)(t->remote->count * t->map->count),
	};
	struct ln_counters *c = &t->remote->ctx->counters;
	struct lune_req *req;
	struct ln_rmem *sig;
	int rc;

	if (!how.nsegs && t->kind == LN_OP_GET)
		return ln_post_nothing(t->remote->ctx, t->op);
	rc = ln_post_take(&how, &req);
	if (rc)
		return rc;
	req->op.nsegs = fill(t, req->op.segs);
	/* The shape holds its rmems: one reference on it is enough. */
	ln_rmem_unref(how.r);
	req->on_done = pages_done;
	req->on_done_arg = t->remote;
	atomic_fetch_add(&t->remote->refs, 1);
	if (t->kind == LN_OP_PUT) {
		ln_count(c, put_ops, 1);
		ln_count(c, put_bytes, total_bytes(t));
	} else {
		ln_count(c, get_ops, 1);
		ln_count(c, get_bytes, total_bytes(t));
	}
	sig = req->op.sig_rmem;
	rc = ln_req_start(req, t->op);
	if (rc)
		release(t->remote, sig);
	return rc;
}

static int run(const struct transfer *t)
{
	struct ln_inline in;
	int rc = check(t);

	if (rc)
		return rc;
	rc = all_mapped(t->remote);
	if (rc < 0)
		return rc;
	if (rc) {
		rc = ln_inline_open(&in, t->remote->rmems[0], 0, t->op);
		if (rc < 0)
			return rc;
	}
	return rc ? run_inline(t, &in) : run_posted(t);
}

int lune_put_pages(const lune_pages *remote, const lune_pages *local,
		   const struct lune_page_map *map, const struct lune_op *op)
{
	/* Only the reference count of a shape ever changes. */
	struct transfer t = { (lune_pages *)(uintptr_t)remote, local, map, op,
			      LN_OP_PUT, LUNE_MEM_WRITE };

	return run(&t);
}

int lune_get_pages(const lune_pages *remote, const lune_pages *local,
		   const struct lune_page_map *map, const struct lune_op *op)
{
	struct transfer t = { (lune_pages *)(uintptr_t)remote, local, map, op,
			      LN_OP_GET, LUNE_MEM_READ };

	return run(&t);
}
