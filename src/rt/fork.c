/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork(): the child has a copy of every context and no progress thread.  It
 * closes the sockets, so that a peer sees the parent's death although a child
 * lives on, and marks the contexts, so that calls give LUNE_ERR_FORKED.
 *
 * One handler per process, registered with the first context; it cannot be
 * taken back, so it walks a list.
 */
#include <errno.h>

#include "rt/rt.h"

/* Guards the list; above every other lock.  Held across fork(). */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lune_ctx *list;
static bool registered;

static void before(void)
{
	pthread_mutex_lock(&list_lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
	for (struct lune_ctx *c = list; c; c = c->next_open) {
		atomic_store(&c->forked, true);
		ln_net_forked(c->net);
	}
	/* A context that the child opens itself is its own. */
	list = NULL;
	pthread_mutex_unlock(&list_lock);
}

int ln_fork_watch(lune_ctx *ctx)
{
	int rc = LUNE_OK;

	pthread_mutex_lock(&list_lock);
	if (!registered) {
		errno = pthread_atfork(before, in_parent, in_child);
		if (errno)
			rc = ln_error_errno(LUNE_ERR_SYSTEM, "pthread_atfork");
		else
			registered = true;
	}
	if (!rc) {
		ctx->next_open = list;
		list = ctx;
	}
	pthread_mutex_unlock(&list_lock);
	return rc;
}

void ln_fork_unwatch(lune_ctx *ctx)
{
	struct lune_ctx **at;

	pthread_mutex_lock(&list_lock);
	for (at = &list; *at && *at != ctx;)
		at = &(*at)->next_open;
	if (*at)
		*at = ctx->next_open;
	pthread_mutex_unlock(&list_lock);
}
