/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing: which transports, the card, and the order of things.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "net/link.h"

static const struct ln_net_ops *const all_ops[] = {
	&ln_net_self,
	&ln_net_shm,
	&ln_net_tcp,
};

/* Is `name` in the comma separated list? */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	while (*list) {
		size_t len = strcspn(list, ",");

		if (len == n && !memcmp(list, name, n))
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

static int transport_open(struct ln_net *net, const struct ln_net_ops *o,
			  int *n)
{
	char why[256] = "";
	int rc;

	if (!listed(net->conf->transports, o->name) && o != &ln_net_self)
		return LUNE_OK;
	if (o->probe && o->probe(net, why, sizeof(why))) {
		ln_info("transport %s is not used: %s", o->name, why);
		return LUNE_OK;
	}
	rc = o->open(net, &net->card);
	if (rc)
		return ln_error_prefix(rc, "transport %s", o->name);
	net->ops[(*n)++] = o;
	return LUNE_OK;
}

static int transports_open(struct ln_net *net)
{
	int n = 0, rc = LUNE_OK;

	/* Same-node peers meet at this socket if shm is among the allowed. */
	if (listed(net->conf->transports, "shm"))
		rc = ln_listen_unix(net, &net->card);
	for (size_t i = 0; !rc && i < LN_ARRAY_SIZE(all_ops); i++)
		rc = transport_open(net, all_ops[i], &n);
	return rc;
}

static int card_make(struct ln_net *net)
{
	struct ln_card *c = &net->card;
	struct timespec ts;
	int rc = ln_uuid_make(&c->uuid);

	if (rc)
		return rc;
	clock_gettime(CLOCK_REALTIME, &ts);
	c->incarnation = (uint64_t)ts.tv_sec * 1000000000u +
			 (uint64_t)ts.tv_nsec;
	c->node[0] = net->topo->node[0];
	c->node[1] = net->topo->node[1];
	c->pid = (int32_t)getpid();
	snprintf(c->host, sizeof(c->host), "%.63s", net->topo->host);
	snprintf(c->node_name, sizeof(c->node_name), "%.63s",
		 net->topo->node_name);
	return LUNE_OK;
}

/* Takes back what open did, as far as it came; no thread runs. */
static void net_free(struct ln_net *net)
{
	for (int i = 0; net->ops[i]; i++)
		if (net->ops[i]->close)
			net->ops[i]->close(net);
	if (net->engine) {
		ln_listen_close(net);
		ln_engine_close(net);
	}
	ln_peers_close(net);
	pthread_mutex_destroy(&net->import_lock);
	ln_free(net);
}

int ln_net_open(const struct ln_net_opts *o, struct ln_net **out)
{
	struct ln_net *net = ln_alloc_aligned(LN_CACHELINE, sizeof(*net));
	int rc;

	if (!net)
		return LUNE_ERR_NOMEM;
	net->conf = o->conf;
	net->topo = o->topo;
	net->mem = o->mem;
	net->counters = o->counters;
	memcpy(net->key, o->key, sizeof(net->key));
	net->manual = o->manual;
	net->cb = o->cb;
	net->bell = &net->bell_own;
	net->evfd = -1;
	net->last_beat = ln_now_ns();
	pthread_mutex_init(&net->import_lock, NULL);
	rc = card_make(net);
	if (!rc)
		rc = ln_peers_open(net);
	if (!rc)
		rc = ln_engine_open(net);
	if (!rc)
		rc = ln_listen_open(net);
	if (!rc)
		rc = transports_open(net);
	if (!rc)
		rc = ln_card_pack(&net->card, net->card_packed,
				  sizeof(net->card_packed), &net->card_bytes);
	if (!rc)
		rc = ln_engine_start(net);
	if (rc) {
		net_free(net);
		return rc;
	}
	*out = net;
	return LUNE_OK;
}

static void peer_bye(struct ln_peer *p, void *arg)
{
	(void)arg;
	ln_link_bye(p);
}

/* Own goodbye: what is in flight ends as canceled, without a warning. */
static void peer_end(struct ln_peer *p, void *arg)
{
	(void)arg;
	p->link->said_bye = true;
	ln_peer_die(p, LUNE_ERR_CANCELED, "closed here");
}

struct draining {
	struct ln_net *net;
	bool busy;
};

static void peer_busy(struct ln_peer *p, void *arg)
{
	struct draining *d = arg;

	/* Also while it is being connected to: somebody waits for that. */
	if (atomic_load(&p->state) != LN_PEER_DEAD &&
	    atomic_load(&p->posted) != atomic_load(&p->finished))
		d->busy = true;
}

static bool drained(void *arg)
{
	struct draining *d = arg;

	d->busy = false;
	ln_peers_each(d->net, peer_busy, d);
	return !d->busy;
}

void ln_net_close(struct ln_net *net, uint64_t deadline)
{
	struct draining d = { .net = net };

	if (!net)
		return;
	ln_net_wait(net, drained, &d, deadline);
	atomic_store(&net->closing, true);
	ln_engine_stop(net);
	/* From here on this thread is the poller. */
	net->cb.peer_down = NULL;
	ln_peers_each(net, peer_bye, NULL);
	ln_peers_each(net, peer_end, NULL);
	net_free(net);
}

const struct ln_card *ln_net_card(const struct ln_net *net)
{
	return &net->card;
}

/* ---- release ------------------------------------------------------------- */

struct fencing {
	struct ln_net *net;
	struct ln_region *r;
};

static bool fenced(void *arg)
{
	struct fencing *f = arg;

	return atomic_load(&f->r->users) == 0;
}

int ln_net_fence_region(struct ln_net *net, struct ln_region *r,
			uint64_t deadline)
{
	struct fencing f = { net, r };
	int rc;

	/* Sweeping drops what streams hold of it; nothing new can come. */
	if (!fenced(&f)) {
		ln_engine_sweep(net);
		rc = ln_net_wait(net, fenced, &f, deadline);
		if (rc)
			return ln_error(rc, "an access to the region is "
					    "still under way");
	}
	for (int i = 0; net->ops[i]; i++) {
		rc = net->ops[i]->fence
			     ? net->ops[i]->fence(net, r, deadline)
			     : LUNE_OK;
		if (rc)
			return rc;
	}
	return LUNE_OK;
}

/* ---- fork ---------------------------------------------------------------- */

static void peer_forked(struct ln_peer *p)
{
	for (int i = 0; i < LN_STREAMS_MAX; i++)
		if (p->link->streams[i])
			close(p->link->streams[i]->watch.fd);
}

void ln_net_forked(struct ln_net *net)
{
	ln_peers_forked(net, peer_forked);
	ln_listen_forked(net);
	ln_engine_forked(net);
}
