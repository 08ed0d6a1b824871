/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: found by uuid, connected when first needed, and the way of an op from
 * ln_op_post to a transport.
 *
 *	IDLE --request--> CONNECTING --proven--> UP --EOF, silence, kill--> DEAD
 *	  ^--- failed ---------'                  (also from any other state)
 *
 * An op waits in p->pending while there is no connection, while an answer to
 * an import is awaited, and, if it is ORDERED, until all before it are done.
 * Others that come meanwhile queue behind it.  One thread at a time pumps.
 *
 * A peer lives while somebody refers to it, and then until the second
 * collection that finds it unused, so that a thread which has just counted an
 * op as finished may still look at it.
 */
#include <utlist.h>

#include <lune/mem.h>

#include "net/link.h"

#define BUCKETS 1024

struct ln_peer_box {
	struct ln_peer peer;
	struct ln_peer_link link;
	struct ln_peer_box *next;
	bool unused; /* at the last collection */
};

struct ln_peers {
	pthread_mutex_t lock; /* guards the chains */
	struct ln_peer_box *bucket[BUCKETS];
};

static struct ln_peer_box **bucket_of(struct ln_net *net,
				      const struct ln_uuid *u)
{
	return &net->peers->bucket[ln_hash64(u->b, sizeof(u->b)) % BUCKETS];
}

int ln_peers_open(struct ln_net *net)
{
	net->peers = ln_calloc(1, sizeof(*net->peers));
	if (!net->peers)
		return LUNE_ERR_NOMEM;
	pthread_mutex_init(&net->peers->lock, NULL);
	return LUNE_OK;
}

static void box_free(struct ln_peer_box *b)
{
	ln_wire_fini(&b->peer);
	pthread_mutex_destroy(&b->peer.lock);
	ln_free(b);
}

void ln_peers_close(struct ln_net *net)
{
	struct ln_peer_box *b, *next;

	if (!net->peers)
		return;
	for (int i = 0; i < BUCKETS; i++) {
		for (b = net->peers->bucket[i]; b; b = next) {
			next = b->next;
			box_free(b);
		}
	}
	pthread_mutex_destroy(&net->peers->lock);
	ln_free(net->peers);
	net->peers = NULL;
}

static struct ln_peer_box *box_make(struct ln_net *net,
				    const struct ln_card *card)
{
	struct ln_peer_box *b = ln_alloc_aligned(LN_CACHELINE, sizeof(*b));
	struct ln_peer *p;

	if (!b)
		return NULL;
	p = &b->peer;
	p->net = net;
	p->card = *card;
	p->bell_fd = -1;
	p->link = &b->link;
	b->link.peer = p;
	b->link.pidfd.fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	if (ln_uuid_equal(&card->uuid, &net->card.uuid)) {
		b->link.primary = &ln_net_self;
		b->link.ups[LN_TP_SELF] = true;
		atomic_store(&p->state, LN_PEER_UP);
	}
	return b;
}

int ln_peer_get(struct ln_net *net, const struct ln_card *card,
		struct ln_peer **out)
{
	struct ln_peer_box **head = bucket_of(net, &card->uuid), *b;
	int rc = LUNE_OK;

	pthread_mutex_lock(&net->peers->lock);
	for (b = *head; b; b = b->next)
		if (ln_uuid_equal(&b->peer.card.uuid, &card->uuid))
			break;
	if (!b) {
		b = box_make(net, card);
		if (b)
			LL_PREPEND(*head, b);
	}
	if (!b)
		rc = LUNE_ERR_NOMEM;
	else if (b->peer.card.incarnation != card->incarnation)
		rc = ln_error(LUNE_ERR_STALE,
			      "the card of %s pid %d is of another incarnation",
			      card->host, card->pid);
	else
		*out = ln_peer_ref(&b->peer);
	pthread_mutex_unlock(&net->peers->lock);
	return rc;
}

struct ln_peer *ln_peer_ref(struct ln_peer *p)
{
	atomic_fetch_add(&p->refs, 1);
	return p;
}

void ln_peer_unref(struct ln_peer *p)
{
	if (p)
		atomic_fetch_sub(&p->refs, 1);
}

void ln_peers_each(struct ln_net *net,
		   void (*fn)(struct ln_peer *p, void *arg), void *arg)
{
	struct ln_peer_box *b, *next;

	/* A referenced peer stays in its chain: step from one to the next. */
	for (int i = 0; i < BUCKETS; i++) {
		pthread_mutex_lock(&net->peers->lock);
		b = net->peers->bucket[i];
		if (b)
			ln_peer_ref(&b->peer);
		pthread_mutex_unlock(&net->peers->lock);
		while (b) {
			fn(&b->peer, arg);
			pthread_mutex_lock(&net->peers->lock);
			next = b->next;
			if (next)
				ln_peer_ref(&next->peer);
			ln_peer_unref(&b->peer);
			pthread_mutex_unlock(&net->peers->lock);
			b = next;
		}
	}
}

void ln_peers_forked(struct ln_net *net, void (*fn)(struct ln_peer *p))
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct ln_peer_box *b = net->peers->bucket[i]; b;
		     b = b->next)
			fn(&b->peer);
}

static bool collectable(struct ln_peer *p)
{
	int state = atomic_load(&p->state);

	return atomic_load(&p->refs) == 0 &&
	       (state == LN_PEER_IDLE || state == LN_PEER_DEAD) &&
	       atomic_load(&p->posted) == atomic_load(&p->finished);
}

void ln_peers_collect(struct ln_net *net)
{
	struct ln_peer_box *b, *next, *dead = NULL;

	pthread_mutex_lock(&net->peers->lock);
	for (int i = 0; i < BUCKETS; i++) {
		for (b = net->peers->bucket[i]; b; b = next) {
			bool unused = collectable(&b->peer);

			next = b->next;
			if (unused && b->unused) {
				LL_DELETE(net->peers->bucket[i], b);
				LL_PREPEND(dead, b);
			}
			b->unused = unused;
		}
	}
	pthread_mutex_unlock(&net->peers->lock);
	for (b = dead; b; b = next) {
		next = b->next;
		box_free(b);
	}
}

/* ---- requests of other threads ------------------------------------------- */

int ln_peer_connect(struct ln_peer *p)
{
	int state = atomic_load(&p->state);

	if (state == LN_PEER_DEAD)
		return ln_peer_error(p, LUNE_ERR_PEER);
	if (state != LN_PEER_IDLE)
		return LUNE_OK;
	atomic_store(&p->link->req_connect, true);
	ln_engine_request(p);
	return LUNE_OK;
}

void ln_peer_kill(struct ln_peer *p, int code, const char *why)
{
	pthread_mutex_lock(&p->lock);
	if (!p->link->req_kill) {
		p->link->req_kill = code;
		snprintf(p->link->req_why, sizeof(p->link->req_why), "%s", why);
	}
	pthread_mutex_unlock(&p->lock);
	ln_engine_request(p);
}

void ln_peer_request(struct ln_peer *p)
{
	char why[160];
	int code;

	pthread_mutex_lock(&p->lock);
	code = p->link->req_kill;
	memcpy(why, p->link->req_why, sizeof(why));
	pthread_mutex_unlock(&p->lock);
	if (code)
		ln_peer_die(p, code, why);
	else if (atomic_exchange(&p->link->req_connect, false))
		ln_connect_start(p);
}

/* The connection could not be made: what waits for it ends, idle again. */
void ln_peer_unreached(struct ln_peer *p, int code, const char *why)
{
	struct ln_peer_link *l = p->link;
	struct ln_op *op, *tmp;
	char text[256];

	ln_peer_text(p, text, sizeof(text));
	ln_info("cannot connect to %s: %s", text, why);
	ln_timer_stop(p->net, &l->timer);
	ln_connect_abandon(p);
	pthread_mutex_lock(&p->lock);
	l->unreached++;
	l->unreached_code = code;
	if (why != l->fail_text)
		snprintf(l->fail_text, sizeof(l->fail_text), "%s", why);
	atomic_store(&p->state, LN_PEER_IDLE);
	DL_FOREACH_SAFE(p->pending, op, tmp) {
		DL_DELETE(p->pending, op);
		atomic_fetch_sub(&l->npending, 1);
		op->spare[LN_SPARE_FLAGS] = 0;
		op->bytes = op->index = 0;
		ln_wire_done(l, op, code);
	}
	ln_link_unlock(p);
	ln_net_event(p->net);
}

int ln_peer_error(struct ln_peer *p, int code)
{
	char text[256], why[256];

	ln_peer_text(p, text, sizeof(text));
	pthread_mutex_lock(&p->lock);
	memcpy(why, p->link->fail_text, sizeof(why));
	pthread_mutex_unlock(&p->lock);
	return ln_error(code, "%s: %s", text, why[0] ? why : "given up");
}

struct connecting {
	struct ln_peer *p;
	uint32_t unreached;
};

static bool connect_settled(void *arg)
{
	struct connecting *c = arg;
	int state = atomic_load(&c->p->state);

	return state == LN_PEER_UP || state == LN_PEER_DEAD ||
	       atomic_load(&c->p->link->unreached) != c->unreached;
}

int ln_peer_connect_wait(struct ln_peer *p, uint64_t deadline)
{
	struct connecting c = { p, atomic_load(&p->link->unreached) };
	int rc = ln_peer_connect(p);
	char text[256];

	if (rc)
		return rc;
	rc = ln_net_wait(p->net, connect_settled, &c, deadline);
	if (rc) {
		ln_peer_text(p, text, sizeof(text));
		return ln_error(rc, "%s: not connected in time", text);
	}
	if (atomic_load(&p->state) == LN_PEER_UP)
		return LUNE_OK;
	if (atomic_load(&p->state) == LN_PEER_DEAD)
		return ln_peer_error(p, p->death_code ? p->death_code
						      : LUNE_ERR_PEER);
	return ln_peer_error(p, atomic_load(&p->link->unreached_code));
}

bool ln_peer_left(const struct ln_peer *p)
{
	/* Written before the state, by the poller. */
	return atomic_load_explicit(&p->state, memory_order_acquire) ==
		       LN_PEER_DEAD &&
	       p->link->said_bye;
}

void ln_peer_text(const struct ln_peer *p, char *out, size_t cap)
{
	const struct ln_peer_link *l = p->link;

	snprintf(out, cap, "%s pid %d%s%s", p->card.host, p->card.pid,
		 l->where[0] ? " at " : "", l->where);
}
