/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a death breaks, and waiting that notices it.  Who is dead is written in
 * the peer, by net, which also wakes all that wait.
 *
 * A collective fails on a member that waits for a dead one or has something
 * for it.  The others may deal with living ones only, so the member that fails
 * tells the members at distance 1, 2, 4, ... on both sides, and everybody who
 * is told for the first time does the same.  That takes log n hops and
 * n log n messages, and it goes round members that die meanwhile.
 *
 * Death is noticed on connections.  Who waits for a member without being
 * connected to it pings it after PING_MS; that connects, or finds it dead.
 *
 * Invariants
 *  1. comm->broken keeps its first code; broken_why is written before it.
 *  2. A collective that got all that it needs succeeds, whoever dies then.
 */
#include "rt/rt.h"

#define PING_MS 20

/* ---- breaking ----------------------------------------------------------- */

static void tell(lune_comm *comm, int code, int blamed)
{
	struct ln_msg m = {
		.chan = LN_CHAN_RT,
		.arg2 = (uint32_t)code,
		.arg3 = (uint64_t)LN_RT_BREAK << 56 | (uint32_t)blamed,
	};
	int n = comm->size;

	for (int d = 1; d < n; d *= 2) {
		int up = (comm->rank + d) % n, down = (comm->rank + n - d) % n;

		(void)ln_send(comm, up, &m);
		if (down != up)
			(void)ln_send(comm, down, &m);
	}
}

/* False: it was broken before. */
static bool mark(lune_comm *comm, int code, const char *why)
{
	bool first;

	pthread_mutex_lock(&comm->inbox.lock);
	first = !atomic_load(&comm->broken);
	if (first) {
		snprintf(comm->broken_why, sizeof(comm->broken_why), "%s",
			 why);
		/* Pairs with the load of who then reads broken_why. */
		atomic_store(&comm->broken, code);
	}
	pthread_mutex_unlock(&comm->inbox.lock);
	return first;
}

int ln_failure_break(lune_comm *comm, int code, int blamed)
{
	/* tell() may fail and record other sentences. */
	char why[192];

	snprintf(why, sizeof(why), "%.191s", lune_last_error());
	if (mark(comm, code, why)) {
		tell(comm, code, blamed);
		ln_net_event(comm->ctx->net);
	}
	return ln_error(code, "%s", why);
}

void ln_failure_told(lune_comm *comm, int from, int code, int blamed)
{
	char who[300], by[300], why[640];

	if (code >= 0)
		return;
	ln_comm_rank_text(comm, from, by, sizeof(by));
	ln_comm_rank_text(comm, blamed, who, sizeof(who));
	snprintf(why, sizeof(why), "%s: %s, says %s", who, lune_strerror(code),
		 by);
	if (!mark(comm, code, why))
		return;
	tell(comm, code, blamed);
	ln_net_event(comm->ctx->net);
}

int ln_failure_broken(lune_comm *comm)
{
	int code = atomic_load(&comm->broken);

	return ln_error(code, "%s", comm->broken_why);
}

/*
 * Nobody asks here who is dead: a member may have done its part of this very
 * collective, and left.  Whoever needs it will find out.
 */
int ln_failure_enter(lune_comm *comm, uint32_t *seq)
{
	if (comm->elastic)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"collectives need fixed members: make them of "
				"the living with lune_comm_shrink");
	if (atomic_load(&comm->broken))
		return ln_error(LUNE_ERR_PEER, "an earlier collective failed "
				"(%s); go on with lune_comm_shrink",
				comm->broken_why);
	*seq = (uint32_t)++comm->coll_seq;
	return LUNE_OK;
}

/* ---- waiting ------------------------------------------------------------ */

static bool settled(void *arg)
{
	const struct ln_wait *w = arg;
	/* Looked at first: what the dead sent before counts. */
	bool dead = w->rank >= 0 && ln_comm_dead(w->comm, w->rank);

	return w->ready(w->arg) || dead ||
	       (!w->unbreakable && atomic_load(&w->comm->broken));
}

int ln_failure_wait(const struct ln_wait *w, uint64_t deadline)
{
	struct ln_net *net = w->comm->ctx->net;
	void *arg = (void *)(uintptr_t)w;
	uint64_t soon = ln_now_ns() + PING_MS * 1000000u;
	int rc;

	if (w->rank < 0 || soon >= deadline)
		return ln_net_wait(net, settled, arg, deadline);
	rc = ln_net_wait(net, settled, arg, soon);
	if (rc != LUNE_ERR_TIMEOUT)
		return rc;
	ln_send_ping(w->comm, w->rank);
	return ln_net_wait(net, settled, arg, deadline);
}
