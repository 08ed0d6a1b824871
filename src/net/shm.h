/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the shm transport: what a process shares with the peers of its node.
 *
 *   control memory (memfd, peers map it read-write)
 *     bell      rung by peers that wrote a signal
 *     cookie    read by a peer to find out whether CMA works
 *     lines     one per connected peer: the keys it is accessing by CMA
 *   directory   generations of regions (mem.h), peers map it read-only
 *   regions     memfds, handed over on request, mapped once per peer
 *   rings       one per peer that can neither map nor use CMA
 *
 * Lock order: net's import lock > tp->lock > ring->lock.
 */
#ifndef LN_NET_SHM_H
#define LN_NET_SHM_H

#include "net/internal.h"

#define SHM_LINES 1024
#define SHM_LINE_KEYS 8
#define SHM_MAGIC 0x4d53484cu /* "LHSM" */

/* A peer publishes a key here before it touches the region by CMA. */
struct shm_line {
	_Alignas(LN_CACHELINE) _Atomic uint64_t keys[SHM_LINE_KEYS];
};

struct shm_ctl {
	uint32_t magic, version;
	uint64_t cookie;
	_Alignas(LN_CACHELINE) struct ln_doorbell bell;
	struct shm_line lines[SHM_LINES];
};

enum shm_mode { SHM_NONE, SHM_MAP, SHM_CMA, SHM_RING };

/* Frames over the control connection. */
enum {
	/* fd; a: your line, b: cookie's address, index: you may use CMA */
	SHM_FRAME_CTL = LN_FRAME_USER,
	SHM_FRAME_DIR,		       /* fd */
	SHM_FRAME_EVFD,		       /* fd */
	SHM_FRAME_FDREQ,	       /* a: key, index: to be written */
	SHM_FRAME_FDREP,	       /* a, index: the same, b: code; fd */
	SHM_FRAME_RING,		       /* fd */
};
#define SHM_GOT_ALL 7u

/* A region of the peer, mapped here. */
struct shm_map {
	struct shm_map *prev, *next;
	struct shm_peer *sp;
	uint64_t key;
	char *addr;
	size_t bytes;
	size_t populated; /* so far; the poller's until code is settled */
	int refs;
	int code;	  /* LUNE_ERR_AGAIN: asked for; else the outcome */
	bool writable;
};

struct shm_ring;

struct shm_peer {
	struct shm_peer *prev, *next; /* tp->peers */
	struct ln_peer *peer;	      /* NULL once down */
	int refs;		      /* tp->lock: the peer, and rmems */
	struct shm_ctl *ctl;
	struct ln_directory *dir;
	int evfd, pid, pidfd;
	unsigned got;	 /* bits of the three descriptors */
	uint64_t cookie_addr;
	bool may_cma;	 /* the peer sees us die */
	int line;	 /* ours in ctl->lines */
	int their_line;	 /* in our own control memory */
	_Atomic int cma; /* 1: works, 0: does not */
	struct shm_map *maps;
	_Atomic(struct shm_ring *) out, in;
};

/* Whose our lines are: kept until the process is gone. */
struct shm_owner {
	bool used, orphan; /* orphan: its peer is down, the process may live */
	int pidfd, pid;
};

struct shm_tp {
	struct ln_net *net;
	pthread_mutex_t lock;
	int ctl_fd;
	struct shm_ctl *ctl;
	struct shm_peer *peers;
	struct shm_owner owners[SHM_LINES];
	bool allowed[4]; /* by enum shm_mode */
	_Atomic bool told; /* that CMA does not work */
	_Atomic int rings;
	_Atomic int populating; /* maps */
};

static inline struct shm_tp *shm_of(struct ln_net *net)
{
	return net->tp[LN_TP_SHM];
}

static inline struct shm_peer *shm_peer_of(struct ln_peer *p)
{
	return p->tp[LN_TP_SHM];
}

/* The peer's structures of an rmem whose route is shm. */
struct shm_peer *shm_rmem_peer(const struct ln_rmem *r);
void shm_peer_put(struct shm_tp *tp, struct shm_peer *sp); /* tp->lock held */

/* ---- shm_op.c ------------------------------------------------------------ */

int shm_op_post(struct ln_op *op);
void shm_op_cancel(struct ln_op *op);

/* ---- shm_map.c ----------------------------------------------------------- */

int shm_map_import(struct shm_peer *sp, struct ln_rmem *r);
void shm_map_forget(struct shm_tp *tp, struct shm_map *m); /* tp->lock held */
int shm_map_request(struct ln_peer *p, const struct ln_frame *f,
		    const void *body, int fd);
int shm_map_reply(struct ln_peer *p, const struct ln_frame *f,
		  const void *body, int fd);
/* Go on populating; number of steps done.  The poller's. */
int shm_map_progress(struct shm_peer *sp);

/* ---- shm_cma.c ----------------------------------------------------------- */

/* Try to read the peer's cookie. */
void shm_cma_probe(struct shm_tp *tp, struct shm_peer *sp);
/*
 * Copy segments [*at, n) of one rmem as far as they belong to it; *at and
 * *bytes advance.  The code of the first failure.
 */
int shm_cma_copy(struct ln_op *op, uint32_t *at, uint64_t *bytes);
int shm_cma_fence(struct ln_net *net, struct ln_region *r, uint64_t deadline);
int shm_line_take(struct shm_tp *tp, const struct shm_peer *sp);
void shm_line_drop(struct shm_tp *tp, struct shm_peer *sp);

/* ---- shm_ring.c ---------------------------------------------------------- */

/* Make our ring to the peer and hand it over. */
int shm_ring_open(struct shm_peer *sp);
int shm_ring_arrived(struct ln_peer *p, const struct ln_frame *f,
		     const void *body, int fd);
int shm_ring_post(struct shm_peer *sp, struct ln_op *op);
void shm_ring_cancel(struct shm_peer *sp, struct ln_op *op);
int shm_ring_progress(struct shm_peer *sp);
/* End what the ring carries; posts are refused from now on. */
void shm_ring_down(struct shm_peer *sp, int code);
/* Both rings, with the peer's last reference. */
void shm_ring_free(struct shm_tp *tp, struct shm_peer *sp);

#endif
