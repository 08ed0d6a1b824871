/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of net share, transports included.
 *
 *   poster's thread             the poller (one at a time: engine.c)
 *     ln_op_post                  epoll -> watch -> stream_rx -> handlers
 *       route -> ops->post        timers, requests of other threads
 *         wire: pull pieces       connect, hello, death
 *         stream: writev
 *
 * Who guards what
 *   poller      receive side of streams, links' life, timers, handlers
 *   peer->lock  send side of streams, table of ops, queues, pending list
 *   net->import_lock  imports (above peer->lock; never taken by the poller
 *               while it holds a peer's lock)
 * done(), message() and peer_down() run without any of the locks.
 */
#ifndef LN_NET_INTERNAL_H
#define LN_NET_INTERNAL_H

#include <sys/uio.h>

#include "net/net.h"

struct ln_stream;
struct ln_frame;

/* ---- engine.c: file descriptors, timers, who polls ----------------------- */

/* Lies in its owner; data.ptr of its epoll entry. */
struct ln_watch {
	int fd; /* -1: not watched */
	uint32_t events;
	void (*fn)(struct ln_net *net, struct ln_watch *w, uint32_t events);
};
/*
 * watch: any thread (fd and fn are set).  rewatch: any thread that may send on
 * it.  unwatch: the poller only; the memory may be freed by ln_engine_bury
 * only, because events of the same batch may still point to it.  None of
 * them closes fd.
 */
int ln_engine_watch(struct ln_net *net, struct ln_watch *w, uint32_t events);
void ln_engine_rewatch(struct ln_net *net, struct ln_watch *w, uint32_t events);
void ln_engine_unwatch(struct ln_net *net, struct ln_watch *w);
/* Free `p` by `fn` at the end of the pass (poller only). */
struct ln_grave {
	struct ln_grave *next;
	void (*fn)(struct ln_grave *g);
};
void ln_engine_bury(struct ln_net *net, struct ln_grave *g,
		    void (*fn)(struct ln_grave *g));
/* Make the poller (or the thread) look at the requests of this thread. */
void ln_engine_wake(struct ln_net *net);

struct ln_timer {
	struct ln_timer *prev, *next;
	uint64_t at; /* 0: not started */
	void (*fn)(struct ln_net *net, struct ln_timer *t);
};
/* Poller only (or before the net runs).  Start again moves it. */
void ln_timer_start(struct ln_net *net, struct ln_timer *t, uint64_t at);
void ln_timer_stop(struct ln_net *net, struct ln_timer *t);

/* ---- frame.c: the header (docs/wire.md) ---------------------------------- */

#define LN_FRAME_BYTES 64
#define LN_FRAME_MAGIC 0x314e554cu /* "LUN1" */
#define LN_FRAME_VERSION 1

enum ln_frame_type {
	LN_FRAME_HELLO = 1, /* connection: hello.c */
	LN_FRAME_PROOF,
	LN_FRAME_READY,
	LN_FRAME_DUP,	/* your connection lost against mine */
	LN_FRAME_PING, LN_FRAME_PONG, LN_FRAME_BYE,
	LN_FRAME_MSG = 16, /* operations: wire*.c */
	LN_FRAME_PUT,
	LN_FRAME_ACK,	 /* ids of puts that landed */
	LN_FRAME_GET,
	LN_FRAME_DATA,	 /* bytes of a get */
	LN_FRAME_STATUS, /* the end of a get, an atomic, or a failed put */
	LN_FRAME_ATOMIC,
	/* 32..63: transports' own, over the control connection. */
	LN_FRAME_USER = 32,
	LN_FRAME_TYPES = 64,
};

/* After the header: `count` descriptors, a signal if flagged, the payload. */
#define LN_FRAME_SIGNAL 0x8000u /* PUT */
#define LN_FRAME_FD 0x4000u	/* a file descriptor travels with it */
#define LN_FRAME_SKIP 0x2000u	/* PUT: canceled, `a` bytes will not come */
#define LN_DESC_BYTES 24	/* key, offset, bytes */
#define LN_SIGNAL_BYTES 32	/* key, offset, value, how */
#define LN_DESCS_MAX 256
#define LN_HELLO_BYTES_MAX 1024
#define LN_ACKS_MAX 256
#define LN_USER_BYTES_MAX 4096 /* payload of transports' own frames */

struct ln_frame {
	uint8_t type;
	uint16_t flags;
	uint32_t count; /* descriptors */
	uint32_t index; /* entry of the op's list where this frame begins */
	uint64_t op;	/* the initiator's id */
	uint64_t total; /* bytes of the whole op */
	uint64_t a, b;	/* the type's own */
	uint64_t bytes; /* payload */
};
struct ln_desc {
	uint64_t key, offset, bytes;
};
struct ln_sigdesc {
	uint64_t key, offset, value;
	uint8_t how;
};
void ln_frame_encode(const struct ln_frame *f, uint8_t out[LN_FRAME_BYTES]);
/* LUNE_ERR_PROTO: magic, version, checksum, type or a length is not good. */
int ln_frame_decode(const uint8_t in[LN_FRAME_BYTES], struct ln_frame *out);
/* Bytes between header and payload. */
size_t ln_frame_meta_bytes(const struct ln_frame *f);
void ln_desc_encode(const struct ln_desc *d, uint8_t out[LN_DESC_BYTES]);
void ln_desc_decode(const uint8_t in[LN_DESC_BYTES], struct ln_desc *out);
void ln_sigdesc_encode(const struct ln_sigdesc *s,
		       uint8_t out[LN_SIGNAL_BYTES]);
int ln_sigdesc_decode(const uint8_t in[LN_SIGNAL_BYTES],
		      struct ln_sigdesc *out);
void ln_words_encode(const uint64_t *v, int n, uint8_t *out);
void ln_words_decode(const uint8_t *in, int n, uint64_t *out);

/* ---- transports' own frames over the control connection ------------------ */

/*
 * A handler runs in the poller, frames in order.  body is valid during the
 * call; fd (-1: none) becomes the handler's.  Not LUNE_OK: the peer broke the
 * protocol and is declared dead.
 */
typedef int ln_frame_fn(struct ln_peer *p, const struct ln_frame *f,
			const void *body, int fd);
/* In ops->open.  type: LN_FRAME_USER.. ; shm takes 32..47. */
void ln_frame_register(struct ln_net *net, int type, ln_frame_fn *fn);
/*
 * Send one: f->type, flags' low 13 bits, op, a, b, index, total are yours,
 * f->bytes of body (<= LN_USER_BYTES_MAX) follow.  fd >= 0 is duplicated
 * (unix control connections only: else UNSUPPORTED).  Copies; never blocks;
 * any thread, no peer lock held.  LUNE_ERR_PEER: not up.
 */
int ln_link_send(struct ln_peer *p, const struct ln_frame *f, const void *body,
		 int fd);
/* Is the control connection an AF_UNIX one (fds can be passed)? */
bool ln_link_is_unix(const struct ln_peer *p);
/* Pid of the peer as this process sees it (SO_PEERCRED), 0: unknown. */
int ln_link_pid(const struct ln_peer *p);

/* ---- operations ---------------------------------------------------------- */

/*
 * End a posted op: exactly once, no lock held.  Sets the result, counts
 * p->finished, calls done and rings the doorbell.
 */
void ln_op_finish(struct ln_op *op, int code, uint64_t bytes, uint64_t index);
/*
 * Carry an op as frames over whatever streams the peer has (any kind, any
 * region: the target checks).  What tcp's post is; shm uses it for messages
 * and for regions it can neither map nor reach by CMA.
 */
int ln_wire_post(struct ln_op *op);
/* Give an op back to the queue of those waiting for a route or their turn. */
void ln_peer_pump(struct ln_peer *p); /* look at p->pending again */

/* Do an atomic or signal on local memory (aligned, checked). */
uint64_t ln_word_atomic(char *addr, int how, uint64_t operand,
			uint64_t compare); /* lune_atomic_how; old value */
void ln_word_signal(char *addr, int how, uint64_t value);

/* ---- struct ln_net ------------------------------------------------------- */

struct ln_engine;
struct ln_peers;

struct ln_net {
	/* Constant after open. */
	const struct ln_config *conf;
	const struct ln_topo *topo;
	struct ln_mem_table *mem;
	struct ln_counters *counters;
	uint8_t key[LN_KEY_BYTES];
	bool manual;
	struct ln_net_callbacks cb;
	struct ln_card card;
	uint8_t card_packed[LN_CARD_BYTES_MAX];
	size_t card_bytes;
	/* Allowed and usable, in order of preference; NULL ends. */
	const struct ln_net_ops *ops[LN_TRANSPORTS_MAX + 1];
	void *tp[LN_TRANSPORTS_MAX]; /* transports' own, by ops->index */
	ln_frame_fn *handlers[LN_FRAME_TYPES];
	/*
	 * Own doorbell: bell_own unless shm's open points it into memory that
	 * peers map.  evfd is the eventfd that goes with it.
	 */
	struct ln_doorbell *bell, bell_own;
	int evfd;
	struct ln_engine *engine;
	struct ln_peers *peers;
	struct ln_listen *listen; /* listening sockets, unproven connections */
	pthread_mutex_t import_lock; /* serialises ops->import and forget */
	_Atomic bool closing;
	uint64_t last_beat; /* the poller's */
};

/* Walk all peers with a reference held on each (no lock held in fn). */
void ln_peers_each(struct ln_net *net,
		   void (*fn)(struct ln_peer *p, void *arg), void *arg);

/*
 * Contract of the transport table beyond net.h:
 *  - probe, open, close: one thread, before/after anything else.  close comes
 *    after all peers are down.
 *  - up, down, progress, frame handlers: the poller.  up runs after the state
 *    is UP on both sides (frames may be sent); its failure only excludes the
 *    transport for this peer.  down runs before the peer's ops are ended by
 *    net; the transport ends the ops it holds itself: ln_op_finish(op,
 *    p->death_code, ...) after taking them off its lists.
 *  - import: under net->import_lock, peer UP.  LUNE_OK: route is yours.
 *    LUNE_ERR_AGAIN: an answer is awaited; call ln_peer_pump(p) and
 *    ln_net_event(net) when it has come.  Else: the next transport is asked.
 *  - forget: under net->import_lock, once per rmem whose route you were.
 *  - post: any thread; peer was UP a moment ago.  Not LUNE_OK: nothing was
 *    taken and net ends the op with that code.
 *  - Order: messages of a channel must stay in order, so a transport sends
 *    all of a peer's messages the same way for the peer's whole life.
 *  - index: self 0, shm 1, tcp 2, verbs 3.
 */
enum { LN_TP_SELF, LN_TP_SHM, LN_TP_TCP, LN_TP_VERBS };

#endif
