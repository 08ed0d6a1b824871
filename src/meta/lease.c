/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of one client, kept alive by one thread of its own, so that neither
 * a slow call nor a busy application can cost a lease.
 *
 *	opened --keep every ttl/3--> ... --close--> (revoked, forgotten)
 *	           |
 *	           no answer for a ttl, or "no such lease" --> lost
 *
 * Invariants
 * 1. After a keepalive, `expires` is the start of the answered attempt plus the
 *    ttl: the service cannot have ended the lease before that.
 * 2. lost is called once, by the keeper, without the lock.  Lease_close waits
 *    for a call in progress, except when it is made from the call itself.
 * 3. A lost lease stays in the list, so that puts with it are refused, and is
 *    revoked when the service is reached again: it may still live there.
 */
#include <errno.h>
#include <utlist.h>

#include "meta/internal.h"

#define NS_PER_MS 1000000ull
#define LEASES_MAX 4096
/* How soon an attempt that was not answered is made again. */
#define RETRY_MS 200

struct ln_meta_lease {
	uint64_t id;
	uint64_t ttl_ns;
	uint64_t expires; /* when the service may have ended it */
	uint64_t next;	  /* when the keeper looks at it again */
	bool lost, revoked;
	void (*lost_fn)(void *arg, uint64_t lease);
	void *arg;
	struct ln_meta_lease *prev, *next_in_list;
};

static struct ln_meta_lease *find(struct ln_meta *m, uint64_t id)
{
	struct ln_meta_lease *l;

	DL_FOREACH2(m->leases, l, next_in_list) {
		if (l->id == id)
			return l;
	}
	return NULL;
}

bool ln_meta_lease_is_lost(struct ln_meta *m, uint64_t lease)
{
	struct ln_meta_lease *l;
	bool lost;

	pthread_mutex_lock(&m->lock);
	l = find(m, lease);
	lost = l && l->lost;
	pthread_mutex_unlock(&m->lock);
	return lost;
}

/* ---- the keeper --------------------------------------------------------- */

/* Called and returns with the lock held; *l may be gone afterwards. */
static void declare_lost(struct ln_meta *m, struct ln_meta_lease *l,
			 bool revoked)
{
	void (*fn)(void *, uint64_t) = l->lost_fn;
	void *arg = l->arg;
	uint64_t id = l->id;

	l->lost = true;
	l->revoked = revoked;
	l->next = ln_now_ns() + l->ttl_ns / 3;
	m->calling = id;
	pthread_mutex_unlock(&m->lock);
	ln_warn("lease %016llx was lost: %s", (unsigned long long)id,
		lune_last_error());
	if (fn)
		fn(arg, id);
	pthread_mutex_lock(&m->lock);
	m->calling = 0;
	pthread_cond_broadcast(&m->leases_changed);
}

/* A lost lease that may still live in the service: take it back. */
static void revoke_lost(struct ln_meta *m, struct ln_meta_lease *l)
{
	uint64_t id = l->id;
	uint64_t until = ln_now_ns() + RETRY_MS * NS_PER_MS;
	int rc;

	l->next = ln_now_ns() + l->ttl_ns / 3;
	pthread_mutex_unlock(&m->lock);
	rc = m->ops->lease_close(m, id, until);
	pthread_mutex_lock(&m->lock);
	l = find(m, id);
	if (l && (!rc || rc == LUNE_ERR_NOTFOUND))
		l->revoked = true;
}

/* Called and returns with the lock held. */
static void keep(struct ln_meta *m, struct ln_meta_lease *l)
{
	uint64_t id = l->id, begun = ln_now_ns();
	uint64_t until = ln_min(l->expires, begun + l->ttl_ns / 3);
	int rc;

	pthread_mutex_unlock(&m->lock);
	rc = m->ops->lease_keep(m, id, until);
	pthread_mutex_lock(&m->lock);
	l = find(m, id);
	if (!l)
		return;
	if (!rc) {
		l->expires = begun + l->ttl_ns;
		l->next = begun + l->ttl_ns / 3;
		return;
	}
	if (atomic_load(&m->stop.on))
		return;
	if (rc == LUNE_ERR_NOTFOUND || ln_deadline_passed(l->expires)) {
		declare_lost(m, l, rc == LUNE_ERR_NOTFOUND);
		return;
	}
	l->next = ln_min(ln_now_ns() + RETRY_MS * NS_PER_MS, l->expires);
}

/* The lease to look at next; those that are done are never. */
static struct ln_meta_lease *soonest(struct ln_meta *m)
{
	struct ln_meta_lease *l, *best = NULL;

	DL_FOREACH2(m->leases, l, next_in_list) {
		if (l->lost && l->revoked)
			continue;
		if (!best || l->next < best->next)
			best = l;
	}
	return best;
}

static void *keeper(void *arg)
{
	struct ln_meta *m = arg;
	struct ln_meta_lease *l;

	pthread_mutex_lock(&m->lock);
	while (!atomic_load(&m->stop.on)) {
		l = soonest(m);
		if (!l || !ln_deadline_passed(l->next))
			ln_meta_cond_wait(&m->leases_changed, &m->lock,
					  l ? l->next : LN_NEVER);
		else if (l->lost)
			revoke_lost(m, l);
		else
			keep(m, l);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* With the lock held. */
static int start_keeper(struct ln_meta *m)
{
	int rc;

	if (m->keeper_runs)
		return 0;
	rc = pthread_create(&m->keeper, NULL, keeper, m);
	if (rc) {
		errno = rc;
		return ln_error_errno(LUNE_ERR_SYSTEM, "no thread for leases");
	}
	m->keeper_runs = true;
	return 0;
}

void ln_meta_lease_stop(struct ln_meta *m)
{
	struct ln_meta_lease *l, *tmp;
	bool runs;

	pthread_mutex_lock(&m->lock);
	runs = m->keeper_runs;
	pthread_cond_broadcast(&m->leases_changed);
	pthread_mutex_unlock(&m->lock);
	if (runs)
		pthread_join(m->keeper, NULL);
	DL_FOREACH_SAFE2(m->leases, l, tmp, next_in_list)
		ln_free(l);
	m->leases = NULL;
}

/* ---- opening and closing ------------------------------------------------ */

/* With the lock held: make room for, and the thread of, one more lease. */
static int prepare(struct ln_meta *m)
{
	struct ln_meta_lease *l;
	int count = 0;

	DL_COUNT2(m->leases, l, count, next_in_list);
	if (count >= LEASES_MAX)
		return ln_error(LUNE_ERR_LIMIT, "%d leases are open", count);
	return start_keeper(m);
}

int ln_meta_lease_open(struct ln_meta *m, int ttl_ms,
		       void (*lost)(void *arg, uint64_t lease), void *arg,
		       uint64_t deadline, uint64_t *out)
{
	uint64_t begun = ln_now_ns(), now;
	struct ln_meta_lease *l;
	int rc;

	if (ttl_ms < 1000)
		return ln_error(LUNE_ERR_INVAL,
				"a lease of %d ms, at least 1000 are needed",
				ttl_ms);
	l = ln_calloc(1, sizeof(*l));
	if (!l)
		return LUNE_ERR_NOMEM;
	pthread_mutex_lock(&m->lock);
	rc = prepare(m);
	pthread_mutex_unlock(&m->lock);
	if (!rc)
		rc = m->ops->lease_open(m, ttl_ms, deadline, &l->id);
	if (rc) {
		ln_free(l);
		return rc;
	}
	l->lost_fn = lost;
	l->arg = arg;
	l->ttl_ns = (uint64_t)ttl_ms * NS_PER_MS;
	/* After a slow answer nobody knows how old it is: keep it at once. */
	now = ln_now_ns();
	l->expires = now + l->ttl_ns;
	l->next = ln_max(now, begun + l->ttl_ns / 3);
	*out = l->id;
	pthread_mutex_lock(&m->lock);
	DL_APPEND2(m->leases, l, prev, next_in_list);
	pthread_cond_broadcast(&m->leases_changed);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

/* Forget the lease; true when it was known and is to be revoked. */
static bool forget(struct ln_meta *m, uint64_t lease)
{
	struct ln_meta_lease *l;
	bool self, live;

	pthread_mutex_lock(&m->lock);
	self = m->keeper_runs && pthread_equal(pthread_self(), m->keeper);
	while (m->calling == lease && !self)
		ln_meta_cond_wait(&m->leases_changed, &m->lock, LN_NEVER);
	l = find(m, lease);
	live = !l || !l->lost;
	if (l)
		DL_DELETE2(m->leases, l, prev, next_in_list);
	pthread_mutex_unlock(&m->lock);
	ln_free(l);
	return live;
}

int ln_meta_lease_close(struct ln_meta *m, uint64_t lease, uint64_t deadline)
{
	int rc;
	bool live;

	if (!lease)
		return ln_error(LUNE_ERR_INVAL, "no lease");
	live = forget(m, lease);
	rc = m->ops->lease_close(m, lease, deadline);
	if (rc == LUNE_ERR_META && !live)
		return LUNE_ERR_NOTFOUND;
	return rc;
}
