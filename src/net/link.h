/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, connections being made, and what net keeps per peer: private to
 * net's own files, not for transports (they use internal.h).
 */
#ifndef LN_NET_LINK_H
#define LN_NET_LINK_H

#include "net/internal.h"

/* bell.c; deadline is absolute. */
void ln_futex_wake(_Atomic uint32_t *word, int count);
void ln_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline);

/* ---- stream.c, stream_rx.c: a socket with frames ------------------------- */

#define LN_STREAMS_MAX 17		/* control and data */
#define LN_IN_BYTES (72 * 1024)		/* any frame that is not streamed */
#define LN_OUT_FILL (64 * 1024)		/* small frames gathered per send */
#define LN_OUT_MAX (8 * 1024 * 1024)	/* replies to a peer that sends only */
#define LN_COPY_MAX 8192		/* payload that is copied to gather */
#define LN_FDS_MAX 64
#define LN_IOV_MAX (LN_DESCS_MAX + 1)
#define LN_HEAD_MAX (LN_FRAME_BYTES + LN_DESCS_MAX * LN_DESC_BYTES + \
		     LN_SIGNAL_BYTES)

struct ln_job;

/* A frame being sent straight from memory.  op or job says whose. */
struct ln_piece {
	bool busy;
	struct ln_op *op;
	struct ln_job *job;
	uint64_t bytes;	      /* payload */
	uint64_t left;	      /* of head and payload */
	int n, at;	      /* iov; iov[0] is head */
	struct iovec iov[LN_IOV_MAX];
	uint8_t head[LN_HEAD_MAX];
	uint8_t *copy; /* payload's rest, when its owner had to go */
	struct ln_region *pins[LN_DESCS_MAX];
	int npins;
};

/* The payload being received: iov, then `drop` bytes for nobody. */
struct ln_sink {
	uint64_t left, drop;
	int n, at;
	struct iovec iov[LN_IOV_MAX];
	struct ln_region *pins[LN_DESCS_MAX];
	int npins;
	struct ln_frame f;
	struct ln_sigdesc sig;
	struct ln_op *op;    /* DATA: of the get */
	int code;	     /* PUT: first error */
	uint64_t index;	     /* its list entry */
	uint64_t landed;     /* bytes before it */
};

struct ln_out_fd {
	uint64_t at; /* position of its frame in all that was ever queued */
	int fd;
};

struct ln_stream {
	struct ln_watch watch; /* first: events find the stream by it */
	struct ln_grave grave;
	struct ln_net *net;
	struct ln_peer *peer;	/* NULL: not proven yet */
	struct ln_conn *conn;	/* while it is not */
	int family, index;	/* index: 0 control, 1.. data */

	/* Send side: peer's lock once proven, else the poller. */
	bool broken, want_out, connecting;
	char why[48]; /* it is broken */
	uint8_t *out;
	size_t out_at, out_len, out_cap;
	uint64_t out_pos;	/* of out[out_at] in all ever queued */
	size_t before;		/* out bytes that go before the piece */
	struct ln_out_fd fds[LN_FDS_MAX];
	int nfds;
	struct ln_piece *piece; /* allocated with the first large one */

	/* Receive side: the poller. */
	uint8_t *in;
	size_t in_at, in_len;
	int in_fds[LN_FDS_MAX];
	int in_nfds;
	struct ln_sink sink;
};

int ln_stream_open(struct ln_net *net, int fd, int family,
		   struct ln_stream **out);
/* Poller only: unwatch, close, free at the end of the pass. */
void ln_stream_close(struct ln_stream *s);
/*
 * Queue a small frame (copied).  LUNE_ERR_LIMIT when too much is queued.
 * Send side's lock held.
 */
int ln_stream_queue(struct ln_stream *s, const struct ln_frame *f,
		    const struct iovec *body, int nbody);
int ln_stream_queue_fd(struct ln_stream *s, const struct ln_frame *f,
		       const void *body, int fd);
/*
 * Send what is queued and what wire has for this stream, as far as the socket
 * takes it; the rest goes on with EPOLLOUT.  Send side's lock held.
 */
void ln_stream_flush(struct ln_stream *s);
/* The poller will bury it; send side's lock held. */
void ln_stream_break(struct ln_stream *s, const char *why);
/* Bytes queued. */
static inline size_t ln_stream_queued(const struct ln_stream *s)
{
	return s->out_len - s->out_at;
}
/*
 * Read and handle what is there; poller.  LUNE_ERR_PEER on the end of the
 * stream, LUNE_ERR_PROTO.
 */
int ln_stream_read(struct ln_stream *s);
/* Drop the destination of the payload being received. */
void ln_sink_drop(struct ln_stream *s);
void ln_sink_unpin(struct ln_sink *k);
/* Has a region of the sink been released?  Then drop it. */
void ln_sink_check(struct ln_stream *s);

/* ---- hello.c, connect.c, listen.c: connections being made ---------------- */

/* Type of a connection in HELLO. */
enum { LN_CONN_CONTROL, LN_CONN_DATA };

struct ln_conn {
	struct ln_conn *prev, *next;
	struct ln_stream *s;
	struct ln_net *net;
	struct ln_timer timer;
	struct ln_grave grave;
	struct ln_peer *peer; /* a reference; NULL: in, before HELLO */
	bool out;	      /* we connect */
	uint8_t kind, index, step;
	int code; /* what its end means for the one who connects */
	uint8_t nonce[32];
	uint8_t mine[LN_HELLO_BYTES_MAX], theirs[LN_HELLO_BYTES_MAX];
	uint16_t mine_bytes, theirs_bytes;
	struct ln_card card; /* theirs */
	char where[80];	     /* address, for messages */
};
/* Start the handshake of a connected (or connecting) socket; owns fd. */
int ln_conn_open(struct ln_net *net, int fd, int family, struct ln_peer *p,
		 struct ln_conn **out);
/* A frame of an unproven connection.  Not OK: refuse it. */
int ln_conn_frame(struct ln_conn *c, const struct ln_frame *f,
		  const void *body);
/* It failed or is not wanted: close, tell its attempt. */
void ln_conn_drop(struct ln_conn *c, int code, const char *why);
void ln_conn_free(struct ln_conn *c);
/* Our side of a connecting socket is connected: say HELLO. */
int ln_conn_hello(struct ln_conn *c);

/* connect.c */
void ln_connect_start(struct ln_peer *p);
void ln_connect_resume(struct ln_peer *p);
void ln_connect_failed(struct ln_conn *c, int code, const char *why);
/* The other's connection won; drop ours. */
void ln_connect_abandon(struct ln_peer *p);
/* Open the data connections (we connected the control one). */
void ln_connect_data(struct ln_peer *p);
/* Forget all conns of a peer (death, close). */
void ln_connect_stop(struct ln_peer *p);

/* listen.c */
struct ln_listen;
int ln_listen_open(struct ln_net *net);
int ln_listen_unix(struct ln_net *net, struct ln_card *card);
/* Ports by family, 0: that family is not there. */
int ln_listen_tcp(struct ln_net *net, int *port4, int *port6);
void ln_listen_close(struct ln_net *net);
void ln_listen_forked(struct ln_net *net);
void ln_listen_drop_conn(struct ln_net *net, struct ln_conn *c);
/* nonblocking, no delay, congestion control, user timeout. */
void ln_socket_tune(struct ln_net *net, int fd,
		    const struct sockaddr_storage *a);
bool ln_addr_is_loopback(const struct sockaddr_storage *a);

/* ---- what net keeps per peer --------------------------------------------- */

#define LN_PARTS_MAX 64	  /* puts of several pieces in flight to a peer */
#define LN_JOBS_MAX 64	  /* gets that a target answers at once */
#define LN_WINDOW_MAX 4096 /* ops on the wire to a peer */

/* A put of which only some pieces have landed (target). */
struct ln_part {
	bool used;
	uint64_t op, landed, good;
	int code;
	uint64_t index;
};

/* A get being answered (target). */
struct ln_job {
	struct ln_job *prev, *next;
	uint64_t op, total, sent, at_byte;
	uint32_t index, count, at, pieces; /* pieces in flight */
	int code;
	uint64_t fail_index;
	struct ln_desc desc[LN_DESCS_MAX];
};

struct ln_slot {
	struct ln_op *op; /* NULL: free, or reported already (LOCAL) */
	uint32_t gen, next;
	bool used, multi;
};
/* What wire keeps in op->spare. */
enum {
	LN_SPARE_TOTAL,	   /* bytes of the whole op */
	LN_SPARE_SENT,	   /* put: bytes taken for sending; get: asked for */
	LN_SPARE_GOT,	   /* get: received */
	LN_SPARE_EXPECTED, /* get: sent, as the target says */
	LN_SPARE_FLAGS,
};
#define LN_SPARE_STARTED 1u  /* has a slot */
#define LN_SPARE_QUEUED 2u   /* is in a queue */
#define LN_SPARE_COUNTED 4u  /* reported now, counted when delivered */


struct ln_peer_link {
	struct ln_peer *peer;
	/* The stream table; [0] is NULL until UP.  Peer's lock. */
	struct ln_stream *streams[LN_STREAMS_MAX];
	int nstreams; /* highest index + 1 */
	bool is_unix, connector, ups[LN_TRANSPORTS_MAX];
	const struct ln_net_ops *primary; /* carries messages */
	int pid;
	char where[80];

	/* Sending; peer's lock. */
	struct ln_op *sendq;	/* puts: data streams */
	struct ln_op *msgq;	/* messages, atomics: control */
	struct ln_op *getq;	/* gets' requests: control */
	struct ln_job *jobq, *job_free;
	int njobs;
	struct ln_slot *slots;
	uint32_t nslots, slot_free, inflight, multi, gets;
	struct ln_op *finish; /* to be reported once the lock is free */
	uint32_t delivered;   /* of those reported before: to be counted */
	bool turn;	      /* puts and answers take turns */

	/* Pending ops; npending is written under the lock. */
	_Atomic uint32_t npending;
	bool pumping, pump_again;

	/* The poller's. */
	struct ln_part parts[LN_PARTS_MAX];
	int nparts;
	uint64_t acks[LN_ACKS_MAX];
	int nacks;
	bool must_flush; /* replies were queued */
	bool heard, said_bye;
	uint64_t heard_at;
	struct ln_watch pidfd;
	struct ln_conn *conns;	 /* ours, connecting */
	struct ln_conn *accepting; /* theirs, which won; READY is awaited */
	uint8_t order[LN_CARD_ADDRS_MAX];
	int norder;
	bool try_unix;
	struct ln_timer timer;	 /* of the attempt: next address, deadline */
	uint64_t connect_until;
	int next_addr, data_tries;
	bool dup;
	int fail_code;
	char fail_text[256];
	struct ln_grave grave;

	/* Requests of other threads: engine's request lock. */
	struct ln_peer *req_next;
	bool req_queued;
	_Atomic bool req_connect;
	_Atomic uint32_t unreached; /* connects that failed so far */
	_Atomic int unreached_code;
	int req_kill;
	char req_why[160];
};

/* peer.c */
int ln_peers_open(struct ln_net *net);
void ln_peers_close(struct ln_net *net);
/* Without locks: in the child of a fork. */
void ln_peers_forked(struct ln_net *net, void (*fn)(struct ln_peer *p));
/* Do the requests of other threads; poller. */
void ln_peer_request(struct ln_peer *p);
void ln_peer_die(struct ln_peer *p, int code, const char *why);
/* Record the sentence of why a peer is gone; returns code. */
int ln_peer_error(struct ln_peer *p, int code);
/* Cancel the ops of the pending list that ask for it. */
void ln_peer_sweep(struct ln_peer *p);
void ln_peers_collect(struct ln_net *net);
/* End the ops that wait for a connection which failed; back to idle. */
void ln_peer_unreached(struct ln_peer *p, int code, const char *why);

/* post.c */
int ln_rmem_route(struct ln_rmem *r); /* AGAIN: not settled yet */

/* link.c */
/* Take over a proven stream; poller.  False: not wanted, close it. */
bool ln_link_adopt(struct ln_peer *p, struct ln_conn *c);
void ln_link_tick(struct ln_net *net); /* heartbeats */
void ln_link_bye(struct ln_peer *p);
/* A frame of a proven stream that is complete in the buffer. */
int ln_link_frame(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta, const void *body);
/* End of a read pass: acknowledge. */
void ln_link_flush_acks(struct ln_peer *p);
void ln_link_unlock(struct ln_peer *p); /* reports ops on link->finish */

/* wire.c, wire_send.c: the initiator; target.c */
bool ln_wire_put_next(struct ln_stream *s);
bool ln_wire_msg_next(struct ln_stream *s);
bool ln_wire_get_next(struct ln_stream *s);
bool ln_job_next(struct ln_stream *s);
void ln_job_piece_sent(struct ln_stream *s, struct ln_job *j);
struct ln_piece *ln_wire_piece(struct ln_stream *s);
/* The piece is cut: copy it if small, else let the stream send it. */
int ln_wire_piece_go(struct ln_stream *s, const struct ln_frame *f,
		     size_t meta);
int ln_wire_slot_take(struct ln_peer_link *l, struct ln_op *op);
struct ln_slot *ln_wire_slot(struct ln_peer_link *l, uint64_t id);
void ln_wire_slot_free(struct ln_peer_link *l, struct ln_slot *slot);
void ln_wire_done(struct ln_peer_link *l, struct ln_op *op, int code);
/* Reply to the peer (poller, no lock). */
int ln_link_reply(struct ln_peer *p, const struct ln_frame *f);
void ln_link_ack(struct ln_peer *p, uint64_t op);
int ln_target_begin(struct ln_stream *s, const struct ln_frame *f,
		    const uint8_t *meta);
int ln_target_end(struct ln_stream *s);
int ln_target_get(struct ln_peer *p, const struct ln_frame *f,
		  const uint8_t *meta);
int ln_target_atomic(struct ln_peer *p, const struct ln_frame *f,
		     const uint8_t *meta);
void ln_target_fini(struct ln_peer *p);
void ln_wire_pull(struct ln_stream *s);
void ln_wire_piece_sent(struct ln_stream *s);
void ln_wire_put_sent(struct ln_peer_link *l, struct ln_op *op);
void ln_wire_kick(struct ln_peer *p);
void ln_wire_fail(struct ln_peer *p, int code);
void ln_wire_fini(struct ln_peer *p);
/* Payload begins / is complete; poller. */
int ln_wire_begin(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta);
int ln_wire_end(struct ln_stream *s);
int ln_wire_frame(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta, const void *body);
/* Drop what touches released regions and canceled ops; poller. */
void ln_wire_sweep(struct ln_peer *p);
void ln_op_report(struct ln_op *op); /* done and doorbell, no counting */
void ln_peer_finished(struct ln_peer *p); /* counts one op, wakes ORDERED */

/* ---- engine.c, wait.c ---------------------------------------------------- */

int ln_engine_open(struct ln_net *net);
int ln_engine_start(struct ln_net *net);
void ln_engine_stop(struct ln_net *net);
void ln_engine_close(struct ln_net *net);
void ln_engine_forked(struct ln_net *net);
/* Queue a peer for ln_peer_request. */
void ln_engine_request(struct ln_peer *p);
void ln_engine_sweep(struct ln_net *net);
/* One pass, waiting up to timeout_ms for events; -1: somebody else polls. */
int ln_engine_poll(struct ln_net *net, int timeout_ms);

#endif
