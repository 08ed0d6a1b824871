/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: an ordered set of processes, (uuid, epoch, members).  `rank`
 * is the position.  dup, split and shrink are collective over the members that
 * live; closing is not collective.
 *
 * The world of an elastic bootstrap (etcd://host:port/job without size) is an
 * elastic communicator: ranks are stable slots, a departed member leaves a
 * hole that a later joiner may take.  For collectives make a dense one of the
 * live members: lune_comm_shrink.
 */
#ifndef LUNE_COMM_H
#define LUNE_COMM_H

#include <stdbool.h>

#include <lune/ctx.h>
#include <lune/decls.h>

LUNE_DECLS_BEGIN

#define LUNE_COMM_NO_COLOR (-1)

int lune_comm_rank(const lune_comm *comm);
/* Members of a fixed communicator; slots (holes included) of an elastic one. */
int lune_comm_size(const lune_comm *comm);
/* Changes when the membership changes; part of every message's identity. */
uint64_t lune_comm_epoch(const lune_comm *comm);
lune_ctx *lune_comm_ctx(const lune_comm *comm);

/* Collective.  The new communicator is the caller's: lune_comm_close. */
int lune_comm_dup(lune_comm *comm, int timeout_ms, lune_comm **out);
/*
 * Collective.  Members of one color (>= 0) form a communicator, ordered by
 * key, then rank.  LUNE_COMM_NO_COLOR takes part and gets NULL.
 */
struct lune_split {
	int color, key;
};
int lune_comm_split(lune_comm *comm, const struct lune_split *how,
		    int timeout_ms, lune_comm **out);
/*
 * Collective over the survivors: agree on who lives and make a dense
 * communicator of them in the old order.  Works while members keep failing
 * (it starts over), and on elastic communicators.
 */
int lune_comm_shrink(lune_comm *comm, int timeout_ms, lune_comm **out);
/* Not collective, never waits for a peer.  NULL is fine. */
void lune_comm_close(lune_comm *comm);

/* Ranks known to have failed: writes at most max, *out gets how many. */
int lune_comm_failed(lune_comm *comm, int *ranks, int max, int *out);
/* Whether the member is not known to have failed or left. */
bool lune_comm_alive(lune_comm *comm, int rank);

/* What is known of a member. */
struct lune_peer_info {
	size_t size; /* sizeof(struct lune_peer_info), set by the caller */
	char host[256];
	char node[256];
	char address[128];   /* of the connection in use, or "" */
	char transport[64];  /* route of mapped memory: "self", "shm/map", ...*/
	char state[16];	     /* "idle", "connecting", "up", "dead" */
	uint8_t uuid[16];
	uint64_t incarnation;
	int pid;
};
int lune_comm_peer(lune_comm *comm, int rank, struct lune_peer_info *info);

/* Elastic worlds: the next change of membership. */
struct lune_member_event {
	int rank;	/* slot */
	bool joined;	/* else left or failed */
	uint64_t epoch;
};
/* LUNE_ERR_TIMEOUT: none came.  LUNE_ERR_UNSUPPORTED: not elastic. */
int lune_comm_event(lune_comm *comm, int timeout_ms,
		    struct lune_member_event *out);

LUNE_DECLS_END
#endif
