/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context: one per process (more are allowed).  It owns the transports, the
 * progress thread, the memory table and the world communicator.
 *
 * Timeouts: every blocking call takes timeout_ms: milliseconds, 0 to look once,
 * LUNE_TIMEOUT_DEFAULT for LUNE_TIMEOUT (30 s unless set), LUNE_FOREVER on
 * explicit wish.  Any thread may call anything, unless a call says otherwise.
 * After fork() the child may not use a context: calls give LUNE_ERR_FORKED.
 */
#ifndef LUNE_CTX_H
#define LUNE_CTX_H

#include <stddef.h>
#include <stdint.h>

#include <lune/decls.h>
#include <lune/status.h>

LUNE_DECLS_BEGIN

#define LUNE_TIMEOUT_DEFAULT (-1)
#define LUNE_FOREVER (-2)

typedef struct lune_ctx lune_ctx;
typedef struct lune_comm lune_comm;

enum lune_progress_mode {
	LUNE_PROGRESS_CONFIGURED = 0, /* what LUNE_PROGRESS says: thread */
	LUNE_PROGRESS_THREAD = 1,
	LUNE_PROGRESS_MANUAL = 2, /* only inside calls, lune_ctx_progress */
};

struct lune_ctx_opts {
	size_t size;		/* sizeof(struct lune_ctx_opts) */
	const char *bootstrap;	/* URL; NULL: LUNE_BOOTSTRAP, else detect */
	int timeout_ms;		/* of joining; 0: LUNE_BOOT_TIMEOUT */
	int progress;		/* enum lune_progress_mode */
};

/*
 * Join the world and open a context.  opts may be NULL.  Blocks until every
 * rank of a fixed world has joined.  Errors: LUNE_ERR_BOOT, LUNE_ERR_TIMEOUT
 * (the sentence names the missing ranks), LUNE_ERR_AUTH, LUNE_ERR_INVAL (a bad
 * option or LUNE_* value), LUNE_ERR_NOMEM, LUNE_ERR_SYSTEM.
 */
int lune_ctx_open(const struct lune_ctx_opts *opts, lune_ctx **out);

/*
 * Leave and free everything.  Not collective; waits at most timeout_ms for own
 * operations in flight, then cancels them.  Communicators, memory, windows
 * and signals of the context must be closed before: else LUNE_ERR_BUSY and
 * nothing is closed.  No other thread may be inside a call.
 */
int lune_ctx_close(lune_ctx *ctx, int timeout_ms);

/* The world; owned by the context, never closed by the caller. */
lune_comm *lune_ctx_world(lune_ctx *ctx);
/* A communicator of this process alone; owned by the context. */
lune_comm *lune_ctx_self(lune_ctx *ctx);

/*
 * Do what can be done now without blocking.  Returns the number of events
 * handled (0: nothing to do) or an error.  Needed only in manual mode.
 */
int lune_ctx_progress(lune_ctx *ctx);

/*
 * A file descriptor for poll/epoll of an external loop.  Protocol: call
 * lune_ctx_arm, then check what you wait for, then poll the fd; it becomes
 * readable once after the arming when a request completes, a notification or
 * a signal arrives, or a member changes.  The fd belongs to the context; do
 * not read it.  In manual mode call lune_ctx_progress when it is readable.
 */
int lune_ctx_fd(lune_ctx *ctx);
int lune_ctx_arm(lune_ctx *ctx);

/* Value of a counter by name ("put_bytes"), or LUNE_ERR_NOTFOUND. */
int lune_ctx_counter(lune_ctx *ctx, const char *name, uint64_t *out);

LUNE_DECLS_END
#endif
