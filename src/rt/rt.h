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

struct ln_early;
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

struct ln_comm_id {
	uint64_t a, b; /* same on all members; part of every message */
};

#define LN_CLOSED_MAX 256 /* ids remembered, whose late messages are dropped */

struct lune_ctx {
	struct ln_config conf;
	struct ln_topo topo;
	struct ln_counters counters;
	struct ln_mem_table *mem;
	struct ln_net *net;
	struct ln_boot *boot;
	struct lune_comm *world, *self;
	bool manual;	      /* no progress thread */
	bool have_conf;	      /* conf is to be freed */
	_Atomic bool forked;  /* set in the child of a fork */
	_Atomic int objects;  /* comms, cqs, windows, rmems: close refuses */
	_Atomic unsigned own_regions; /* memories the program knows not of */
	/*
	 * Message handlers by channel, set before messages can arrive: rt's
	 * own, and the layers' that are linked.
	 */
	void (*on_message[LN_CHAN_MAX])(struct lune_ctx *ctx,
					struct ln_peer *from,
					const uint64_t args[LN_MSG_ARGS],
					const void *body, uint32_t bytes);
	/*
	 * deliver: held while a handler runs and while a communicator is made
	 * or closed, so that a handler's communicator stays, and what arrived
	 * early is handed over before what arrives now.  Above lock.
	 */
	pthread_mutex_t deliver;
	struct ln_early *early; /* oldest first; guarded by deliver */
	size_t early_bytes;
	unsigned early_count;
	struct ln_comm_id closed[LN_CLOSED_MAX]; /* ring; guarded by deliver */
	unsigned closed_at;
	pthread_mutex_t lock; /* guards comms; above net's locks */
	struct lune_comm *comms;
	struct ln_req_pool *pool;
	struct lune_ctx *next_open; /* fork.c's list */
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
#define LN_REQ_SEGS 4 /* room without an allocation */
struct lune_req {
	struct ln_op op;
	lune_ctx *ctx;
	lune_cq *cq;
	void *user;
	_Atomic int state; /* req.c */
	/* Called once when the op is done, before that is reported; or NULL.
	 * ln_req_take clears it.  For what the layer above must give back. */
	void (*on_done)(struct lune_req *req);
	void *on_done_arg;
	struct ln_seg *segs_buf; /* op.segs; room for the nsegs asked for */
	uint32_t segs_cap;
	/* The pool's: own number, the next free one, the stack it lives in. */
	uint32_t number, home;
	_Atomic uint32_t free_next;
	_Atomic(const void *) canceler; /* thread inside ln_op_cancel */
	struct ln_peer *blamed; /* a reference, of an op that failed */
	struct ln_seg segs_own[LN_REQ_SEGS];
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

/* req_pool.c.  ln_pool_get: NULL and the error recorded. */
int ln_pool_open(lune_ctx *ctx, struct ln_req_pool **out);
void ln_pool_close(struct ln_req_pool *p); /* all ops are done */
struct lune_req *ln_pool_get(struct ln_req_pool *p);
void ln_pool_put(struct ln_req_pool *p, struct lune_req *req);
/* cq.c: a place is reserved before it is filled. */
int ln_cq_reserve(lune_cq *cq);
void ln_cq_unreserve(lune_cq *cq);
void ln_cq_push(lune_cq *cq, void *user, const struct lune_status *st);

/* ---- communicators ------------------------------------------------------ */

/* Tagged messages that have come and were not waited for yet (inbox.c). */
struct ln_note;
struct ln_inbox {
	pthread_mutex_t lock; /* a leaf */
	struct ln_note *notes, *spare;
	size_t bytes;
	unsigned nspare;
};

struct ln_agree;
struct lune_comm {
	lune_ctx *ctx;
	struct ln_comm_id id;
	_Atomic uint64_t epoch;
	int rank;
	_Atomic int size;
	struct ln_peer **peers;	 /* by rank; NULL: hole.  References. */
	struct ln_member *order; /* sorted by peer; NULL in an elastic one */
	uint64_t coll_seq;	 /* collectives started */
	_Atomic int broken;	 /* code, once a collective failed */
	char broken_why[192];	 /* set before broken */
	struct ln_inbox inbox;
	struct ln_agree *agree;	 /* agree.c's */
	struct ln_elastic *elastic; /* membership thread and events, or NULL */
	void *notify;		 /* rma's queue */
	void *coll;		 /* coll's state */
	bool closed;		 /* a ghost (comm.c); guarded by deliver */
	struct lune_comm *next;
};
struct ln_member {
	struct ln_peer *peer;
	int rank;
};
/* The slots of an elastic communicator. */
#define LN_SLOTS_MAX 65536

/*
 * comm.c.  Make a communicator of these peers (a reference is taken on each),
 * enter it in the context and hand over what came for it early.
 */
struct ln_comm_how {
	struct ln_comm_id id;
	struct ln_peer **peers; /* NULL: hole */
	int rank, size;
	int slots; /* room for growth; 0: size */
	struct ln_elastic *elastic; /* the communicator's from the call on */
};
int ln_comm_open(lune_ctx *ctx, const struct ln_comm_how *how,
		 lune_comm **out);
void ln_comm_free(lune_comm *comm); /* also of the world; NULL is fine */
struct ln_comm_id ln_comm_derive(const struct ln_comm_id *parent,
				 const char *what, const void *p, size_t bytes);
static inline bool ln_comm_same(const struct ln_comm_id *a,
				const struct ln_comm_id *b)
{
	return a->a == b->a && a->b == b->b;
}
/* Find the local communicator a message names, or NULL. */
struct lune_comm *ln_comm_find(lune_ctx *ctx, const struct ln_comm_id *id);
int ln_comm_rank_of(const lune_comm *comm, const struct ln_peer *p); /* -1 */
/* The peer of a rank: BOUNDS-checked; PEER when a hole or dead. */
int ln_comm_peer_of(lune_comm *comm, int rank, struct ln_peer **out);
static inline struct ln_peer *ln_comm_peer(const lune_comm *comm, int rank)
{
	/* Pairs with the release when an elastic slot is filled. */
	return __atomic_load_n(&comm->peers[rank], __ATOMIC_ACQUIRE);
}
static inline bool ln_comm_dead(const lune_comm *comm, int rank)
{
	const struct ln_peer *p = ln_comm_peer(comm, rank);

	return !p || atomic_load_explicit(&p->state, memory_order_acquire) ==
			     LN_PEER_DEAD;
}
/* "rank 3 (host h, pid 7)" */
void ln_comm_rank_text(const lune_comm *comm, int rank, char *out, size_t cap);

/* deliver.c: net's message callback; replay with ctx->deliver held. */
void ln_deliver_message(void *arg, struct ln_peer *from, int chan,
			const uint64_t args[LN_MSG_ARGS], const void *body,
			uint32_t bytes);
void ln_deliver_early(lune_comm *comm);
void ln_deliver_closed(lune_ctx *ctx, const struct ln_comm_id *id);
void ln_deliver_fini(lune_ctx *ctx);
/* LN_CHAN_RT */
void ln_deliver_rt(struct lune_ctx *ctx, struct ln_peer *from,
		   const uint64_t args[LN_MSG_ARGS], const void *body,
		   uint32_t bytes);

/* ---- messages between members: send.c, inbox.c -------------------------- */

/*
 * All messages: args[0], args[1] name the communicator.  args[2], args[3] are
 * the sender's; LN_CHAN_RT: args[3] >> 56 is an enum ln_rt_kind.
 */
enum ln_rt_kind {
	LN_RT_PING = 1,	/* only to see whether it arrives */
	LN_RT_BREAK,	/* a collective failed: args[2] code, rank to blame */
	LN_RT_QUERY, LN_RT_ASK, LN_RT_VOTE, LN_RT_DECISION, /* agree.c */
	LN_RT_TAGGED,	/* for the inbox */
};
struct ln_msg {
	int chan;
	uint64_t arg2, arg3;
	const void *body;
	uint32_t bytes; /* <= LN_MSG_MAX */
};
/*
 * Copy and send; never waits and tells nobody how it ended, except that a
 * peer which cannot be reached is declared dead.  NOMEM; PEER (already dead).
 */
int ln_send(lune_comm *comm, int rank, const struct ln_msg *m);
/* Make sure that we will hear of it if that rank dies. */
void ln_send_ping(lune_comm *comm, int rank);

/*
 * Messages of collectives.  seq: of the collective; sig: a hash of what all
 * members must agree on (name, root, sizes): a member that sends another sig
 * for the same seq called something else.  step: round and part, its own.
 */
struct ln_tag {
	uint32_t seq, sig, step;
};
struct ln_recv {
	struct ln_tag tag;
	int from;
	void *buf;
	uint32_t cap;	/* of buf; a longer message is LUNE_ERR_PROTO */
	uint32_t bytes; /* out */
};
int ln_inbox_send(lune_comm *comm, int to, const struct ln_tag *tag,
		  const void *body, uint32_t bytes);
/*
 * Wait for it.  LUNE_ERR_PEER: the sender died; the code of the failure when
 * the collective is broken; INVAL: another collective there; TIMEOUT.  All of
 * these break the communicator.
 */
int ln_inbox_recv(lune_comm *comm, struct ln_recv *r, uint64_t deadline);
/* From progress; 0 or the error. */
int ln_inbox_put(lune_comm *comm, int from, const uint64_t args[LN_MSG_ARGS],
		 const void *body, uint32_t bytes);
void ln_inbox_fini(struct ln_inbox *b);

/* ---- failure.c ---------------------------------------------------------- */

/*
 * A collective failed here: mark the communicator and tell the other members.
 * Returns code.  Once broken it keeps its first code.
 */
int ln_failure_break(lune_comm *comm, int code, int blamed);
/* The same, told by another member. */
void ln_failure_told(lune_comm *comm, int from, int code, int blamed);
/* First step of a collective: not broken; its sequence number. */
int ln_failure_enter(lune_comm *comm, uint32_t *seq);
/* Record the sentence of why it is broken; returns its code. */
int ln_failure_broken(lune_comm *comm);
/* Wait until ready or that rank died or the communicator broke. */
struct ln_wait {
	lune_comm *comm;
	int rank;	 /* whom we wait for; -1: nobody in particular */
	bool (*ready)(void *arg);
	void *arg;
	bool unbreakable; /* agreement goes on */
};
/* LUNE_OK: ready, or dead or broken: the caller looks which.  TIMEOUT. */
int ln_failure_wait(const struct ln_wait *w, uint64_t deadline);

/* ---- agree.c: what all living members take part in ---------------------- */

enum ln_agree_kind { LN_AGREE_SPLIT, LN_AGREE_SHRINK, LN_AGREE_KINDS };
struct ln_vote {
	int32_t what, color, key;
};
/* The same on all members.  ln_free(votes) frees both. */
struct ln_decision {
	uint64_t seq;	/* agreements of this kind before */
	uint8_t *dead;	/* [size]: 1: not among the living */
	struct ln_vote *votes;
};
int ln_agree(lune_comm *comm, enum ln_agree_kind kind,
	     const struct ln_vote *mine, uint64_t deadline,
	     struct ln_decision *out);
void ln_agree_message(lune_comm *comm, int from,
		      const uint64_t args[LN_MSG_ARGS], const void *body,
		      uint32_t bytes);
int ln_agree_open(lune_comm *comm);
void ln_agree_close(lune_comm *comm);
/* Something was decided here that a member may still have to ask for. */
bool ln_agree_used(const lune_comm *comm);

/* ---- elastic.c ---------------------------------------------------------- */

/* Join and make the world; start following its membership. */
int ln_elastic_open(lune_ctx *ctx, uint64_t deadline);
void ln_elastic_close(lune_ctx *ctx); /* stop following; the comm stays */
void ln_elastic_free(struct ln_elastic *e);
int ln_elastic_event(lune_comm *comm, uint64_t deadline,
		     struct lune_member_event *out);
int ln_elastic_shrink(lune_comm *comm, uint64_t deadline, lune_comm **out);
/*
 * comm_split.c: shrink of a fixed communicator.  TIMEOUT when the agreement
 * did not end by `agree_until`: it may be taken up again.
 */
int ln_comm_living(lune_comm *comm, uint64_t agree_until, uint64_t deadline,
		   lune_comm **out);

/* ---- fork.c ------------------------------------------------------------- */

int ln_fork_watch(lune_ctx *ctx);
void ln_fork_unwatch(lune_ctx *ctx);

/*
 * Every member gives `bytes` (<= 32 KiB) and gets all members' in rank order:
 * recv has room for size * bytes; send may be its own place there.
 * LUNE_ERR_PEER when a member died.  One step of the collective order.
 */
#define LN_GATHER_MAX 32768
int ln_comm_allgather(lune_comm *comm, const void *send, size_t bytes,
		      void *recv, uint64_t deadline);

#endif
