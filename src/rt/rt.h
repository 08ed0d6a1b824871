/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt: the context, requests, completion queues, communicators, failure
 * knowledge.  What <lune/ctx.h>, <lune/req.h> and <lune/comm.h> promise.
 */
#ifndef LN_RT_H
#define LN_RT_H

#include <lune/comm.h>
#include <lune/ctx.h>
#include <lune/req.h>

#include "base/base.h"
#include "boot/boot.h"
#include "mem/mem.h"
#include "net/net.h"
#include "topo/topo.h"

struct ln_req_pool;

/*
 * A layer above that has state in communicators and takes messages.  Upward
 * calls do not exist, so rt knows the layers as weak symbols: one that is not
 * linked (unit tests) is NULL and its messages are dropped.
 */
struct ln_layer {
	/* From progress, in order per peer; as ln_net_callbacks.message. */
	void (*message)(struct lune_ctx *ctx, struct ln_peer *from,
			const uint64_t args[LN_MSG_ARGS], const void *body,
			uint32_t bytes);
	/* The communicator goes: free what the layer hung into it. */
	void (*comm_close)(struct lune_comm *comm);
};
extern const struct ln_layer ln_layer_notify __attribute__((weak));
extern const struct ln_layer ln_layer_coll __attribute__((weak));

struct lune_ctx {
	struct ln_config conf;
	struct ln_topo topo;
	struct ln_counters counters;
	struct ln_mem_table *mem;
	struct ln_net *net;
	struct ln_boot *boot;
	struct lune_comm *world, *self;
	bool manual;	      /* no progress thread */
	_Atomic bool forked;  /* set in the child of a fork */
	_Atomic int objects;  /* comms, cqs, windows, rmems open: close refuses */
	/*
	 * Message handlers by channel, set before messages can arrive: rt's
	 * own, and the layers' that are linked.
	 */
	void (*on_message[LN_CHAN_MAX])(struct lune_ctx *ctx,
					struct ln_peer *from,
					const uint64_t args[LN_MSG_ARGS],
					const void *body, uint32_t bytes);
	pthread_mutex_t lock; /* communicators list; rank: above net's locks */
	struct lune_comm *comms;
	struct ln_req_pool *pool;
};
/* First line of every public call that takes a context. */
#define LN_CTX_CHECK(ctx)                                                    \
	do {                                                                 \
		if (atomic_load_explicit(&(ctx)->forked,                     \
					 memory_order_relaxed))              \
			return ln_error(LUNE_ERR_FORKED,                     \
					"the context was opened before "     \
					"fork(); open one in the child");    \
	} while (0)

/*
 * A request embeds its op.  Taken from a pool (no allocation after warm-up);
 * its list of segments grows to the longest list seen and is kept.
 */
struct lune_req {
	struct ln_op op;
	lune_ctx *ctx;
	lune_cq *cq;
	void *user;
	_Atomic int state;  /* in flight, done, detached */
	/* Called once when the op is done, before that is reported; or NULL.
	 * ln_req_take clears it.  For what the layer above must give back. */
	void (*on_done)(struct lune_req *req);
	void *on_done_arg;
	struct ln_seg *segs_buf; /* op.segs; room for the nsegs asked for */
	uint32_t segs_cap;
	struct lune_req *free_next;
};
/*
 * Take a request able to hold nsegs, for an op reporting as lune_op asks.
 * NOMEM, LIMIT (the cq is full).  ln_req_start posts it and sets *op->req
 * (NULL if it is already done well); on an error of post it is put back.
 *
 * An op that never needs a request (fast path): ln_req_reserve takes a place
 * in its queue (LIMIT: full; nothing to do without a cq), then the bytes are
 * copied, then ln_req_finished reports: *op->req = NULL, or a completion with
 * that code and bytes in the reserved place.
 */
struct lune_op;
int ln_req_take(lune_ctx *ctx, uint32_t nsegs, const struct lune_op *how,
		struct lune_req **out);
int ln_req_start(struct lune_req *req, const struct lune_op *how);
int ln_req_reserve(const struct lune_op *how);
void ln_req_finished(lune_ctx *ctx, const struct lune_op *how,
		     const struct lune_status *status);
/* Put back a request that was taken and not started. */
void ln_req_drop(struct lune_req *req);

/* ---- communicators ------------------------------------------------------------ */

struct ln_comm_id {
	uint64_t a, b; /* same on all members; part of every message */
};
struct lune_comm {
	lune_ctx *ctx;
	struct ln_comm_id id;
	_Atomic uint64_t epoch;
	int rank;
	_Atomic int size;
	struct ln_peer **peers;	 /* by rank; NULL: hole */
	uint64_t coll_seq;	 /* collectives started */
	uint64_t child_seq;	 /* communicators derived */
	_Atomic int broken;	 /* code, once a collective failed */
	struct ln_elastic *elastic; /* membership thread and events, or NULL */
	void *notify;		 /* rma's queue */
	void *coll;		 /* coll's state */
	struct lune_comm *next;
};
/* Find the local communicator a message names, or NULL (caller holds no lock). */
struct lune_comm *ln_comm_find(lune_ctx *ctx, const struct ln_comm_id *id);
int ln_comm_rank_of(const lune_comm *comm, const struct ln_peer *p); /* -1 */
/* The peer of a rank: BOUNDS-checked; PEER when a hole or dead. */
int ln_comm_peer_of(lune_comm *comm, int rank, struct ln_peer **out);
/*
 * Every member gives `bytes` (<= 32 KiB) and gets all members' in rank order:
 * recv has room for size * bytes.  Over LN_CHAN_RT; LUNE_ERR_PEER when a
 * member died.  For the layers below coll (windows).
 */
int ln_comm_allgather(lune_comm *comm, const void *send, size_t bytes,
		      void *recv, uint64_t deadline);
/* "rank 3 (host h, pid 7)" */
void ln_comm_rank_text(const lune_comm *comm, int rank, char *out, size_t cap);

#endif
