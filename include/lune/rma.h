/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided transfer.  The data calls start an operation and return; what
 * becomes of it is reported through struct lune_op:
 *
 *   lune_req *req;
 *   lune_put(rmem, 0, buf, n, &(struct lune_op){ .req = &req });
 *   lune_req_wait(&req, 1000, NULL);
 *
 * With op == NULL (or neither req nor cq) nothing is reported per operation:
 * lune_flush waits for all and returns the first error.  Source memory must
 * stay unchanged, and destination memory untouched, until the operation is
 * done; the arrays of lists and pages may be reused when the call returns.
 *
 * The local side may be any memory of the process.  Lengths are size_t, may
 * exceed 4 GiB, and may be 0 (a signal is still delivered).
 *
 * Errors that are known at once are returned by the call and nothing is
 * started: LUNE_ERR_INVAL, LUNE_ERR_BOUNDS, LUNE_ERR_ACCESS (rights),
 * LUNE_ERR_STALE, LUNE_ERR_PEER, LUNE_ERR_UNREACHABLE, LUNE_ERR_FORKED,
 * LUNE_ERR_LIMIT, LUNE_ERR_NOMEM.  Others come with the completion.
 */
#ifndef LUNE_RMA_H
#define LUNE_RMA_H

#include <lune/decls.h>
#include <lune/mem.h>
#include <lune/req.h>

LUNE_DECLS_BEGIN

/* Done when the local buffer may be reused, not when delivered. */
#define LUNE_OP_LOCAL 1u
/* Visible at the peer only after all earlier operations to that peer. */
#define LUNE_OP_ORDERED 2u

enum lune_signal_how { LUNE_SIGNAL_ADD = 0, LUNE_SIGNAL_SET = 1 };

/* The word to touch at the target once every byte of the operation is there. */
struct lune_signal_to {
	lune_rmem *rmem; /* NULL: no signal; same peer as the data */
	uint64_t offset; /* multiple of 8 */
	uint64_t value;
	enum lune_signal_how how;
};

struct lune_op {
	lune_req **req; /* gets the request; NULL result: already done well */
	lune_cq *cq;	/* or: report to this queue, with `user` */
	void *user;
	unsigned flags;
	struct lune_signal_to signal; /* puts only */
};

int lune_put(lune_rmem *dst, uint64_t offset, const void *src, size_t bytes,
	     const struct lune_op *op);
int lune_get(lune_rmem *src, uint64_t offset, void *dst, size_t bytes,
	     const struct lune_op *op);

struct lune_iov {
	void *addr;	 /* here */
	uint64_t offset; /* there */
	size_t bytes;
};
/* A list is one operation: one completion, one signal.  1..LUNE_LIST_MAX. */
#define LUNE_LIST_MAX (1u << 20)
int lune_putv(lune_rmem *dst, const struct lune_iov *list, size_t count,
	      const struct lune_op *op);
int lune_getv(lune_rmem *src, const struct lune_iov *list, size_t count,
	      const struct lune_op *op);

/*
 * Paged KV cache.  A shape is a set of parts (a layer's K or V tensor); page i
 * of a part is `bytes` bytes at base + i * stride.  One put moves page
 * src[k] of every part to page dst[k] of the corresponding part at the peer,
 * for all k: parts x count blocks, one completion, one signal.  Both shapes
 * must have the same number of parts and bytes per page.
 */
typedef struct lune_pages lune_pages;
struct lune_pages_part {
	void *base;	 /* local shape: address of page 0 */
	lune_rmem *rmem; /* remote shape: region; all of one peer */
	uint64_t offset; /* remote shape: of page 0 in the region */
	uint64_t stride; /* from page to page, bytes */
	uint64_t bytes;	 /* of one page, <= stride */
	uint32_t count;	 /* pages */
};
#define LUNE_PAGES_PARTS_MAX 4096
/* Copies the parts.  All local (base) or all remote (rmem). */
int lune_pages_open(lune_ctx *ctx, const struct lune_pages_part *parts,
		    size_t count, lune_pages **out);
void lune_pages_close(lune_pages *pages);
struct lune_page_map {
	const uint32_t *local, *remote; /* page indices, `count` each */
	size_t count;
};
/* Status index: part * count + k of the first block that failed. */
int lune_put_pages(const lune_pages *remote, const lune_pages *local,
		   const struct lune_page_map *map, const struct lune_op *op);
int lune_get_pages(const lune_pages *remote, const lune_pages *local,
		   const struct lune_page_map *map, const struct lune_op *op);

/* A signal alone: SET or ADD, ordered after nothing but LUNE_OP_ORDERED. */
int lune_signal_add(lune_rmem *rmem, uint64_t offset, uint64_t value,
		    const struct lune_op *op);
int lune_signal_set(lune_rmem *rmem, uint64_t offset, uint64_t value,
		    const struct lune_op *op);

/* 64-bit atomics on 8-aligned words; *old (may be NULL) is valid when done. */
enum lune_atomic_how {
	LUNE_ATOMIC_FETCH_ADD,
	LUNE_ATOMIC_CAS, /* compare, operand = desired */
	LUNE_ATOMIC_SWAP,
};
struct lune_atomic {
	enum lune_atomic_how how;
	uint64_t operand, compare;
};
int lune_atomic(lune_rmem *rmem, uint64_t offset, const struct lune_atomic *a,
		uint64_t *old, const struct lune_op *op);

/*
 * Wait until every operation started before (by any thread) to that peer is
 * delivered.  Returns the first error of those that nobody else was told of.
 */
#define LUNE_ALL_RANKS (-1)
int lune_flush(lune_comm *comm, int rank, int timeout_ms);
int lune_rmem_flush(lune_rmem *rmem, int timeout_ms);

LUNE_DECLS_END
#endif
