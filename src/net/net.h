/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net: peers and transports.
 *
 *   rma, coll, rt          struct ln_op  --post-->   net  --done-->
 *                                                     |
 *        peer.c  (uuid, incarnation, state, lazy connect, death)
 *        engine.c (epoll, timers, waiting)   hello.c (job key)   stream.c
 *                                                     |
 *        const tables:  self    shm (map, cma, ring)    tcp    verbs
 *
 * Invariants
 *  1. done() of an op is called exactly once, with no net lock held.
 *  2. After a peer is dead no op to it is pending: all had done(LUNE_ERR_PEER).
 *  3. A put's signal is written after all its bytes are visible at the target.
 *  4. Posting to different peers shares no lock and no written cache line.
 *  5. Nothing is allocated per op after warm-up.
 *  6. A transport includes net.h, mem.h, base.h, topo.h and nothing of another.
 *
 * Locks, in this order: engine (progress) > peers table > peer.
 */
#ifndef LN_NET_H
#define LN_NET_H

#include <pthread.h>
#include <sys/socket.h>

#include "base/base.h"
#include "mem/mem.h"
#include "topo/topo.h"

struct ln_net;
struct ln_op;
struct ln_peer;
struct ln_net_ops;

/* ---- card.c: what a process tells others of itself ----------------------- */

#define LN_CARD_ADDRS_MAX 16
#define LN_CARD_BYTES_MAX 768

struct ln_card {
	struct ln_uuid uuid;   /* of the context */
	uint64_t incarnation;  /* wall clock ns of its start: later is newer */
	uint64_t node[2];
	int32_t pid;
	char host[64], node_name[64];
	char unix_name[64];    /* abstract socket name, "" if none */
	int naddrs;
	struct sockaddr_storage addrs[LN_CARD_ADDRS_MAX]; /* tcp, with port */
	uint32_t speed_mbps[LN_CARD_ADDRS_MAX];
};
int ln_card_pack(const struct ln_card *c, void *out, size_t cap, size_t *bytes);
int ln_card_unpack(const void *p, size_t bytes, struct ln_card *out);

/* ---- doorbell: how threads of this process are woken --------------------- */

/*
 * Lies in the process's control memory, which peers of the node map: a peer
 * that wrote a signal by itself rings it.  A sleeper increments `sleepers`,
 * looks again at what it waits for, and futex-waits on seq.  Pairs with the
 * seq_cst fence in ln_doorbell_ring.  `armed`: somebody sleeps in epoll (an
 * eventfd write is wanted instead).
 */
struct ln_doorbell {
	_Atomic uint32_t seq;
	_Atomic uint32_t sleepers;
	_Atomic uint32_t armed;
	uint32_t pad[13];
};
/* evfd: the target's eventfd as this process has it. */
void ln_doorbell_ring_slow(struct ln_doorbell *d, int evfd);
static inline void ln_doorbell_ring(struct ln_doorbell *d, int evfd)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&d->sleepers, memory_order_relaxed) ||
	    atomic_load_explicit(&d->armed, memory_order_relaxed))
		ln_doorbell_ring_slow(d, evfd);
}

/* ---- peers --------------------------------------------------------------- */

enum ln_peer_state {
	LN_PEER_IDLE, LN_PEER_CONNECTING, LN_PEER_UP, LN_PEER_DEAD
};

#define LN_TRANSPORTS_MAX 4

/* Fields below `lock` are guarded by it; the atomics are read by any thread. */
struct ln_peer {
	struct ln_net *net;
	struct ln_card card;
	_Atomic int state; /* enum ln_peer_state; release on UP, DEAD */
	_Atomic int refs;
	int death_code;	   /* why, once DEAD */
	/* Set by shm once connected (release), else NULL / -1. */
	_Atomic(struct ln_doorbell *) bell;
	int bell_fd;
	/* Ops posted and not done; ORDERED waits for it to drain. */
	_Atomic uint64_t posted, finished;
	/* First error of ops whose result nobody took (flush reports it). */
	_Atomic int lost_error;
	void *user; /* rt's, for mapping a peer to its communicators */

	pthread_mutex_t lock;
	struct ln_op *pending; /* utlist: waiting for a connection or order */
	void *tp[LN_TRANSPORTS_MAX]; /* the transports' own, by ops->index */
	struct ln_peer_link *link;   /* control connection, net's own */
};

/* Find or make the peer of a card; takes a reference. */
int ln_peer_get(struct ln_net *net, const struct ln_card *card,
		struct ln_peer **out);
struct ln_peer *ln_peer_ref(struct ln_peer *p);
void ln_peer_unref(struct ln_peer *p);
/* Start connecting if idle; does not wait. */
int ln_peer_connect(struct ln_peer *p);
/* Connect and wait until UP; LUNE_ERR_PEER, _UNREACHABLE, _AUTH, _TIMEOUT. */
int ln_peer_connect_wait(struct ln_peer *p, uint64_t deadline);
/* Declare dead from above (membership said so). */
void ln_peer_kill(struct ln_peer *p, int code, const char *why);
/* Dead, because it said goodbye (closed its context), not because it failed. */
bool ln_peer_left(const struct ln_peer *p);
/* Sentence for errors: "rank?/host/pid at address by transport". */
void ln_peer_text(const struct ln_peer *p, char *out, size_t cap);

/* ---- attached memory ----------------------------------------------------- */

/*
 * A ticket aimed at its owner.  Fast path (rma): when `map` is not NULL the
 * peer's bytes are at map[0..bytes) and *gen tells whether they still are the
 * region (compare with gen_want before, and after the copy).
 */
struct ln_rmem {
	struct ln_peer *peer; /* a reference */
	uint64_t key, base, bytes;
	uint32_t rights;
	bool shareable;
	uint32_t gen_want;
	_Atomic(char *) map;		  /* release after gen is set */
	const _Atomic uint32_t *gen;
	_Atomic(const struct ln_net_ops *) route; /* NULL until known */
	_Atomic int mode; /* shm: enum of its own, for the route's name */
	void *tp;
};
int ln_rmem_init(struct ln_net *net, const struct ln_ticket *t,
		 struct ln_rmem *out);
void ln_rmem_fini(struct ln_rmem *r); /* drops the mapping and the peer */
/* Connect, choose the route, map if it can be; then map/route are settled. */
int ln_rmem_resolve(struct ln_rmem *r, uint64_t deadline);
void ln_rmem_route_text(const struct ln_rmem *r, char *out, size_t cap);

/* ---- operations ---------------------------------------------------------- */

enum ln_op_kind { LN_OP_PUT, LN_OP_GET, LN_OP_ATOMIC, LN_OP_MSG };

#define LN_OP_LOCAL 1u	 /* done when the local buffer may be reused */
#define LN_OP_ORDERED 2u /* start only when earlier ops to the peer are done */

struct ln_seg {
	char *local;
	struct ln_rmem *rmem; /* all of one peer */
	uint64_t offset;
	uint64_t bytes;
};

enum ln_chan { LN_CHAN_RT, LN_CHAN_NOTIFY, LN_CHAN_COLL, LN_CHAN_MAX };
#define LN_MSG_ARGS 4
#define LN_MSG_MAX 65536

/*
 * Made by the caller, owned by net from post to done.  segs and a message's
 * body must stay valid until done; bounds and rights were checked by the
 * caller against the rmem (the target checks again).
 */
struct ln_op {
	struct ln_op *prev, *next; /* net's lists */
	struct ln_peer *peer;
	void (*done)(struct ln_op *op); /* code, bytes, index are set */
	uint8_t kind, chan;
	uint16_t flags;
	uint32_t nsegs;
	struct ln_seg *segs;
	/* signal (puts): sig_rmem NULL = none.  atomics: target word. */
	struct ln_rmem *sig_rmem;
	uint64_t sig_offset, sig_value; /* atomic: operand */
	uint8_t sig_how;		/* lune_signal_how / lune_atomic_how */
	uint64_t compare;
	uint64_t *result;
	/* message */
	uint64_t args[LN_MSG_ARGS];
	const void *body;
	uint32_t body_bytes;
	/* result */
	int code;
	uint64_t bytes, index;
	/* the transport's while posted */
	_Atomic bool canceled;
	uint64_t id;
	uint64_t at_seg, at_byte; /* how far it was sent */
	uint64_t outstanding;	  /* pieces sent and not acknowledged */
	uint64_t spare[6];
};

/*
 * Hand over.  May call done() before it returns.  Fails (and never calls
 * done) with LUNE_ERR_PEER for a dead peer, LUNE_ERR_UNREACHABLE; otherwise
 * every outcome comes through done().  Connects when needed; never blocks.
 */
int ln_op_post(struct ln_op *op);
/* Best effort; done() still comes, soon, with CANCELED or the result. */
void ln_op_cancel(struct ln_op *op);

/* ---- the engine ---------------------------------------------------------- */

struct ln_net_callbacks {
	void *arg;
	/* In order per peer and channel, one at a time, from progress. */
	void (*message)(void *arg, struct ln_peer *from, int chan,
			const uint64_t args[LN_MSG_ARGS], const void *body,
			uint32_t bytes);
	/* Once per peer: DEAD (all its ops are done). */
	void (*peer_down)(void *arg, struct ln_peer *p);
};

struct ln_net_opts {
	const struct ln_config *conf;
	const struct ln_topo *topo;
	struct ln_mem_table *mem;
	struct ln_counters *counters;
	uint8_t key[LN_KEY_BYTES];
	bool manual;
	struct ln_net_callbacks cb;
};
/* Listens at once; ln_net_card is complete then. */
int ln_net_open(const struct ln_net_opts *o, struct ln_net **out);
/* Says goodbye to peers, ends all ops (CANCELED), joins the thread. */
void ln_net_close(struct ln_net *net, uint64_t deadline);
const struct ln_card *ln_net_card(const struct ln_net *net);

/* Do what can be done now; number of events. Skips if another thread is in. */
int ln_net_progress(struct ln_net *net);
/*
 * Wait until ready(arg) is true: helps progress, spins adaptively, sleeps.
 * Whatever can make it true must ring: completions and messages do
 * (ln_net_event), peers' mapped signals do (doorbell).  LUNE_ERR_TIMEOUT.
 */
int ln_net_wait(struct ln_net *net, bool (*ready)(void *arg), void *arg,
		uint64_t deadline);
void ln_net_event(struct ln_net *net);
/* The eventfd of lune_ctx_fd, readable once after arm at the next event. */
int ln_net_fd(struct ln_net *net);
int ln_net_arm(struct ln_net *net);
/*
 * Step 2 of release (mem.h): return when no remote access to the revoked
 * region can happen any more: asks every transport.  LUNE_ERR_TIMEOUT names
 * the peer in the way.
 */
int ln_net_fence_region(struct ln_net *net, struct ln_region *r,
			uint64_t deadline);
/* In the child of a fork: close sockets, touch nothing else (async-safe). */
void ln_net_forked(struct ln_net *net);

/* ---- the transport table ------------------------------------------------- */

struct ln_net_ops {
	const char *name;
	int index; /* in peer->tp and net's array */
	/* Usable here?  why (a sentence) when not. */
	int (*probe)(struct ln_net *net, char *why, size_t cap);
	/* Listen; add what peers need to the card. */
	int (*open)(struct ln_net *net, struct ln_card *card);
	void (*close)(struct ln_net *net);
	/* Could it reach that card at all?  (same node, an address we route) */
	bool (*reaches)(struct ln_net *net, const struct ln_card *card);
	/* Control connection is UP: set up data paths. */
	int (*up)(struct ln_peer *p);
	void (*down)(struct ln_peer *p); /* free peer->tp[index] */
	/* Can carry this region?  Sets rmem->map/gen/tp; async: AGAIN until
	 * settled, resolve then asks again on the next event. */
	int (*import)(struct ln_rmem *r);
	void (*forget)(struct ln_rmem *r);
	/* Carry the op.  Peer locked by caller: no; takes what it needs. */
	int (*post)(struct ln_op *op);
	void (*cancel)(struct ln_op *op);
	/* Called by progress for work without a file descriptor (rings). */
	int (*progress)(struct ln_net *net);
	int (*fence)(struct ln_net *net, struct ln_region *r,
		     uint64_t deadline);
	void (*route_text)(const struct ln_rmem *r, char *out, size_t cap);
};
extern const struct ln_net_ops ln_net_self, ln_net_shm, ln_net_tcp;

#endif
