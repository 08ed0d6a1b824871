/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: small messages, delivered in order per peer and communicator,
 * once.  The receiver's queue is bounded: a sender whose LUNE_NOTIFY_WINDOW
 * notifications to one peer have not been taken yet waits (deadline: the
 * default timeout) or, with LUNE_OP_NOWAIT, gets LUNE_ERR_AGAIN.
 */
#ifndef LUNE_NOTIFY_H
#define LUNE_NOTIFY_H

#include <lune/decls.h>
#include <lune/rma.h>

LUNE_DECLS_BEGIN

#define LUNE_NOTIFY_MAX 128
#define LUNE_NOTIFY_WINDOW 1024
#define LUNE_OP_NOWAIT 4u

struct lune_notify {
	int rank; /* send: to; recv: from */
	uint32_t bytes;
	uint64_t tag;
	uint8_t body[LUNE_NOTIFY_MAX];
};

/* Done when it is in the receiver's queue. */
int lune_notify_send(lune_comm *comm, const struct lune_notify *n,
		     const struct lune_op *op);
/* The oldest of any sender.  LUNE_ERR_TIMEOUT when none came. */
int lune_notify_recv(lune_comm *comm, int timeout_ms, struct lune_notify *out);

LUNE_DECLS_END
#endif
