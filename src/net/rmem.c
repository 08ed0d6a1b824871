/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attached memory: a ticket's region as ops aim at it, and its route.
 */
#include <lune/mem.h>

#include "net/link.h"

int ln_rmem_init(struct ln_net *net, const struct ln_ticket *t,
		 struct ln_rmem *out)
{
	struct ln_card card;
	struct ln_peer *p;
	int rc = ln_card_unpack(t->card, t->card_len, &card);

	if (rc)
		return rc;
	rc = ln_peer_get(net, &card, &p);
	if (rc)
		return rc;
	memset(out, 0, sizeof(*out));
	out->peer = p;
	out->key = t->key;
	out->base = t->base;
	out->bytes = t->bytes;
	out->rights = t->rights;
	out->shareable = t->shareable;
	out->gen_want = (uint32_t)(t->key >> 32);
	return LUNE_OK;
}

void ln_rmem_fini(struct ln_rmem *r)
{
	const struct ln_net_ops *o;

	if (!r->peer)
		return;
	pthread_mutex_lock(&r->peer->net->import_lock);
	o = atomic_load(&r->route);
	if (o && o->forget)
		o->forget(r);
	pthread_mutex_unlock(&r->peer->net->import_lock);
	ln_peer_unref(r->peer);
	r->peer = NULL;
}

struct resolving {
	struct ln_rmem *r;
	int rc;
};

static bool resolved(void *arg)
{
	struct resolving *v = arg;

	if (atomic_load(&v->r->peer->state) == LN_PEER_DEAD)
		v->rc = LUNE_ERR_PEER;
	else
		v->rc = ln_rmem_route(v->r);
	return v->rc != LUNE_ERR_AGAIN;
}

int ln_rmem_resolve(struct ln_rmem *r, uint64_t deadline)
{
	struct resolving v = { r, LUNE_OK };
	int rc = ln_peer_connect_wait(r->peer, deadline);

	if (rc)
		return rc;
	rc = ln_net_wait(r->peer->net, resolved, &v, deadline);
	if (!rc && v.rc == LUNE_ERR_PEER)
		rc = ln_peer_error(r->peer, LUNE_ERR_PEER);
	return rc ? rc : v.rc;
}

void ln_rmem_route_text(const struct ln_rmem *r, char *out, size_t cap)
{
	const struct ln_net_ops *o = atomic_load(&r->route);

	if (o && o->route_text)
		o->route_text(r, out, cap);
	else
		snprintf(out, cap, "%s", o ? o->name : "");
}
