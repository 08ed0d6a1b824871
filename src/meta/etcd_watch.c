/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch of etcd: one POST whose answer does not end, a JSON object a line.
 *
 * Before each connection a linearizable read asks for the store's revision.
 * One lower than what this watch has seen means that the data was wiped, and
 * so does an older raft term; without this, etcd would silently wait for the
 * revision to come again.  (A store that was wiped and has overtaken the old
 * one within its first term cannot be told from it.)
 */
#include "meta/etcd.h"
#include "meta/etcd_json.h"

#define CHECK_NS 5000000000ull

static int wiped(const struct ln_meta_watch *w,
		 const struct ln_meta_etcd_head *head)
{
	if (head->revision + 1 < w->next_rev)
		return ln_error(LUNE_ERR_COMPACTED,
				"etcd is at revision %llu, %llu was seen: "
				"its data was wiped",
				(unsigned long long)head->revision,
				(unsigned long long)w->next_rev - 1);
	if (head->term < w->store_id)
		return ln_error(LUNE_ERR_COMPACTED,
				"etcd is at term %llu, %llu was seen: "
				"its data was wiped",
				(unsigned long long)head->term,
				(unsigned long long)w->store_id);
	return 0;
}

static int check_store(struct ln_meta_watch *w, struct ln_etcd_http *h,
		       const char *from)
{
	struct ln_meta_etcd_range range;
	char body[LN_ETCD_KEY64 + 64];
	struct ln_etcd_request r = { .path = "kv/range", .body = body,
				     .stop = &w->stop,
				     .until = ln_now_ns() + CHECK_NS };
	int rc;

	snprintf(body, sizeof(body), "{\"key\":\"%s\",\"count_only\":true}",
		 from);
	rc = ln_etcd_http_post(h, &r, NULL);
	if (!rc)
		rc = ln_meta_etcd_parse_range(h->answer ? h->answer : "",
					      h->len, &range);
	if (rc)
		return rc == LUNE_ERR_PROTO ? LUNE_ERR_META : rc;
	ln_meta_list_fini(&range.list);
	rc = wiped(w, &range.head);
	w->store_id = range.head.term;
	return rc;
}

/* Hand the events on; those that are left when it fails stay in *n. */
static int push_all(struct ln_meta_watch *w, struct ln_meta_etcd_news *n)
{
	uint64_t last = w->next_rev - 1;
	int rc = 0;

	for (size_t i = 0; !rc && i < n->count; i++) {
		last = ln_max(last, n->events[i].record.mod_rev);
		rc = ln_meta_watch_push(w, &n->events[i]);
		memset(&n->events[i], 0, sizeof(n->events[i]));
	}
	/* Only now: several events may be of one revision. */
	if (!rc)
		w->next_rev = last + 1;
	return rc;
}

static int on_line(void *arg, const char *p, size_t bytes)
{
	struct ln_meta_watch *w = arg;
	struct ln_meta_etcd_news n;
	char why[200];
	int rc;

	rc = ln_meta_etcd_parse_news(p, bytes, &n);
	if (rc == LUNE_ERR_PROTO && strstr(p, "\"error\"")) {
		rc = ln_meta_etcd_parse_error(p, bytes, why, sizeof(why));
		return ln_error(rc, "watch: %s", why);
	}
	if (rc)
		return rc == LUNE_ERR_PROTO ? LUNE_ERR_META : rc;
	if (n.canceled && n.compacted)
		rc = ln_error(LUNE_ERR_COMPACTED,
			      "revision %llu was compacted, %llu is kept",
			      (unsigned long long)w->next_rev,
			      (unsigned long long)n.compacted);
	else if (n.canceled)
		rc = ln_error(LUNE_ERR_META, "etcd ended the watch: %s", n.why);
	else if (n.count)
		rc = push_all(w, &n);
	else if (!n.created && n.head.revision >= w->next_rev)
		/* Progress: all up to this revision was told. */
		w->next_rev = n.head.revision + 1;
	ln_meta_etcd_news_fini(&n);
	return rc;
}

static int stream(struct ln_meta_watch *w, struct ln_etcd_http *h,
		  const char *from, const char *to)
{
	char body[2 * LN_ETCD_KEY64 + 160];
	struct ln_etcd_request r = { .path = "watch", .body = body,
				     .stop = &w->stop, .until = LN_NEVER,
				     .stay = &w->m->endpoint };
	int rc;

	snprintf(body, sizeof(body),
		 "{\"create_request\":{\"key\":\"%s\",\"range_end\":\"%s\","
		 "\"start_revision\":\"%llu\",\"progress_notify\":true}}",
		 from, to, (unsigned long long)w->next_rev);
	h->line = on_line;
	h->arg = w;
	rc = ln_etcd_http_post(h, &r, NULL);
	return rc ? rc : ln_error(LUNE_ERR_META, "%s ended the watch", h->name);
}

int ln_etcd_watch_run(struct ln_meta_watch *w, size_t endpoint)
{
	char from[LN_ETCD_KEY64], to[LN_ETCD_KEY64];
	struct ln_etcd_http *h;
	int rc;

	ln_etcd_prefix64(w->prefix, from, to);
	rc = ln_etcd_http_open(w->m, endpoint, &h);
	if (rc)
		return rc;
	rc = check_store(w, h, from);
	if (!rc) {
		atomic_store(&w->m->endpoint, endpoint);
		rc = stream(w, h, from, to);
	}
	ln_etcd_http_close(h);
	return rc;
}
