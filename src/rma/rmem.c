/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached memory: a ticket aimed at its owner.
 *
 * An rmem lives until it is detached and the last operation or shape that
 * uses it is done, so that detaching never waits.  Its route is found at the
 * first use (ln_rmem_settle); the owner's memory, once mapped, stays mapped as
 * long as the rmem lives, even when the owner is gone.
 */
#include "rma/rma.h"

lune_rmem *ln_rmem_ref(lune_rmem *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void ln_rmem_unref(lune_rmem *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	ln_rmem_fold(r);
	ln_rmem_fini(&r->net);
	ln_free(r);
}

int lune_rmem_attach(lune_ctx *ctx, const void *ticket, size_t bytes,
		     lune_rmem **out)
{
	struct ln_ticket t;
	lune_rmem *r;
	int rc;

	if (!ctx || !ticket || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_rmem_attach: NULL");
	LN_CTX_CHECK(ctx);
	rc = ln_ticket_unpack(ticket, bytes, &t);
	if (rc)
		return rc;
	r = ln_alloc_aligned(LN_CACHELINE, sizeof(*r));
	if (!r)
		return LUNE_ERR_NOMEM;
	rc = ln_rmem_init(ctx->net, &t, &r->net);
	if (rc) {
		ln_free(r);
		return rc;
	}
	r->ctx = ctx;
	r->self = ln_uuid_equal(&r->net.peer->card.uuid,
				&ln_net_card(ctx->net)->uuid);
	atomic_store(&r->refs, 1);
	atomic_fetch_add(&ctx->objects, 1);
	*out = r;
	return LUNE_OK;
}

void lune_rmem_detach(lune_rmem *r)
{
	/* A child must not touch what it shares with its parent. */
	if (!r || atomic_load(&r->ctx->forked))
		return;
	atomic_fetch_sub(&r->ctx->objects, 1);
	ln_rmem_unref(r);
}

size_t lune_rmem_bytes(const lune_rmem *r)
{
	return r->net.bytes;
}

unsigned lune_rmem_rights(const lune_rmem *r)
{
	return r->net.rights;
}

static bool settled(const lune_rmem *r)
{
	return r->self || atomic_load_explicit(&r->net.route,
					       memory_order_acquire);
}

static bool free_or_settled(void *arg)
{
	lune_rmem *r = arg;

	return !atomic_load(&r->resolving) || settled(r);
}

/* One thread resolves; the others wait for it, no longer than they may. */
static int resolve(lune_rmem *r, uint64_t deadline)
{
	int rc = LUNE_OK;

	while (!rc && !settled(r)) {
		if (atomic_exchange(&r->resolving, true)) {
			rc = ln_net_wait(r->ctx->net, free_or_settled, r,
					 deadline);
			continue;
		}
		if (!settled(r))
			rc = ln_rmem_resolve(&r->net, deadline);
		atomic_store(&r->resolving, false);
		ln_net_event(r->ctx->net);
	}
	return rc;
}

int ln_rmem_settle(lune_rmem *r)
{
	int rc;

	if (!r->ctx->manual)
		return resolve(r, ln_deadline(LUNE_TIMEOUT_DEFAULT,
					      (int)r->ctx->conf.timeout));
	rc = resolve(r, ln_now_ns());
	return rc == LUNE_ERR_TIMEOUT || rc == LUNE_ERR_AGAIN ? LUNE_OK : rc;
}

int lune_rmem_route(lune_rmem *r, int timeout_ms, char *out, size_t cap)
{
	int rc;

	if (!r || !out || !cap)
		return ln_error(LUNE_ERR_INVAL, "lune_rmem_route: NULL");
	LN_CTX_CHECK(r->ctx);
	rc = resolve(r, ln_deadline(timeout_ms, (int)r->ctx->conf.timeout));
	if (rc)
		return rc;
	if (r->self)
		snprintf(out, cap, "self");
	else
		ln_rmem_route_text(&r->net, out, cap);
	return LUNE_OK;
}

void *lune_rmem_pointer(lune_rmem *r, int timeout_ms)
{
	struct ln_path p;
	char *base;

	if (!r || atomic_load(&r->ctx->forked))
		return NULL;
	if (resolve(r, ln_deadline(timeout_ms, (int)r->ctx->conf.timeout)))
		return NULL;
	if (ln_path_open(&p, r, 0))
		return NULL;
	base = p.base;
	/* Load and store are the caller's business from here on. */
	ln_path_unpin(&p);
	return base;
}

/* ---- the sentences ------------------------------------------------------- */

int ln_rmem_bad_access(const lune_rmem *r, uint32_t rights)
{
	return ln_error(LUNE_ERR_ACCESS,
			"the ticket grants%s%s%s, this needs%s%s%s",
			r->net.rights & LUNE_MEM_READ ? " read" : "",
			r->net.rights & LUNE_MEM_WRITE ? " write" : "",
			r->net.rights & LUNE_MEM_ATOMIC ? " atomic" : "",
			rights & LUNE_MEM_READ ? " read" : "",
			rights & LUNE_MEM_WRITE ? " write" : "",
			rights & LUNE_MEM_ATOMIC ? " atomic" : "");
}

int ln_rmem_bad_bounds(const lune_rmem *r, uint64_t offset, uint64_t bytes)
{
	return ln_error(LUNE_ERR_BOUNDS,
			"offset %llu + %llu bytes in a region of %llu",
			(unsigned long long)offset, (unsigned long long)bytes,
			(unsigned long long)r->net.bytes);
}

int ln_rmem_bad_word(const lune_rmem *r, uint64_t offset)
{
	return ln_error(LUNE_ERR_INVAL,
			"a signal or atomic needs an 8-aligned word; offset "
			"%llu of a region at %#llx is not",
			(unsigned long long)offset,
			(unsigned long long)r->net.base);
}

int ln_rmem_stale(const lune_rmem *r)
{
	char peer[256];

	ln_peer_text(r->net.peer, peer, sizeof(peer));
	ln_count(&r->ctx->counters, refused_stale, 1);
	return ln_error(LUNE_ERR_STALE, "%s has released the region", peer);
}

int ln_rmem_dead(const lune_rmem *r)
{
	char peer[256];
	int code = LUNE_ERR_PEER;

	/* Acquire: pairs with the release of DEAD, after the code was set. */
	if (atomic_load_explicit(&r->net.peer->state, memory_order_acquire) ==
	    LN_PEER_DEAD)
		code = r->net.peer->death_code;
	ln_peer_text(r->net.peer, peer, sizeof(peer));
	return ln_error(code ? code : LUNE_ERR_PEER, "%s is gone", peer);
}

/* ---- counters ------------------------------------------------------------ */

static void add(lune_rmem *r, enum ln_rma_way way, uint64_t ops, uint64_t bytes)
{
	struct ln_counters *c = &r->ctx->counters;

	if (way == LN_RMA_PUT) {
		ln_count(c, put_ops, ops);
		ln_count(c, put_bytes, bytes);
	} else {
		ln_count(c, get_ops, ops);
		ln_count(c, get_bytes, bytes);
	}
	ln_count(c, map_bytes, bytes);
}

void ln_rmem_count(lune_rmem *r, enum ln_rma_way way, uint64_t bytes)
{
	add(r, way, 1, bytes);
}

void ln_rmem_fold(lune_rmem *r)
{
	for (int way = LN_RMA_PUT; way <= LN_RMA_GET; way++) {
		uint64_t ops = atomic_exchange(&r->tally[way].ops, 0);
		uint64_t bytes = atomic_exchange(&r->tally[way].bytes, 0);

		if (ops)
			add(r, way, ops, bytes);
	}
}
