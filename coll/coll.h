/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coll: collectives on a fixed communicator.  See README.md.
 */
#ifndef LN_COLL_H
#define LN_COLL_H

#include <lune/coll.h>
#include <lune/rma.h>
#include <lune/signal.h>

#include "rt/rt.h"

/* Up to here a broadcast goes down a binomial tree of messages. */
#define LN_BCAST_SMALL LN_GATHER_MAX

/* A collective that has begun on this rank. */
struct ln_coll {
	lune_comm *comm;
	uint32_t seq, sig;
	uint64_t deadline;
};

/*
 * Check the context, take the sequence number.  sig is what all ranks must
 * agree on: a rank that called something else is found by its first message.
 */
int ln_coll_begin(struct ln_coll *c, lune_comm *comm, uint32_t sig,
		  int timeout_ms);
uint32_t ln_coll_sig(const char *name, int root, uint64_t bytes);

/* Are two members on one node? */
bool ln_coll_same_node(const lune_comm *comm, int a, int b);

/* state.c: comm->coll */
#define LN_COLL_FLAGS 4096
#define LN_BARRIER_ROUNDS 32
struct ln_coll_state {
	lune_mem *words;
	uint64_t barriers; /* begun */
	bool by_word;	   /* the rounds' targets are mapped */
	lune_rmem *ahead[LN_BARRIER_ROUNDS]; /* words of rank + 2^k */
};
int ln_coll_state(lune_comm *comm, struct ln_coll_state **out);

int ln_barrier(struct ln_coll *c);
void ln_barrier_fini(lune_comm *comm, struct ln_coll_state *s);

struct ln_bcast {
	int root;
	char *buf;
	uint64_t bytes;
};
int ln_bcast_tree(struct ln_coll *c, const struct ln_bcast *b);
int ln_bcast_chain(struct ln_coll *c, const struct ln_bcast *b);

#endif
