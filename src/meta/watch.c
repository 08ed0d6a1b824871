/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch: one thread that follows the store through the backend and a queue
 * from which watch_next takes.  When a connection breaks, the thread connects
 * again, from the first revision that it has not delivered, so that nothing is
 * lost or told twice.
 *
 * Invariants
 * 1. next_rev belongs to the thread.  Events in the queue are older.
 * 2. The queue holds at most QUEUE_BYTES (or one event): then the thread does
 *    not read on and TCP holds the server back.
 * 3. A status ends the watch only after all queued events were taken.
 */
#include <errno.h>
#include <utlist.h>

#include "meta/internal.h"

#define QUEUE_BYTES (16u << 20)
#define BACKOFF_FIRST_MS 20
#define BACKOFF_MAX_MS 1000

struct ln_meta_queued {
	struct ln_meta_event event;
	size_t bytes;
	struct ln_meta_queued *prev, *next;
};

static void drop(struct ln_meta_queued *q)
{
	ln_meta_record_fini(&q->event.record);
	ln_free(q);
}

int ln_meta_watch_push(struct ln_meta_watch *w, struct ln_meta_event *e)
{
	struct ln_meta_queued *q;
	int rc = 0;

	if (e->record.mod_rev < w->next_rev) {
		ln_meta_record_fini(&e->record);
		return 0;
	}
	q = ln_calloc(1, sizeof(*q));
	if (!q) {
		ln_meta_record_fini(&e->record);
		return LUNE_ERR_NOMEM;
	}
	q->event = *e;
	q->bytes = sizeof(*q) + strlen(e->record.key) + e->record.value_len;
	pthread_mutex_lock(&w->lock);
	while (w->queued_bytes > QUEUE_BYTES && !w->closed)
		ln_meta_cond_wait(&w->changed, &w->lock, LN_NEVER);
	if (w->closed) {
		rc = LUNE_ERR_CANCELED;
	} else {
		DL_APPEND(w->queue, q);
		w->queued_bytes += q->bytes;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	if (rc)
		drop(q);
	return rc;
}

/* ---- the thread --------------------------------------------------------- */

static bool is_final(int rc)
{
	return rc == LUNE_ERR_COMPACTED || rc == LUNE_ERR_AUTH ||
	       rc == LUNE_ERR_NOMEM || rc == LUNE_ERR_INVAL ||
	       rc == LUNE_ERR_LIMIT;
}

static void end(struct ln_meta_watch *w, int rc)
{
	pthread_mutex_lock(&w->lock);
	w->status = rc;
	snprintf(w->error, sizeof(w->error), "%s", lune_last_error());
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

/* Where calls are answered, else the next in turn. */
static size_t next_endpoint(const struct ln_meta *m, size_t at)
{
	size_t hint = atomic_load_explicit(&m->endpoint, memory_order_relaxed);

	return hint != at ? hint : (at + 1) % m->endpoint_count;
}

static void *follow(void *arg)
{
	struct ln_meta_watch *w = arg;
	struct ln_meta *m = w->m;
	size_t at = atomic_load_explicit(&m->endpoint, memory_order_relaxed);
	uint64_t begun, before;
	int ms = BACKOFF_FIRST_MS, rc;

	while (!atomic_load(&w->stop.on)) {
		begun = ln_now_ns();
		before = w->next_rev;
		rc = m->ops->watch_run(w, at);
		if (atomic_load(&w->stop.on))
			break;
		if (is_final(rc)) {
			end(w, rc);
			break;
		}
		/* A connection that was of use for a while is no failure. */
		if (w->next_rev != before ||
		    ln_now_ns() - begun > 1000000000ull)
			ms = BACKOFF_FIRST_MS;
		ln_info("watch of \"%s\" connects again: %s", w->prefix,
			lune_last_error());
		if (ln_meta_pause(&w->stop, ms))
			break;
		ms = ln_min(2 * ms, BACKOFF_MAX_MS);
		at = next_endpoint(m, at);
	}
	return NULL;
}

/* ---- the caller's side -------------------------------------------------- */

static int init_watch(struct ln_meta_watch *w)
{
	int rc;

	rc = ln_meta_stop_init(&w->stop);
	if (rc)
		return rc;
	pthread_mutex_init(&w->lock, NULL);
	rc = ln_meta_cond_init(&w->changed);
	if (rc)
		goto no_cond;
	rc = pthread_create(&w->thread, NULL, follow, w);
	if (rc) {
		errno = rc;
		rc = ln_error_errno(LUNE_ERR_SYSTEM, "no thread for a watch");
		goto no_thread;
	}
	return 0;
no_thread:
	pthread_cond_destroy(&w->changed);
no_cond:
	pthread_mutex_destroy(&w->lock);
	ln_meta_stop_fini(&w->stop);
	return rc;
}

int ln_meta_watch_open(struct ln_meta *m, const char *prefix,
		       uint64_t from_rev, struct ln_meta_watch **out)
{
	struct ln_meta_watch *w;
	int rc = LUNE_ERR_NOMEM;

	if (!prefix || !from_rev || from_rev > INT64_MAX)
		return ln_error(LUNE_ERR_INVAL,
				"a watch needs a prefix and a revision");
	if (strlen(m->prefix) + strlen(prefix) > LN_META_KEY_MAX)
		return ln_error(LUNE_ERR_LIMIT, "prefix longer than %d bytes",
				LN_META_KEY_MAX);
	w = ln_calloc(1, sizeof(*w));
	if (!w)
		return rc;
	w->m = m;
	w->next_rev = from_rev;
	w->prefix = ln_asprintf("%s%s", m->prefix, prefix);
	if (w->prefix)
		rc = init_watch(w);
	if (rc) {
		ln_free(w->prefix);
		ln_free(w);
		return rc;
	}
	*out = w;
	return 0;
}

/* With the lock held: take the first event. */
static struct ln_meta_queued *take(struct ln_meta_watch *w)
{
	struct ln_meta_queued *q = w->queue;

	DL_DELETE(w->queue, q);
	w->queued_bytes -= q->bytes;
	pthread_cond_broadcast(&w->changed);
	return q;
}

static void unprefix(const struct ln_meta_watch *w, struct ln_meta_record *r)
{
	size_t n = strlen(w->m->prefix);

	if (n && !strncmp(r->key, w->m->prefix, n))
		memmove(r->key, r->key + n, strlen(r->key + n) + 1);
}

int ln_meta_watch_next(struct ln_meta_watch *w, uint64_t deadline,
		       struct ln_meta_event *out)
{
	struct ln_meta_queued *q = NULL;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	w->waiting++;
	while (!w->queue && !w->status && !w->closed) {
		if (!ln_meta_cond_wait(&w->changed, &w->lock, deadline))
			break;
	}
	if (w->closed)
		rc = ln_error(LUNE_ERR_CLOSED, "the watch was closed");
	else if (w->queue)
		q = take(w);
	else if (w->status)
		rc = ln_error(w->status, "%s", w->error);
	else
		rc = ln_error(LUNE_ERR_TIMEOUT, "no change under \"%s\"",
			      w->prefix);
	w->waiting--;
	/* Close may wait for the last of us: w is not ours after this. */
	pthread_cond_broadcast(&w->changed);
	if (q)
		unprefix(w, &q->event.record);
	pthread_mutex_unlock(&w->lock);
	if (q) {
		*out = q->event;
		ln_free(q);
	}
	return rc;
}

void ln_meta_watch_close(struct ln_meta_watch *w)
{
	struct ln_meta_queued *q, *tmp;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->closed = true;
	pthread_cond_broadcast(&w->changed);
	while (w->waiting)
		ln_meta_cond_wait(&w->changed, &w->lock, LN_NEVER);
	pthread_mutex_unlock(&w->lock);
	ln_meta_stop_raise(&w->stop);
	pthread_join(w->thread, NULL);
	DL_FOREACH_SAFE(w->queue, q, tmp)
		drop(q);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	ln_meta_stop_fini(&w->stop);
	ln_free(w->prefix);
	ln_free(w);
}
