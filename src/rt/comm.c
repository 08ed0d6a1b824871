/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: made of peers, entered in the context's list, found by the
 * id that every message carries, and closed.
 *
 * Invariants
 *  1. A communicator is in the list from the moment messages may be handed to
 *     it until it is freed; both ends of that are under ctx->deliver.
 *  2. A closed communicator whose members agreed on something stays as a ghost:
 *     one of them may not have heard of the result and ask for it.  A ghost
 *     answers questions of agree.c and nothing else.
 *  3. peers[] of a fixed communicator never changes; slots of an elastic one
 *     are filled with release and read with acquire.
 *
 * Limit: GHOSTS_MAX ghosts, then the oldest goes.
 */
#include <stdlib.h>

#include "rt/rt.h"

#define GHOSTS_MAX 32

static int by_peer(const void *a, const void *b)
{
	const struct ln_member *x = a, *y = b;

	return x->peer < y->peer ? -1 : x->peer > y->peer;
}

static int order_make(lune_comm *comm, int size)
{
	comm->order = ln_calloc((size_t)size, sizeof(*comm->order));
	if (!comm->order)
		return LUNE_ERR_NOMEM;
	for (int r = 0; r < size; r++)
		comm->order[r] = (struct ln_member){ comm->peers[r], r };
	qsort(comm->order, (size_t)size, sizeof(*comm->order), by_peer);
	return LUNE_OK;
}

static int fill(lune_comm *comm, const struct ln_comm_how *how)
{
	int room = ln_max(how->slots, how->size), rc;

	comm->peers = ln_calloc((size_t)room, sizeof(*comm->peers));
	if (!comm->peers)
		return LUNE_ERR_NOMEM;
	for (int r = 0; r < how->size; r++)
		if (how->peers[r])
			comm->peers[r] = ln_peer_ref(how->peers[r]);
	if (how->slots)
		return LUNE_OK;
	rc = order_make(comm, how->size);
	return rc ? rc : ln_agree_open(comm);
}

static void enter(lune_ctx *ctx, lune_comm *comm)
{
	pthread_mutex_lock(&ctx->deliver);
	pthread_mutex_lock(&ctx->lock);
	comm->next = ctx->comms;
	ctx->comms = comm;
	pthread_mutex_unlock(&ctx->lock);
	ln_deliver_early(comm);
	pthread_mutex_unlock(&ctx->deliver);
}

/* What only this communicator has; it is in no list. */
static void drop(lune_comm *comm)
{
	ln_agree_close(comm);
	ln_elastic_free(comm->elastic);
	ln_inbox_fini(&comm->inbox);
	for (int r = 0; comm->peers && r < comm->size; r++)
		ln_peer_unref(comm->peers[r]);
	ln_free(comm->order);
	ln_free(comm->peers);
	ln_free(comm);
}

int ln_comm_open(lune_ctx *ctx, const struct ln_comm_how *how, lune_comm **out)
{
	lune_comm *comm = ln_calloc(1, sizeof(*comm));
	int rc;

	if (!comm) {
		ln_elastic_free(how->elastic);
		return LUNE_ERR_NOMEM;
	}
	comm->ctx = ctx;
	comm->elastic = how->elastic;
	comm->id = how->id;
	comm->rank = how->rank;
	atomic_store(&comm->size, how->size);
	pthread_mutex_init(&comm->inbox.lock, NULL);
	rc = fill(comm, how);
	if (rc) {
		drop(comm);
		return rc;
	}
	enter(ctx, comm);
	*out = comm;
	return LUNE_OK;
}

/* Both locks held. */
static void unlink_comm(lune_ctx *ctx, lune_comm *comm)
{
	struct lune_comm **at;

	for (at = &ctx->comms; *at != comm;)
		at = &(*at)->next;
	*at = comm->next;
}

/* One ghost too many, out of the list, or NULL.  Both locks held. */
static lune_comm *surplus(lune_ctx *ctx)
{
	lune_comm *oldest = NULL;
	int n = 0;

	for (lune_comm *c = ctx->comms; c; c = c->next) {
		if (!c->closed)
			continue;
		oldest = c;
		n++;
	}
	if (n <= GHOSTS_MAX)
		return NULL;
	unlink_comm(ctx, oldest);
	return oldest;
}

/* No handler sees it from now on.  What is to be freed, or NULL. */
static lune_comm *leave(lune_ctx *ctx, lune_comm *comm, bool ghost)
{
	lune_comm *gone = comm;

	pthread_mutex_lock(&ctx->deliver);
	pthread_mutex_lock(&ctx->lock);
	if (ghost) {
		comm->closed = true;
		gone = surplus(ctx);
	} else {
		unlink_comm(ctx, comm);
	}
	pthread_mutex_unlock(&ctx->lock);
	ln_deliver_closed(ctx, &comm->id);
	pthread_mutex_unlock(&ctx->deliver);
	return gone;
}

static void layers_close(lune_comm *comm)
{
	if (&ln_layer_coll && ln_layer_coll.comm_close)
		ln_layer_coll.comm_close(comm);
	if (&ln_layer_notify && ln_layer_notify.comm_close)
		ln_layer_notify.comm_close(comm);
}

void ln_comm_free(lune_comm *comm)
{
	bool ghost = comm && comm->closed;

	if (!comm)
		return;
	leave(comm->ctx, comm, false);
	if (!ghost)
		layers_close(comm);
	drop(comm);
}

void lune_comm_close(lune_comm *comm)
{
	lune_comm *gone;
	lune_ctx *ctx;

	/* A child must not touch what it shares with its parent. */
	if (!comm || atomic_load(&comm->ctx->forked))
		return;
	ctx = comm->ctx;
	if (comm == ctx->world || comm == ctx->self)
		return;
	if (ln_agree_used(comm)) {
		gone = leave(ctx, comm, true);
		layers_close(comm);
		if (gone)
			drop(gone);
	} else {
		ln_comm_free(comm);
	}
	atomic_fetch_sub(&ctx->objects, 1);
}

struct ln_comm_id ln_comm_derive(const struct ln_comm_id *parent,
				 const char *what, const void *p, size_t bytes)
{
	struct {
		struct ln_comm_id parent;
		uint64_t what, more, salt;
	} in = { .parent = *parent };
	struct ln_comm_id id;

	in.what = ln_hash64(what, strlen(what));
	in.more = ln_hash64(p, bytes);
	id.a = ln_hash64(&in, sizeof(in));
	in.salt = 1;
	id.b = ln_hash64(&in, sizeof(in));
	return id;
}

struct lune_comm *ln_comm_find(lune_ctx *ctx, const struct ln_comm_id *id)
{
	struct lune_comm *c;

	pthread_mutex_lock(&ctx->lock);
	for (c = ctx->comms; c; c = c->next)
		if (ln_comm_same(&c->id, id))
			break;
	pthread_mutex_unlock(&ctx->lock);
	return c;
}

int ln_comm_rank_of(const lune_comm *comm, const struct ln_peer *p)
{
	struct ln_member key = { .peer = (struct ln_peer *)(uintptr_t)p };
	const struct ln_member *m;

	if (comm->order) {
		m = bsearch(&key, comm->order, (size_t)comm->size,
			    sizeof(*comm->order), by_peer);
		return m ? m->rank : -1;
	}
	for (int r = 0; r < comm->size; r++)
		if (ln_comm_peer(comm, r) == p)
			return r;
	return -1;
}

int ln_comm_peer_of(lune_comm *comm, int rank, struct ln_peer **out)
{
	struct ln_peer *p;
	char text[300];

	if (rank < 0 || rank >= comm->size)
		return ln_error(LUNE_ERR_INVAL, "rank %d of a communicator of "
				"%d", rank, comm->size);
	p = ln_comm_peer(comm, rank);
	if (!p)
		return ln_error(LUNE_ERR_PEER, "no member in slot %d", rank);
	if (ln_comm_dead(comm, rank)) {
		ln_comm_rank_text(comm, rank, text, sizeof(text));
		return ln_error(LUNE_ERR_PEER, "%s is gone", text);
	}
	*out = p;
	return LUNE_OK;
}

void ln_comm_rank_text(const lune_comm *comm, int rank, char *out, size_t cap)
{
	const struct ln_peer *p = NULL;

	if (rank >= 0 && rank < comm->size)
		p = ln_comm_peer(comm, rank);
	if (p)
		snprintf(out, cap, "rank %d (host %s, pid %d)", rank,
			 p->card.host, p->card.pid);
	else
		snprintf(out, cap, "rank %d", rank);
}

int lune_comm_rank(const lune_comm *comm)
{
	return comm->rank;
}

int lune_comm_size(const lune_comm *comm)
{
	return atomic_load_explicit(&comm->size, memory_order_acquire);
}

uint64_t lune_comm_epoch(const lune_comm *comm)
{
	return atomic_load(&comm->epoch);
}

lune_ctx *lune_comm_ctx(const lune_comm *comm)
{
	return comm->ctx;
}
