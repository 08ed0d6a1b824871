/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: called by every rank of a fixed communicator, in the same order.
 * Different communicators are independent.  A rank that dies ends the
 * collective on the others with LUNE_ERR_PEER: see lune_comm_failed and
 * lune_comm_shrink.  After an error or a timeout the communicator may not be
 * used for further collectives except shrink (LUNE_ERR_PEER is returned).
 */
#ifndef LUNE_COLL_H
#define LUNE_COLL_H

#include <lune/comm.h>
#include <lune/decls.h>

LUNE_DECLS_BEGIN

int lune_barrier(lune_comm *comm, int timeout_ms);

/*
 * Every rank gives `bytes` bytes at send; recv gets size * bytes, by rank.
 * send may point to its own place inside recv.
 */
int lune_allgather(lune_comm *comm, const void *send, size_t bytes, void *recv,
		   int timeout_ms);

/* Every rank ends with root's `bytes` bytes in buf. */
int lune_bcast(lune_comm *comm, int root, void *buf, size_t bytes,
	       int timeout_ms);

LUNE_DECLS_END
#endif
