/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of an operation to a transport: order, connection, route.
 *
 * The common case takes no lock here: the peer is UP, nobody waits, the op is
 * not ORDERED.  Everything else queues in p->pending, in order; npending also
 * counts the one being started, so that a later op cannot overtake it.
 */
#include <utlist.h>

#include "net/link.h"

/* The route of a region, chosen at its first use. */
static int route_choose(struct ln_rmem *r)
{
	struct ln_net *net = r->peer->net;
	struct ln_peer_link *l = r->peer->link;
	int rc = LUNE_ERR_UNREACHABLE;

	for (int i = 0; net->ops[i]; i++) {
		if (!l->ups[net->ops[i]->index])
			continue;
		rc = net->ops[i]->import(r);
		if (rc == LUNE_ERR_AGAIN)
			return rc;
		if (rc == LUNE_OK) {
			atomic_store_explicit(&r->route, net->ops[i],
					      memory_order_release);
			return LUNE_OK;
		}
	}
	/* The control connection carries what nothing better can. */
	atomic_store_explicit(&r->route, &ln_net_tcp, memory_order_release);
	return LUNE_OK;
}

int ln_rmem_route(struct ln_rmem *r)
{
	struct ln_net *net = r->peer->net;
	int rc = LUNE_OK;

	if (atomic_load_explicit(&r->route, memory_order_acquire))
		return LUNE_OK;
	pthread_mutex_lock(&net->import_lock);
	if (!atomic_load(&r->route))
		rc = route_choose(r);
	pthread_mutex_unlock(&net->import_lock);
	return rc;
}

static int route_add(struct ln_rmem *r, const struct ln_net_ops **out)
{
	const struct ln_net_ops *o;
	int rc;

	if (!r)
		return LUNE_OK;
	rc = ln_rmem_route(r);
	if (rc)
		return rc;
	o = atomic_load_explicit(&r->route, memory_order_acquire);
	/* Regions with different routes: frames reach them all. */
	*out = !*out || *out == o ? o : &ln_net_tcp;
	return LUNE_OK;
}

static int route_of(struct ln_op *op, const struct ln_net_ops **out)
{
	const struct ln_net_ops *o = NULL;
	struct ln_rmem *last = op->sig_rmem;
	int rc;

	*out = op->peer->link->primary;
	if (op->kind == LN_OP_MSG)
		return LUNE_OK;
	rc = route_add(op->sig_rmem, &o);
	for (uint32_t i = 0; !rc && i < op->nsegs; i++) {
		if (op->segs[i].rmem == last)
			continue;
		last = op->segs[i].rmem;
		rc = route_add(last, &o);
	}
	if (o)
		*out = o;
	return rc;
}

/* LUNE_ERR_AGAIN: not taken, ask again at the next pump. */
static int op_start(struct ln_op *op)
{
	const struct ln_net_ops *o;
	int rc = route_of(op, &o);

	if (rc == LUNE_ERR_AGAIN)
		return rc;
	if (!rc)
		rc = o->post(op);
	if (rc)
		ln_op_finish(op, rc, 0, 0);
	return LUNE_OK;
}

static bool earlier_done(struct ln_peer *p)
{
	return atomic_load(&p->posted) - atomic_load(&p->finished) ==
	       atomic_load(&p->link->npending);
}

static bool may_start(struct ln_peer *p, const struct ln_op *op)
{
	if (atomic_load_explicit(&p->state, memory_order_acquire) !=
	    LN_PEER_UP)
		return false;
	return !(op->flags & LN_OP_ORDERED) || earlier_done(p);
}

/* Start what may start; called with the lock, returns with it. */
static void pump_locked(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_op *op;
	int rc;

	while ((op = p->pending) && may_start(p, op)) {
		DL_DELETE(p->pending, op);
		pthread_mutex_unlock(&p->lock);
		rc = op_start(op);
		pthread_mutex_lock(&p->lock);
		if (rc == LUNE_ERR_AGAIN) {
			DL_PREPEND(p->pending, op);
			return;
		}
		atomic_fetch_sub(&l->npending, 1);
	}
}

void ln_peer_pump(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	pthread_mutex_lock(&p->lock);
	l->pump_again = true;
	if (!l->pumping) {
		l->pumping = true;
		while (l->pump_again) {
			l->pump_again = false;
			pump_locked(p);
		}
		l->pumping = false;
	}
	pthread_mutex_unlock(&p->lock);
}

static int op_wait(struct ln_op *op)
{
	struct ln_peer *p = op->peer;
	int state, rc;

	pthread_mutex_lock(&p->lock);
	state = atomic_load(&p->state);
	if (state != LN_PEER_DEAD) {
		DL_APPEND(p->pending, op);
		atomic_fetch_add(&p->link->npending, 1);
	}
	pthread_mutex_unlock(&p->lock);
	if (state == LN_PEER_DEAD) {
		rc = ln_peer_error(p, LUNE_ERR_PEER);
		ln_peer_finished(p);
		return rc;
	}
	/* It may have come up since. */
	if (atomic_load(&p->state) == LN_PEER_UP)
		ln_peer_pump(p);
	else
		ln_peer_connect(p);
	return LUNE_OK;
}

int ln_op_post(struct ln_op *op)
{
	struct ln_peer *p = op->peer;
	uint64_t before;

	if (atomic_load_explicit(&p->state, memory_order_acquire) ==
	    LN_PEER_DEAD)
		return ln_peer_error(p, LUNE_ERR_PEER);
	atomic_store_explicit(&op->canceled, false, memory_order_relaxed);
	before = atomic_fetch_add(&p->posted, 1);
	if (atomic_load(&p->state) != LN_PEER_UP ||
	    atomic_load(&p->link->npending) ||
	    ((op->flags & LN_OP_ORDERED) &&
	     before != atomic_load(&p->finished)))
		return op_wait(op);
	if (op_start(op) == LUNE_ERR_AGAIN)
		return op_wait(op);
	return LUNE_OK;
}

void ln_op_cancel(struct ln_op *op)
{
	struct ln_peer *p = op->peer;
	const struct ln_net_ops *o = NULL;

	atomic_store(&op->canceled, true);
	if (op->nsegs && op->segs[0].rmem)
		o = atomic_load(&op->segs[0].rmem->route);
	else if (op->sig_rmem)
		o = atomic_load(&op->sig_rmem->route);
	if (o && o->cancel)
		o->cancel(op);
	/* Frames and those that wait are the poller's to look for. */
	ln_engine_sweep(p->net);
}

void ln_peer_sweep(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_op *op, *tmp;

	pthread_mutex_lock(&p->lock);
	DL_FOREACH_SAFE(p->pending, op, tmp) {
		if (!atomic_load(&op->canceled))
			continue;
		DL_DELETE(p->pending, op);
		atomic_fetch_sub(&l->npending, 1);
		op->spare[LN_SPARE_FLAGS] = 0;
		op->bytes = op->index = 0;
		ln_wire_done(l, op, LUNE_ERR_CANCELED);
	}
	ln_link_unlock(p);
}
