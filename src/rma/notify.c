/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: messages on LN_CHAN_NOTIFY, queued per communicator.
 *
 *   sender                              receiver
 *     in_flight < WINDOW ?  --message->   queue (any sender, in order)
 *     in_flight + 1                         | lune_notify_recv
 *     in_flight - n  <-----credits n------  taken = WINDOW / 2: give back
 *
 * args: communicator id (2), tag or number of credits, kind.
 *
 * Invariants
 *  1. At most LUNE_NOTIFY_WINDOW notifications of one sender are queued or
 *     under way; a peer that sends more broke the protocol and is cut off.
 *  2. Credits go back in batches of half a window, so a sender that waits
 *     always has at least half a window queued over there: taking those wakes
 *     it.
 *  3. Per sender the queue keeps the order of arrival, which net keeps.
 * Locks: state->lock is a leaf; nothing is posted under it.
 */
#include <pthread.h>

#include <lune/notify.h>

#include "rma/rma.h"

#define BATCH (LUNE_NOTIFY_WINDOW / 2)
#define CHUNK 64
/* Segments whose room holds a body: the request's memory is reused for it. */
#define BODY_SEGS ((LUNE_NOTIFY_MAX + sizeof(struct ln_seg) - 1) / \
		   sizeof(struct ln_seg))
/* Slots an elastic communicator can have notifications with. */
#define RANKS_MAX 65536

enum kind { KIND_NOTE, KIND_CREDITS };

struct node {
	struct node *next;
	struct lune_notify n;
};

struct chunk {
	struct chunk *next;
	struct node nodes[CHUNK];
};

/* One member.  All but in_flight under the state's lock. */
struct member {
	struct ln_peer *peer; /* whom the numbers are about; a reference */
	_Atomic uint32_t in_flight;
	uint32_t queued; /* of its notifications here */
	uint32_t taken;	 /* and not given back yet */
};

struct state {
	pthread_mutex_t lock;
	struct node *head, *tail, *spare;
	struct chunk *chunks;
	_Atomic uint32_t length; /* of the queue */
	_Atomic int lost;	 /* code: one could not be queued */
	int nmembers;
	struct member *_Atomic *members;
};

/* ---- state --------------------------------------------------------------- */

static void state_free(struct state *st)
{
	struct chunk *next;

	for (struct chunk *c = st->chunks; c; c = next) {
		next = c->next;
		ln_free(c);
	}
	for (int i = 0; i < st->nmembers; i++) {
		struct member *m = atomic_load(&st->members[i]);

		if (m && m->peer)
			ln_peer_unref(m->peer);
		ln_free(m);
	}
	ln_free((void *)st->members);
	pthread_mutex_destroy(&st->lock);
	ln_free(st);
}

static struct state *state_make(const lune_comm *comm)
{
	struct state *st = ln_calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	pthread_mutex_init(&st->lock, NULL);
	st->nmembers = comm->elastic ? RANKS_MAX : lune_comm_size(comm);
	st->members = ln_calloc((size_t)st->nmembers, sizeof(st->members[0]));
	if (st->members)
		return st;
	st->nmembers = 0;
	state_free(st);
	return NULL;
}

/* Made by whoever comes first: a sender, a receiver or a message. */
static struct state *state_of(lune_comm *comm)
{
	void *st = __atomic_load_n(&comm->notify, __ATOMIC_ACQUIRE);
	void *none = NULL;

	if (st)
		return st;
	st = state_make(comm);
	if (!st)
		return NULL;
	if (__atomic_compare_exchange_n(&comm->notify, &none, st, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return st;
	state_free(st);
	return none;
}

/*
 * A new incarnation in a slot starts with nothing in flight.  Lock held.
 * The peer that is left, for unref without the lock.
 */
static struct ln_peer *member_check(struct member *m, struct ln_peer *p)
{
	struct ln_peer *old = m->peer;

	if (old == p)
		return NULL;
	m->peer = ln_peer_ref(p);
	atomic_store(&m->in_flight, 0);
	m->queued = 0;
	m->taken = 0;
	return old;
}

static struct member *member_of(struct state *st, int rank, struct ln_peer *p)
{
	struct member *m, *none = NULL;
	struct ln_peer *old;

	if (rank >= st->nmembers) {
		ln_error(LUNE_ERR_LIMIT, "rank %d of %d", rank, st->nmembers);
		return NULL;
	}
	m = atomic_load(&st->members[rank]);
	if (!m) {
		m = ln_calloc(1, sizeof(*m));
		if (!m)
			return NULL;
		if (!atomic_compare_exchange_strong(&st->members[rank], &none,
						    m)) {
			ln_free(m);
			m = none;
		}
	}
	pthread_mutex_lock(&st->lock);
	old = member_check(m, p);
	pthread_mutex_unlock(&st->lock);
	if (old)
		ln_peer_unref(old);
	return m;
}

/* Lock held. */
static struct node *node_take(struct state *st)
{
	struct node *n = st->spare;
	struct chunk *c;

	if (!n) {
		c = ln_malloc(sizeof(*c));
		if (!c)
			return NULL;
		c->next = st->chunks;
		st->chunks = c;
		for (int i = 0; i < CHUNK; i++) {
			c->nodes[i].next = st->spare;
			st->spare = &c->nodes[i];
		}
		n = st->spare;
	}
	st->spare = n->next;
	n->next = NULL;
	return n;
}

/* ---- receiving ----------------------------------------------------------- */

static int enqueue(struct state *st, struct member *m,
		   const struct lune_notify *n)
{
	struct node *node;

	if (m->queued + m->taken >= LUNE_NOTIFY_WINDOW)
		return LUNE_ERR_PROTO;
	node = node_take(st);
	if (!node) {
		atomic_store(&st->lost, LUNE_ERR_NOMEM);
		return LUNE_ERR_NOMEM;
	}
	memcpy(&node->n, n, offsetof(struct lune_notify, body) + n->bytes);
	if (st->tail)
		st->tail->next = node;
	else
		st->head = node;
	st->tail = node;
	m->queued++;
	/* Pairs with the load in arrived(). */
	atomic_fetch_add(&st->length, 1);
	return LUNE_OK;
}

struct arrival {
	struct state *st;
	struct ln_peer *from;
	int rank;
};

static int take_note(const struct arrival *a, const uint64_t *args,
		     const void *body, uint32_t bytes)
{
	struct member *m = member_of(a->st, a->rank, a->from);
	struct lune_notify n = { .rank = a->rank, .bytes = bytes,
				 .tag = args[2] };
	int rc;

	if (!m)
		return LUNE_ERR_NOMEM;
	if (bytes > LUNE_NOTIFY_MAX)
		return LUNE_ERR_PROTO;
	if (bytes)
		memcpy(n.body, body, bytes);
	pthread_mutex_lock(&a->st->lock);
	rc = enqueue(a->st, m, &n);
	pthread_mutex_unlock(&a->st->lock);
	return rc;
}

static int take_credits(const struct arrival *a, uint64_t credits)
{
	struct member *m = member_of(a->st, a->rank, a->from);
	uint32_t have;

	if (!m)
		return LUNE_ERR_NOMEM;
	have = atomic_load(&m->in_flight);
	if (credits > have)
		return LUNE_ERR_PROTO;
	atomic_fetch_sub(&m->in_flight, (uint32_t)credits);
	return LUNE_OK;
}

static void message(struct lune_ctx *ctx, struct ln_peer *from,
		    const uint64_t args[LN_MSG_ARGS], const void *body,
		    uint32_t bytes)
{
	struct ln_comm_id id = { args[0], args[1] };
	struct lune_comm *comm = ln_comm_find(ctx, &id);
	struct arrival a = { .from = from };
	int rc = LUNE_OK;

	/* Closed already: nobody is left to read it. */
	if (!comm)
		return;
	a.rank = ln_comm_rank_of(comm, from);
	a.st = state_of(comm);
	if (a.rank < 0)
		rc = LUNE_ERR_PROTO;
	else if (!a.st)
		rc = LUNE_ERR_NOMEM;
	else if (args[3] == KIND_NOTE)
		rc = take_note(&a, args, body, bytes);
	else
		rc = take_credits(&a, args[2]);
	if (rc == LUNE_ERR_PROTO) {
		ln_count(&ctx->counters, refused_proto, 1);
		ln_peer_kill(from, rc, "it broke the notifications' window");
	} else if (rc) {
		ln_warn("a notification is lost: %s", lune_last_error());
	}
	ln_net_event(ctx->net);
}

static int post_message(struct lune_req *req, const struct lune_op *how)
{
	req->op.kind = LN_OP_MSG;
	req->op.chan = LN_CHAN_NOTIFY;
	req->op.nsegs = 0;
	req->op.segs = NULL;
	req->op.sig_rmem = NULL;
	return ln_req_start(req, how);
}

/* Nobody waits for it; a dead peer needs no credits. */
static void give_back(lune_comm *comm, struct ln_peer *peer, uint32_t credits)
{
	struct lune_req *req;

	if (ln_req_take(comm->ctx, 0, NULL, &req)) {
		ln_warn("notification credits are lost: %s",
			lune_last_error());
		return;
	}
	req->op.peer = peer;
	req->op.flags = LN_OP_LOCAL;
	req->op.args[0] = comm->id.a;
	req->op.args[1] = comm->id.b;
	req->op.args[2] = credits;
	req->op.args[3] = KIND_CREDITS;
	req->op.body = NULL;
	req->op.body_bytes = 0;
	(void)post_message(req, NULL);
}

static bool take(lune_comm *comm, struct state *st, struct lune_notify *out)
{
	struct ln_peer *peer = NULL;
	uint32_t credits = 0;
	struct member *m;
	struct node *node;

	pthread_mutex_lock(&st->lock);
	node = st->head;
	if (node) {
		st->head = node->next;
		if (!st->head)
			st->tail = NULL;
		atomic_fetch_sub(&st->length, 1);
		memcpy(out, &node->n,
		       offsetof(struct lune_notify, body) + node->n.bytes);
		node->next = st->spare;
		st->spare = node;
		m = atomic_load(&st->members[out->rank]);
		/* Of a former incarnation of that slot: no credit for it. */
		if (m->queued) {
			m->queued--;
			m->taken++;
		}
		if (m->taken >= BATCH) {
			credits = m->taken;
			peer = ln_peer_ref(m->peer);
			m->taken = 0;
		}
	}
	pthread_mutex_unlock(&st->lock);
	if (credits) {
		give_back(comm, peer, credits);
		ln_peer_unref(peer);
	}
	return node != NULL;
}

static bool arrived(void *arg)
{
	struct state *st = arg;

	return atomic_load(&st->length) > 0 || atomic_load(&st->lost);
}

int lune_notify_recv(lune_comm *comm, int timeout_ms, struct lune_notify *out)
{
	struct state *st;
	uint64_t deadline;
	int rc;

	if (!comm || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_notify_recv: NULL");
	LN_CTX_CHECK(comm->ctx);
	st = state_of(comm);
	if (!st)
		return LUNE_ERR_NOMEM;
	deadline = ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout);
	for (;;) {
		rc = atomic_exchange(&st->lost, 0);
		if (rc)
			return ln_error(rc, "a notification was lost");
		if (take(comm, st, out)) {
			ln_count(&comm->ctx->counters, notify_received, 1);
			return LUNE_OK;
		}
		rc = ln_net_wait(comm->ctx->net, arrived, st, deadline);
		if (rc)
			return rc;
	}
}

/* ---- sending ------------------------------------------------------------- */

struct window {
	struct member *m;
	struct ln_peer *peer;
};

static bool open_or_dead(void *arg)
{
	struct window *w = arg;

	return atomic_load(&w->m->in_flight) < LUNE_NOTIFY_WINDOW ||
	       atomic_load(&w->peer->state) == LN_PEER_DEAD;
}

static bool enter(struct member *m)
{
	uint32_t v = atomic_load(&m->in_flight);

	while (v < LUNE_NOTIFY_WINDOW)
		if (atomic_compare_exchange_weak(&m->in_flight, &v, v + 1))
			return true;
	return false;
}

static int enter_window(lune_comm *comm, struct window *w, bool nowait)
{
	uint64_t deadline = 0;
	char text[256];
	int rc;

	while (!enter(w->m)) {
		if (nowait)
			return LUNE_ERR_AGAIN;
		if (!deadline)
			deadline = ln_deadline(LUNE_TIMEOUT_DEFAULT,
					       (int)comm->ctx->conf.timeout);
		rc = ln_net_wait(comm->ctx->net, open_or_dead, w, deadline);
		ln_peer_text(w->peer, text, sizeof(text));
		if (rc)
			return ln_error(rc, "%s has not taken %u notifications",
					text, LUNE_NOTIFY_WINDOW);
		if (atomic_load(&w->peer->state) == LN_PEER_DEAD)
			return ln_error(LUNE_ERR_PEER, "%s is gone", text);
	}
	return LUNE_OK;
}

static int send_note(lune_comm *comm, struct ln_peer *peer,
		     const struct lune_notify *n, const struct lune_op *op)
{
	struct lune_req *req;
	int rc;

	rc = ln_req_take(comm->ctx, BODY_SEGS, op, &req);
	if (rc)
		return rc;
	req->op.peer = peer;
	req->op.flags = op ? (uint16_t)(op->flags &
					(LUNE_OP_LOCAL | LUNE_OP_ORDERED)) : 0;
	req->op.args[0] = comm->id.a;
	req->op.args[1] = comm->id.b;
	req->op.args[2] = n->tag;
	req->op.args[3] = KIND_NOTE;
	/* The body travels in the request: n may be reused at once. */
	memcpy((void *)req->segs_buf, n->body, n->bytes);
	req->op.body = req->segs_buf;
	req->op.body_bytes = n->bytes;
	return post_message(req, op);
}

static int check_op(const struct lune_op *op)
{
	const unsigned known = LUNE_OP_LOCAL | LUNE_OP_ORDERED | LUNE_OP_NOWAIT;

	if (op && (op->flags & ~known))
		return ln_error(LUNE_ERR_INVAL, "unknown flags %#x", op->flags);
	if (op && ((op->req && op->cq) || op->signal.rmem))
		return ln_error(LUNE_ERR_INVAL,
				"a notification reports to one and carries no "
				"signal");
	return LUNE_OK;
}

int lune_notify_send(lune_comm *comm, const struct lune_notify *n,
		     const struct lune_op *op)
{
	struct window w;
	struct state *st;
	int rc;

	if (!comm || !n || n->bytes > LUNE_NOTIFY_MAX)
		return ln_error(LUNE_ERR_INVAL,
				"lune_notify_send: NULL, or more than %d bytes",
				LUNE_NOTIFY_MAX);
	LN_CTX_CHECK(comm->ctx);
	rc = check_op(op);
	if (!rc)
		rc = ln_comm_peer_of(comm, n->rank, &w.peer);
	if (rc)
		return rc;
	st = state_of(comm);
	w.m = st ? member_of(st, n->rank, w.peer) : NULL;
	if (!w.m)
		return LUNE_ERR_NOMEM;
	rc = enter_window(comm, &w, op && (op->flags & LUNE_OP_NOWAIT));
	if (rc)
		return rc;
	rc = send_note(comm, w.peer, n, op);
	if (rc)
		atomic_fetch_sub(&w.m->in_flight, 1);
	else
		ln_count(&comm->ctx->counters, notify_sent, 1);
	return rc;
}

static void comm_close(struct lune_comm *comm)
{
	struct state *st = __atomic_exchange_n(&comm->notify, NULL,
					       __ATOMIC_ACQ_REL);

	if (st)
		state_free(st);
}

const struct ln_layer ln_layer_notify = {
	.message = message,
	.comm_close = comm_close,
};
