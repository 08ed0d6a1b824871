/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes, each with a net: an owner of memory and one that aims at it.
 * What one tells the other (tickets, counters) goes over the harness' scratch
 * page, so that the transport under test is not needed for it.
 */
#ifndef LUNE_TESTS_NET_SHM_PAIR_H
#define LUNE_TESTS_NET_SHM_PAIR_H

#include "tests/net/duo.h"

enum { AIMER, OWNER };

#define PAIR_TICKETS 4
#define PAIR_WORDS 32

struct pair_board {
	struct ln_ticket ticket[PAIR_TICKETS];
	_Atomic uint64_t word[PAIR_WORDS];
};
struct pair_board *pair_board(void);

/* A net that speaks shm only, in the modes named. */
void pair_open(struct node *n, const char *modes);
/*
 * Put the ticket of a region of ours on the board.  Our poller then sees what
 * was written there before.
 */
void pair_show(struct node *n, int slot, struct ln_region *r);
/* Attach what is on the board and check the route. */
void pair_attach(struct node *n, int slot, const char *route,
		 struct ln_rmem *out);

/*
 * The other process says that its accesses to a region of ours are done: see
 * the end of what our own poller did for them, too.
 */
void pair_settle(struct ln_region *r);

/* Run the two bodies; `arg` reaches both. */
int pair_run(ranks_fn *aimer, ranks_fn *owner, const void *arg,
	     int timeout_ms);

/* From now on this thread's process gets `err` for these system calls. */
void pair_forbid(const int *syscalls, int n, int err);

#endif
