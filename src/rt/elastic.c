/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic worlds: members come and go, ranks are slots.  A thread follows the
 * membership (ln_boot_member_next) and writes it into the communicator:
 *
 *	joined   peers[slot] = its peer     size grows, never shrinks
 *	left     peers[slot] = NULL; the peer is declared dead
 *
 * A member that died is in its slot until its lease ends, and dead.
 *
 * Shrink.  Members may know of different changes.  Each makes a fixed
 * communicator ("view") of the members that it knows; its id is a hash of
 * their uuids, so those with the same view meet in it, agree there on who
 * lives, and make the dense communicator.  When the membership changes
 * meanwhile, the next view is tried too; whichever decides first counts.
 * Views are kept for as long as the world: a member that is late gets its
 * answer from them.
 *
 * Invariants
 *  1. A peer that was once in a slot keeps its reference until the world is
 *     freed: other threads read peers[] without a lock.
 *  2. Only the membership thread writes peers[], size and epoch.
 *
 * Limits: EVENTS_MAX events wait (then the oldest is dropped with a warning),
 * VIEWS_MAX views.
 */
#include <lune/comm.h>

#include "rt/rt.h"

#define EVENTS_MAX 4096
#define VIEWS_MAX 64
#define LOOK_MS 200 /* how soon the thread sees that it shall end */

struct former {
	struct former *next;
	struct ln_peer *peer;
};

struct ln_elastic {
	lune_ctx *ctx;
	pthread_t thread;
	bool has_thread, seen_self;
	_Atomic bool stop;
	struct former *former;

	pthread_mutex_t lock; /* guards events; a leaf */
	struct lune_member_event events[EVENTS_MAX];
	unsigned first, count;

	/* Views; one thread shrinks at a time. */
	lune_comm *views[VIEWS_MAX];
	int nviews;
};

/* ---- events ------------------------------------------------------------- */

static void event_push(struct ln_elastic *e, const struct lune_member_event *ev)
{
	pthread_mutex_lock(&e->lock);
	if (e->count == EVENTS_MAX) {
		ln_warn("nobody reads the changes of membership: the oldest is "
			"dropped");
		e->first = (e->first + 1) % EVENTS_MAX;
		e->count--;
	}
	e->events[(e->first + e->count++) % EVENTS_MAX] = *ev;
	pthread_mutex_unlock(&e->lock);
	ln_net_event(e->ctx->net);
}

static bool any_event(void *arg)
{
	struct ln_elastic *e = arg;
	bool any;

	pthread_mutex_lock(&e->lock);
	any = e->count > 0;
	pthread_mutex_unlock(&e->lock);
	return any;
}

static bool event_pop(struct ln_elastic *e, struct lune_member_event *out)
{
	bool any;

	pthread_mutex_lock(&e->lock);
	any = e->count > 0;
	if (any) {
		*out = e->events[e->first];
		e->first = (e->first + 1) % EVENTS_MAX;
		e->count--;
	}
	pthread_mutex_unlock(&e->lock);
	return any;
}

int ln_elastic_event(lune_comm *comm, uint64_t deadline,
		     struct lune_member_event *out)
{
	int rc;

	while (!event_pop(comm->elastic, out)) {
		rc = ln_net_wait(comm->ctx->net, any_event, comm->elastic,
				 deadline);
		if (rc == LUNE_ERR_TIMEOUT)
			return ln_error(rc, "no member joined or left");
		if (rc)
			return rc;
	}
	return LUNE_OK;
}

/* ---- the membership ----------------------------------------------------- */

/* The slot's peer goes; its reference moves to the list of former ones. */
static int retire(struct ln_elastic *e, struct ln_peer *old)
{
	struct former *f = ln_malloc(sizeof(*f));

	if (!f)
		return LUNE_ERR_NOMEM;
	f->peer = old;
	f->next = e->former;
	e->former = f;
	return LUNE_OK;
}

static int slot_empty(lune_comm *comm, int slot, const char *why)
{
	struct ln_peer *old = comm->peers[slot];
	int rc;

	if (!old)
		return LUNE_OK;
	rc = retire(comm->elastic, old);
	if (rc)
		return rc;
	__atomic_store_n(&comm->peers[slot], NULL, __ATOMIC_RELEASE);
	ln_peer_kill(old, LUNE_ERR_PEER, why);
	return LUNE_OK;
}

static int slot_fill(lune_comm *comm, int slot, struct ln_peer *p)
{
	int rc = slot_empty(comm, slot, "another took its slot");

	if (rc)
		return rc;
	/* Pairs with the acquire of ln_comm_peer. */
	__atomic_store_n(&comm->peers[slot], ln_peer_ref(p), __ATOMIC_RELEASE);
	if (slot >= atomic_load(&comm->size))
		atomic_store_explicit(&comm->size, slot + 1,
				      memory_order_release);
	return LUNE_OK;
}

static int member_joined(lune_comm *comm, const struct ln_boot_member *m)
{
	lune_ctx *ctx = comm->ctx;
	struct ln_card card;
	struct ln_peer *p;
	int rc = ln_card_unpack(m->card, m->card_len, &card);

	if (!rc)
		rc = ln_peer_get(ctx->net, &card, &p);
	if (rc)
		return rc;
	if (comm->peers[m->slot] != p) {
		pthread_mutex_lock(&ctx->deliver);
		rc = slot_fill(comm, m->slot, p);
		/* It may have spoken before we knew it. */
		if (!rc)
			ln_deliver_early(comm);
		pthread_mutex_unlock(&ctx->deliver);
	}
	ln_peer_unref(p);
	return rc;
}

static int member_left(lune_comm *comm, const struct ln_boot_member *m)
{
	if (m->slot != comm->rank)
		return slot_empty(comm, m->slot, "it left the world");
	ln_warn("the others have seen this process leave the world: its lease "
		"was lost");
	return LUNE_OK;
}

static void apply(lune_comm *comm, struct ln_boot_member *m)
{
	struct lune_member_event ev = { m->slot, !m->left, m->epoch };
	int rc = LUNE_OK;

	if (m->slot < 0 || m->slot >= LN_SLOTS_MAX)
		rc = ln_error(LUNE_ERR_LIMIT, "slot %d", m->slot);
	else if (m->left)
		rc = member_left(comm, m);
	else
		rc = member_joined(comm, m);
	ln_free(m->card);
	m->card = NULL;
	if (rc) {
		ln_warn("a member in slot %d is not usable: %s", m->slot,
			lune_last_error());
		return;
	}
	if (m->slot == comm->rank && ev.joined)
		comm->elastic->seen_self = true;
	atomic_store(&comm->epoch, m->epoch);
	event_push(comm->elastic, &ev);
}

static void nap(void)
{
	struct timespec ts = { 0, LOOK_MS * 1000000L };

	nanosleep(&ts, NULL);
}

static void *follow(void *arg)
{
	lune_comm *comm = arg;
	struct ln_elastic *e = comm->elastic;
	int rc, last = LUNE_OK;

	while (!atomic_load(&e->stop)) {
		struct ln_boot_member m = { 0 };

		rc = ln_boot_member_next(e->ctx->boot,
					 ln_now_ns() + LOOK_MS * 1000000u, &m);
		if (!rc)
			apply(comm, &m);
		else if (rc != LUNE_ERR_TIMEOUT)
			nap();
		if (rc && rc != LUNE_ERR_TIMEOUT && rc != last)
			ln_warn("the membership cannot be followed: %s",
				lune_last_error());
		last = rc;
	}
	return NULL;
}

/* ---- life --------------------------------------------------------------- */

static int join(lune_ctx *ctx, uint64_t deadline)
{
	uint8_t card[LN_CARD_BYTES_MAX];
	size_t bytes;
	int rc = ln_card_pack(ln_net_card(ctx->net), card, sizeof(card),
			      &bytes);

	return rc ? rc : ln_boot_join(ctx->boot, card, bytes, deadline);
}

static int make_world(lune_ctx *ctx)
{
	const struct ln_boot_info *info = ln_boot_info(ctx->boot);
	struct ln_comm_id none = { 0, 0 };
	struct ln_comm_how how = { .rank = info->rank, .slots = LN_SLOTS_MAX };
	struct ln_elastic *e = ln_calloc(1, sizeof(*e));

	if (!e)
		return LUNE_ERR_NOMEM;
	e->ctx = ctx;
	pthread_mutex_init(&e->lock, NULL);
	how.id = ln_comm_derive(&none, "elastic", info->job,
				strlen(info->job));
	how.elastic = e;
	return ln_comm_open(ctx, &how, &ctx->world);
}

/* Until we see ourselves: then all that were there before are known, too. */
static int first_look(lune_comm *comm, uint64_t deadline)
{
	struct ln_boot_member m = { 0 };
	int rc = LUNE_OK;

	while (!rc && !comm->elastic->seen_self) {
		rc = ln_boot_member_next(comm->ctx->boot, deadline, &m);
		if (!rc)
			apply(comm, &m);
	}
	return rc;
}

int ln_elastic_open(lune_ctx *ctx, uint64_t deadline)
{
	struct ln_elastic *e;
	int rc = join(ctx, deadline);

	if (!rc)
		rc = make_world(ctx);
	if (!rc)
		rc = first_look(ctx->world, deadline);
	if (rc)
		return rc;
	e = ctx->world->elastic;
	if (pthread_create(&e->thread, NULL, follow, ctx->world))
		return ln_error_errno(LUNE_ERR_SYSTEM, "membership thread");
	e->has_thread = true;
	return LUNE_OK;
}

void ln_elastic_close(lune_ctx *ctx)
{
	struct ln_elastic *e = ctx->world ? ctx->world->elastic : NULL;

	if (!e)
		return;
	atomic_store(&e->stop, true);
	if (e->has_thread)
		pthread_join(e->thread, NULL);
	e->has_thread = false;
	while (e->nviews)
		ln_comm_free(e->views[--e->nviews]);
}

void ln_elastic_free(struct ln_elastic *e)
{
	struct former *f;

	if (!e)
		return;
	while ((f = e->former)) {
		e->former = f->next;
		ln_peer_unref(f->peer);
		ln_free(f);
	}
	pthread_mutex_destroy(&e->lock);
	ln_free(e);
}

/* ---- shrink ------------------------------------------------------------- */

/*
 * Members as the membership has them: all see the same of it sooner or later.
 * Who is dead already is found by the agreement.
 */
static int snapshot(lune_comm *comm, struct ln_comm_how *how)
{
	int size = lune_comm_size(comm);
	struct ln_peer *p;

	how->peers = ln_calloc((size_t)size, sizeof(*how->peers));
	if (!how->peers)
		return LUNE_ERR_NOMEM;
	how->id = comm->id;
	for (int s = 0; s < size; s++) {
		p = ln_comm_peer(comm, s);
		if (!p)
			continue;
		if (s == comm->rank)
			how->rank = how->size;
		how->id = ln_comm_derive(&how->id, "view", p->card.uuid.b,
					 sizeof(p->card.uuid.b));
		how->peers[how->size++] = p;
	}
	return LUNE_OK;
}

static void view_add(struct ln_elastic *e, lune_comm *view)
{
	if (e->nviews == VIEWS_MAX) {
		ln_comm_free(e->views[0]);
		memmove(e->views, e->views + 1,
			sizeof(e->views[0]) * (VIEWS_MAX - 1));
		e->nviews--;
	}
	e->views[e->nviews++] = view;
}

/* The view of this moment, last in the list. */
static int view_now(lune_comm *comm)
{
	struct ln_elastic *e = comm->elastic;
	struct ln_comm_how how = { 0 };
	lune_comm *view = NULL;
	int rc = snapshot(comm, &how);

	for (int i = 0; !rc && i < e->nviews; i++) {
		if (!ln_comm_same(&e->views[i]->id, &how.id))
			continue;
		view = e->views[i];
		memmove(e->views + i, e->views + i + 1,
			sizeof(e->views[0]) * (size_t)(e->nviews - i - 1));
		e->nviews--;
		break;
	}
	if (!rc && !view)
		rc = ln_comm_open(comm->ctx, &how, &view);
	ln_free(how.peers);
	if (!rc)
		view_add(e, view);
	return rc;
}

/* The views of one call, newest last. */
#define TRIED_MAX 8
struct trying {
	lune_comm *views[TRIED_MAX];
	int n;
};

static int try_now(lune_comm *comm, struct trying *t)
{
	struct ln_elastic *e = comm->elastic;
	int rc = view_now(comm);
	lune_comm *view;

	if (rc)
		return rc;
	view = e->views[e->nviews - 1];
	for (int i = 0; i < t->n; i++)
		if (t->views[i] == view)
			return LUNE_OK;
	if (t->n == TRIED_MAX)
		memmove(t->views, t->views + 1,
			sizeof(t->views[0]) * (size_t)--t->n);
	t->views[t->n++] = view;
	return LUNE_OK;
}

int ln_elastic_shrink(lune_comm *comm, uint64_t deadline, lune_comm **out)
{
	struct trying t = { .n = 0 };
	uint64_t until;
	int rc;

	for (;;) {
		rc = try_now(comm, &t);
		/* What we took part in before may still decide. */
		for (int i = 0; !rc && i < t.n; i++) {
			until = ln_now_ns() + LOOK_MS * 1000000u;
			rc = ln_comm_living(t.views[i], ln_min(deadline, until),
					    deadline, out);
			if (rc != LUNE_ERR_TIMEOUT)
				return rc;
			rc = LUNE_OK;
		}
		if (rc)
			return rc;
		if (ln_deadline_passed(deadline))
			return ln_error_prefix(LUNE_ERR_TIMEOUT,
					       "the members do not agree on "
					       "who is in the world");
	}
}
