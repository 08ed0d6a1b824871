/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the embedded server.  A call takes an idle connection or makes
 * one, sends its request, reads the answer and gives the connection back; so
 * calls of several threads never wait for each other.  A connection on which
 * anything went wrong is closed, never reused: a late answer cannot be taken
 * for that of the next request.
 */
#include <unistd.h>

#include "meta/conn.h"

/* ---- one request over the endpoints ------------------------------------- */

/* What an answer is read into. */
struct answer {
	struct ln_meta_record *record; /* NULL: none is expected */
	struct ln_meta_list *list;     /* NULL: none is expected */
	uint64_t number;	       /* revision or lease of a STATUS */
};

static int status_of(const struct ln_meta_conn *c,
		     const struct ln_meta_frame *f, uint64_t *number)
{
	int code = (int)(int64_t)f->b;

	*number = f->a;
	if (!code)
		return 0;
	/* Only what a server may say; all else would confuse callers. */
	if (code != LUNE_ERR_CONFLICT && code != LUNE_ERR_NOTFOUND &&
	    code != LUNE_ERR_LIMIT && code != LUNE_ERR_COMPACTED &&
	    code != LUNE_ERR_INVAL && code != LUNE_ERR_NOMEM)
		code = LUNE_ERR_META;
	return ln_error(code, "metadata server %s: %.*s", c->name,
			(int)ln_min(f->value_len, 200u),
			(const char *)f->value);
}

static int record_of(const struct ln_meta_frame *f, struct ln_meta_record *r)
{
	int rc;

	rc = ln_meta_record_make(r, f->key, f->key_len, f->value,
				 f->value_len);
	if (rc)
		return rc;
	r->create_rev = f->a;
	r->mod_rev = f->b;
	return 0;
}

static int broken(const struct ln_meta_conn *c, const struct ln_meta_frame *f)
{
	return ln_error(LUNE_ERR_META, "%s: frame %u was not expected",
			c->name, f->type);
}

static int read_answer(struct ln_meta_conn *c, struct answer *a,
		       uint64_t until)
{
	struct ln_meta_frame f;
	struct ln_meta_record r;
	int rc;

	for (;;) {
		rc = ln_meta_conn_recv(c, until, &f);
		if (rc)
			return rc;
		if (f.type == LN_META_STATUS)
			return status_of(c, &f, &a->number);
		if (f.type == LN_META_END && a->list) {
			a->list->revision = f.a;
			return 0;
		}
		if (f.type != LN_META_RECORD || (!a->record && !a->list))
			return broken(c, &f);
		if (a->record)
			return record_of(&f, a->record);
		rc = record_of(&f, &r);
		if (!rc)
			rc = ln_meta_list_add(a->list, &r);
		if (rc)
			return rc;
	}
}

/* Whether the connection is in order after an answer with this code. */
static bool reusable(int rc)
{
	return !rc || rc == LUNE_ERR_CONFLICT || rc == LUNE_ERR_NOTFOUND ||
	       rc == LUNE_ERR_LIMIT;
}

static int attempt(struct ln_meta_try *t, const struct ln_meta_frame *q,
		   struct answer *a)
{
	struct ln_meta *m = t->m;
	struct ln_meta_conn *c;
	uint64_t until = ln_meta_try_until(t);
	int rc;

	for (;;) {
		c = ln_meta_idle_take(m);
		if (!c || (c->endpoint == t->endpoint &&
			   ln_meta_conn_alive(c)))
			break;
		ln_meta_conn_close(c);
	}
	rc = 0;
	if (!c)
		rc = ln_meta_conn_open(m, t->endpoint, until, &c);
	if (rc)
		return rc;
	rc = ln_meta_conn_send(c, q, until);
	if (!rc)
		rc = read_answer(c, a, until);
	if (!reusable(rc) || !ln_meta_idle_give(m, c))
		ln_meta_conn_close(c);
	/* Whatever broke after this point may have been done. */
	if (rc == LUNE_ERR_META)
		t->sent = true;
	return rc;
}

static int request(struct ln_meta *m, const struct ln_meta_frame *q,
		   struct answer *a, uint64_t deadline, bool *repeated)
{
	struct ln_meta_try t;
	int rc;

	ln_meta_try_init(&t, m, deadline);
	for (;;) {
		if (repeated)
			*repeated = t.sent;
		rc = attempt(&t, q, a);
		if (rc != LUNE_ERR_META)
			break;
		/* A list begins anew. */
		if (a->list)
			ln_meta_list_fini(a->list);
		if (!ln_meta_try_again(&t))
			return rc;
	}
	if (rc != LUNE_ERR_AUTH)
		ln_meta_try_done(&t);
	return rc;
}

static struct ln_meta_frame make(uint8_t type, const char *key)
{
	struct ln_meta_frame f = { .type = type, .key = key };

	f.key_len = key ? strlen(key) : 0;
	return f;
}

/* ---- the table ---------------------------------------------------------- */

static int embedded_open(struct ln_meta *m)
{
	(void)m;
	return 0;
}

static void embedded_close(struct ln_meta *m)
{
	struct ln_meta_conn *c;

	while ((c = ln_meta_idle_take(m)))
		ln_meta_conn_close(c);
}

static int embedded_get(struct ln_meta *m, const char *key, uint64_t deadline,
			struct ln_meta_record *out)
{
	struct ln_meta_frame f = make(LN_META_GET, key);
	struct answer a = { .record = out };

	return request(m, &f, &a, deadline, NULL);
}

static int embedded_list(struct ln_meta *m, const char *prefix,
			 uint64_t deadline, struct ln_meta_list *out)
{
	struct ln_meta_frame f = make(LN_META_LIST, prefix);
	struct answer a = { .list = out };

	return request(m, &f, &a, deadline, NULL);
}

static int embedded_put(struct ln_meta *m, struct ln_meta_change *c,
			uint64_t deadline)
{
	struct ln_meta_frame f = make(LN_META_PUT, c->key);
	struct answer a = { 0 };
	int rc;

	f.value = c->value;
	f.value_len = c->value_len;
	f.a = c->lease;
	f.flag = c->compare;
	f.b = c->expect;
	rc = request(m, &f, &a, deadline, &c->repeated);
	c->rev = a.number;
	return rc;
}

static int embedded_del(struct ln_meta *m, struct ln_meta_change *c,
			uint64_t deadline)
{
	struct ln_meta_frame f = make(LN_META_DELETE, c->key);
	struct answer a = { 0 };

	f.flag = c->compare;
	f.b = c->expect;
	return request(m, &f, &a, deadline, &c->repeated);
}

static int embedded_lease_open(struct ln_meta *m, int ttl_ms,
			       uint64_t deadline, uint64_t *out)
{
	struct ln_meta_frame f = make(LN_META_LEASE_OPEN, NULL);
	struct answer a = { 0 };
	int rc;

	f.a = (uint64_t)ttl_ms;
	rc = request(m, &f, &a, deadline, NULL);
	if (!rc)
		*out = a.number;
	return rc;
}

static int embedded_lease_keep(struct ln_meta *m, uint64_t lease,
			       uint64_t deadline)
{
	struct ln_meta_frame f = make(LN_META_LEASE_KEEP, NULL);
	struct answer a = { 0 };

	f.a = lease;
	return request(m, &f, &a, deadline, NULL);
}

static int embedded_lease_close(struct ln_meta *m, uint64_t lease,
				uint64_t deadline)
{
	struct ln_meta_frame f = make(LN_META_LEASE_CLOSE, NULL);
	struct answer a = { 0 };
	bool repeated;
	int rc;

	f.a = lease;
	rc = request(m, &f, &a, deadline, &repeated);
	return rc == LUNE_ERR_NOTFOUND && repeated ? 0 : rc;
}

/* ---- watches ------------------------------------------------------------ */

static int subscribe(struct ln_meta_watch *w, struct ln_meta_conn *c)
{
	struct ln_meta_frame f = make(LN_META_WATCH, w->prefix);
	struct answer a = { 0 };
	uint64_t until = ln_now_ns() + 10000000000ull;
	int rc;

	f.a = w->next_rev;
	f.b = w->store_id;
	rc = ln_meta_conn_send(c, &f, until);
	if (!rc)
		rc = read_answer(c, &a, until);
	if (!rc)
		w->store_id = c->store_id;
	return rc;
}

static int follow(struct ln_meta_watch *w, struct ln_meta_conn *c)
{
	struct ln_meta_event e;
	struct ln_meta_frame f;
	uint64_t rev, number;
	int rc;

	for (;;) {
		rc = ln_meta_conn_recv(c, LN_NEVER, &f);
		if (rc)
			return rc;
		if (f.type == LN_META_STATUS)
			rc = status_of(c, &f, &number);
		if (f.type != LN_META_RECORD)
			return rc ? rc : broken(c, &f);
		rc = record_of(&f, &e.record);
		if (rc)
			return rc;
		e.deleted = f.flag;
		rev = f.b;
		rc = ln_meta_watch_push(w, &e);
		if (rc)
			return rc;
		w->next_rev = ln_max(w->next_rev, rev + 1);
	}
}

static int embedded_watch_run(struct ln_meta_watch *w, size_t endpoint)
{
	struct ln_meta_conn *c;
	int rc;

	rc = ln_meta_conn_open_for(w->m, &w->stop, endpoint,
				   ln_now_ns() + 5000000000ull, &c);
	if (rc)
		return rc;
	rc = subscribe(w, c);
	if (!rc)
		rc = follow(w, c);
	ln_meta_conn_close(c);
	return rc;
}

const struct ln_meta_ops ln_meta_embedded_ops = {
	.scheme = "lune",
	.default_port = "7420",
	.open = embedded_open,
	.close = embedded_close,
	.get = embedded_get,
	.list = embedded_list,
	.put = embedded_put,
	.del = embedded_del,
	.lease_open = embedded_lease_open,
	.lease_keep = embedded_lease_keep,
	.lease_close = embedded_lease_close,
	.watch_run = embedded_watch_run,
};
