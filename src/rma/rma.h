/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside rma: the objects, and the two ways of an operation.
 *
 *   lune_put --check--> mapped here?  --yes--> copy, re-check, signal  (path)
 *                            |
 *                            no -----> lune_req with an ln_op --> net
 *
 * The first way is inline below, because an 8-byte put to a mapped peer must
 * come down to a few compares and a store.  It takes no lock and writes no
 * memory that other peers' operations write.
 *
 * Mapped memory may be released by its owner at any moment.  That is harmless
 * (our mapping keeps the pages), but must be noticed: the owner's generation
 * is read before and after the copy.  Memory of our own context is not mapped
 * a second time; there a pin holds off the release instead.
 */
#ifndef LN_RMA_H
#define LN_RMA_H

#include <lune/rma.h>

#include "rt/rt.h"

struct lune_mem {
	lune_ctx *ctx;
	struct ln_region *region;
};

/* Small inline operations not yet added to the context's counters. */
struct ln_tally {
	_Atomic uint64_t ops, bytes;
};

enum ln_rma_way { LN_RMA_PUT, LN_RMA_GET };

struct lune_rmem {
	struct ln_rmem net;
	lune_ctx *ctx;
	bool self;	      /* of this very context */
	_Atomic bool resolving; /* one thread finds the route */
	/* The owner's, and one per operation or shape that uses it. */
	_Alignas(LN_CACHELINE) _Atomic int refs;
	struct ln_tally tally[2]; /* by enum ln_rma_way */
};

/* ---- rmem.c -------------------------------------------------------------- */

lune_rmem *ln_rmem_ref(lune_rmem *r);
void ln_rmem_unref(lune_rmem *r);
/*
 * Before the first use: find the route.  Waits for the connection with the
 * default deadline; with manual progress it only looks (the peer may be
 * waiting for us), and the operation goes by net until the route is there.
 */
int ln_rmem_settle(lune_rmem *r);
/* The sentences of the checks below, out of line. */
int ln_rmem_bad_access(const lune_rmem *r, uint32_t rights);
int ln_rmem_bad_bounds(const lune_rmem *r, uint64_t offset, uint64_t bytes);
int ln_rmem_bad_word(const lune_rmem *r, uint64_t offset);
int ln_rmem_stale(const lune_rmem *r);
int ln_rmem_dead(const lune_rmem *r);
/* Add what was tallied to the context's counters. */
void ln_rmem_fold(lune_rmem *r);

static inline lune_rmem *ln_rmem_of(struct ln_rmem *net)
{
	return ln_container_of(net, lune_rmem, net);
}

static inline int ln_rmem_check(const lune_rmem *r, uint64_t offset,
				uint64_t bytes, uint32_t rights)
{
	if (__builtin_expect((r->net.rights & rights) != rights, 0))
		return ln_rmem_bad_access(r, rights);
	if (__builtin_expect(offset > r->net.bytes ||
			     bytes > r->net.bytes - offset, 0))
		return ln_rmem_bad_bounds(r, offset, bytes);
	return LUNE_OK;
}

/* A signal or atomic: right, bounds, alignment (of the owner's address). */
static inline int ln_rmem_check_word(const lune_rmem *r, uint64_t offset)
{
	if (__builtin_expect((offset | (r->net.base + offset)) & 7, 0))
		return ln_rmem_bad_word(r, offset);
	return ln_rmem_check(r, offset, 8, LUNE_MEM_ATOMIC);
}

/*
 * Lossless from one thread; threads that share an rmem may lose counts of
 * small operations, never of large ones.  Cheaper than an atomic add.
 */
#define LN_TALLY_OPS 64
#define LN_TALLY_BYTES 4096
void ln_rmem_count(lune_rmem *r, enum ln_rma_way way, uint64_t bytes);
static inline void ln_rmem_tally(lune_rmem *r, enum ln_rma_way way,
				 uint64_t bytes)
{
	struct ln_tally *t = &r->tally[way];
	uint64_t ops;

	if (bytes >= LN_TALLY_BYTES) {
		ln_rmem_count(r, way, bytes);
		return;
	}
	ops = atomic_load_explicit(&t->ops, memory_order_relaxed) + 1;
	atomic_store_explicit(&t->ops, ops, memory_order_relaxed);
	atomic_store_explicit(
		&t->bytes,
		atomic_load_explicit(&t->bytes, memory_order_relaxed) + bytes,
		memory_order_relaxed);
	if (ops >= LN_TALLY_OPS)
		ln_rmem_fold(r);
}

/* ---- the path of memory that is mapped here ------------------------------ */

struct ln_path {
	lune_rmem *r;
	char *base;		  /* NULL: not reachable by load and store */
	struct ln_region *pinned; /* self */
};
int ln_path_open_self(struct ln_path *p, lune_rmem *r, uint32_t rights);
int ln_path_open_cold(struct ln_path *p, lune_rmem *r);
/* Give the pin back, if there is one. */
void ln_path_unpin(struct ln_path *p);

static inline bool ln_path_current(const lune_rmem *r)
{
	/* Acquire: no byte is read before the generation was. */
	return atomic_load_explicit(r->net.gen, memory_order_acquire) ==
	       r->net.gen_want;
}

static inline int ln_path_open(struct ln_path *p, lune_rmem *r,
			       uint32_t rights)
{
	p->r = r;
	p->pinned = NULL;
	p->base = NULL;
	if (__builtin_expect(r->self, 0))
		return ln_path_open_self(p, r, rights);
	/* Pairs with the release in net, after gen was set. */
	p->base = atomic_load_explicit(&r->net.map, memory_order_acquire);
	if (__builtin_expect(!p->base, 0))
		return ln_path_open_cold(p, r);
	if (__builtin_expect(atomic_load_explicit(&r->net.peer->state,
						  memory_order_relaxed) ==
				     LN_PEER_DEAD, 0))
		return ln_rmem_dead(r);
	if (__builtin_expect(!ln_path_current(r), 0))
		return ln_rmem_stale(r);
	return LUNE_OK;
}

/* LUNE_ERR_STALE: it was released meanwhile. */
static inline int ln_path_close(struct ln_path *p)
{
	if (__builtin_expect(p->pinned != NULL, 0)) {
		ln_path_unpin(p);
		return LUNE_OK;
	}
	/* No byte is read after the generation will be. */
	atomic_thread_fence(memory_order_acquire);
	if (__builtin_expect(!ln_path_current(p->r), 0))
		return ln_rmem_stale(p->r);
	return LUNE_OK;
}

/* Aligned words are copied whole: a reader sees the old or the new one. */
static inline void ln_path_copy(char *dst, const char *src, size_t bytes)
{
	if (bytes == 8 && !(((uintptr_t)dst | (uintptr_t)src) & 7))
		__atomic_store_n((uint64_t *)(void *)dst,
				 __atomic_load_n((const uint64_t *)
							 (const void *)src,
						 __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	else if (bytes)
		memcpy(dst, src, bytes);
}

/* ---- inline.c: an operation by paths ------------------------------------- */

struct ln_inline {
	struct ln_path data, sig;
};
/*
 * 1: both paths are open and a place to report is kept.  0: it must go by net
 * (not mapped, or ORDERED behind operations in flight).  Else the error.
 */
int ln_inline_open_slow(struct ln_inline *in, const struct lune_op *op);
int ln_inline_close_slow(struct ln_inline *in, const struct lune_op *op,
			 uint64_t bytes);

static inline int ln_inline_open(struct ln_inline *in, lune_rmem *r,
				 uint32_t rights, const struct lune_op *op)
{
	int rc = ln_path_open(&in->data, r, rights);

	if (rc)
		return rc;
	in->sig.r = NULL;
	if (!in->data.base)
		return 0;
	return op ? ln_inline_open_slow(in, op) : 1;
}

/* Re-check, fire the signal, report.  The code of the call. */
static inline int ln_inline_close(struct ln_inline *in,
				  const struct lune_op *op, uint64_t bytes)
{
	return op ? ln_inline_close_slow(in, op, bytes) :
		    ln_path_close(&in->data);
}

/* What every data call checks about its op. */
int ln_inline_check_op(const lune_rmem *r, const struct lune_op *op, bool put);

/* ---- post.c: an operation by net ----------------------------------------- */

/*
 * A request for `nsegs` segments to r's peer, described by op and holding
 * references on r and the signal's rmem until it is done.  ln_post_start
 * hands it over (or gives all back).
 */
struct ln_post {
	lune_rmem *r;
	enum ln_op_kind kind;
	uint32_t nsegs;
	const struct lune_op *op;
};
int ln_post_take(const struct ln_post *how, struct lune_req **out);
int ln_post_start(struct lune_req *req, const struct lune_op *op);
/* Report an operation that has nothing to do (a get of no bytes). */
int ln_post_nothing(lune_ctx *ctx, const struct lune_op *op);
/* A put or get of one piece. */
int ln_post_one(const struct ln_post *how, const struct ln_seg *seg);

/* Wake the waiters of the process whose memory was written. */
void ln_rmem_ring(lune_rmem *r);

#endif
