/* SPDX-License-Identifier: Apache-2.0 */
/* lune_mem: a region of the context's table, its ticket, its release. */
#include "rma/rma.h"

/* The caller's options; what his version of the struct lacks is zero. */
static int read_opts(const struct lune_mem_opts *in, struct lune_mem_opts *out)
{
	memset(out, 0, sizeof(*out));
	if (in && in->size < offsetof(struct lune_mem_opts, bind))
		return ln_error(LUNE_ERR_INVAL,
				"lune_mem_opts.size is not set");
	if (in)
		memcpy(out, in, ln_min(in->size, sizeof(*out)));
	if (out->rights & ~LUNE_MEM_ALL)
		return ln_error(LUNE_ERR_INVAL, "unknown rights %#x",
				out->rights);
	if (!out->rights)
		out->rights = LUNE_MEM_ALL;
	return LUNE_OK;
}

static int make(lune_ctx *ctx, lune_mem **out)
{
	lune_mem *m = ln_calloc(1, sizeof(*m));

	if (!m)
		return LUNE_ERR_NOMEM;
	m->ctx = ctx;
	*out = m;
	return LUNE_OK;
}

int lune_mem_alloc(lune_ctx *ctx, size_t bytes,
		   const struct lune_mem_opts *opts, lune_mem **out)
{
	struct ln_alloc_how how = { .numa = -1 };
	struct lune_mem_opts o;
	lune_mem *m;
	int rc;

	if (!ctx || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_mem_alloc: NULL");
	LN_CTX_CHECK(ctx);
	rc = read_opts(opts, &o);
	if (rc)
		return rc;
	how.rights = o.rights;
	how.shareable = !o.private_memory;
	if (o.bind)
		how.numa = o.numa;
	if (o.bind && o.numa < 0)
		return ln_error(LUNE_ERR_INVAL, "NUMA node %d", o.numa);
	rc = make(ctx, &m);
	if (rc)
		return rc;
	rc = ln_mem_alloc(ctx->mem, bytes, &how, &m->region);
	if (rc)
		ln_free(m);
	else
		*out = m;
	return rc;
}

int lune_mem_register(lune_ctx *ctx, void *addr, size_t bytes,
		      const struct lune_mem_opts *opts, lune_mem **out)
{
	struct lune_mem_opts o;
	lune_mem *m;
	int rc;

	if (!ctx || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_mem_register: NULL");
	LN_CTX_CHECK(ctx);
	rc = read_opts(opts, &o);
	if (rc)
		return rc;
	rc = make(ctx, &m);
	if (rc)
		return rc;
	rc = ln_mem_register(ctx->mem, addr, bytes, o.rights, &m->region);
	if (rc)
		ln_free(m);
	else
		*out = m;
	return rc;
}

void *lune_mem_addr(const lune_mem *mem)
{
	return mem->region->addr;
}

size_t lune_mem_bytes(const lune_mem *mem)
{
	return mem->region->bytes;
}

static void wake(void *net)
{
	ln_net_event(net);
}

int lune_mem_release(lune_mem *mem, int timeout_ms)
{
	lune_ctx *ctx;
	int rc;

	if (!mem)
		return LUNE_OK;
	ctx = mem->ctx;
	LN_CTX_CHECK(ctx);
	ln_mem_on_idle(ctx->mem, wake, ctx->net);
	ln_mem_revoke(ctx->mem, mem->region);
	rc = ln_net_fence_region(ctx->net, mem->region,
				 ln_deadline(timeout_ms,
					     (int)ctx->conf.timeout));
	if (rc)
		return rc;
	ln_mem_free(ctx->mem, mem->region);
	ln_free(mem);
	return LUNE_OK;
}

int lune_mem_ticket(const lune_mem *mem, void *out, size_t cap, size_t *bytes)
{
	struct ln_region *r;
	struct ln_ticket t;
	size_t card = 0;
	int rc;

	if (!mem || !out || !bytes)
		return ln_error(LUNE_ERR_INVAL, "lune_mem_ticket: NULL");
	LN_CTX_CHECK(mem->ctx);
	r = mem->region;
	if (!ln_mem_valid(mem->ctx->mem, r->key))
		return ln_error(LUNE_ERR_STALE, "the memory is being released");
	/*
	 * What was written before the ticket is there for whoever uses it: the
	 * pin of our own poller reads this counter (ln_mem_pin).
	 */
	atomic_fetch_add(&r->users, 0);
	memset(&t, 0, sizeof(t));
	t.key = r->key;
	t.base = (uintptr_t)r->addr;
	t.bytes = r->bytes;
	t.rights = r->rights;
	t.shareable = r->fd >= 0;
	rc = ln_card_pack(ln_net_card(mem->ctx->net), t.card, sizeof(t.card),
			  &card);
	if (rc)
		return rc;
	t.card_len = (uint16_t)card;
	return ln_ticket_pack(&t, out, cap, bytes);
}
