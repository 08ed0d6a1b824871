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

struct ln_bcast {
	int root;
	char *buf;
	uint64_t bytes;
};
int ln_bcast_tree(struct ln_coll *c, const struct ln_bcast *b);
int ln_bcast_chain(struct ln_coll *c, const struct ln_bcast *b);

#endif
