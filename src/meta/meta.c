/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client as callers see it: URLs, limits and prefixes are checked and
 * resolved here, so that a backend only ever sees whole, valid keys.
 *
 * A put or delete whose connection broke after it was sent may or may not
 * have been done.  It is sent again, and when the second attempt is refused
 * because of what the first one did, that is recognised here and counts as
 * success: the record holds exactly what was to be written (two clients that
 * write the same bytes at the same moment cannot be told apart), or is gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "meta/internal.h"

static const struct ln_meta_ops *const backends[] = {
	&ln_meta_embedded_ops,
#ifdef HAVE_ETCD
	&ln_meta_etcd_ops,
#endif
};

/* ---- small things that the backends share ------------------------------- */

int ln_meta_stop_init(struct ln_meta_stop *s)
{
	atomic_init(&s->on, false);
	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->fd < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "eventfd");
	return 0;
}

void ln_meta_stop_raise(struct ln_meta_stop *s)
{
	uint64_t one = 1;
	ssize_t n;

	atomic_store(&s->on, true);
	/* Cannot fail but for a full counter, which is readable as well. */
	do
		n = write(s->fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

void ln_meta_stop_fini(struct ln_meta_stop *s)
{
	close(s->fd);
}

int ln_meta_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t a;
	int rc;

	rc = pthread_condattr_init(&a);
	if (!rc) {
		pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
		rc = pthread_cond_init(c, &a);
		pthread_condattr_destroy(&a);
	}
	return rc ? ln_error(LUNE_ERR_SYSTEM, "no condition variable") : 0;
}

bool ln_meta_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock,
		       uint64_t deadline)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};

	if (deadline == LN_NEVER)
		return !pthread_cond_wait(c, lock);
	return pthread_cond_timedwait(c, lock, &ts) != ETIMEDOUT;
}

void *ln_meta_idle_take(struct ln_meta *m)
{
	void *c = NULL;

	pthread_mutex_lock(&m->lock);
	if (m->idle_count)
		c = m->idle[--m->idle_count];
	pthread_mutex_unlock(&m->lock);
	return c;
}

bool ln_meta_idle_give(struct ln_meta *m, void *connection)
{
	bool room;

	pthread_mutex_lock(&m->lock);
	room = m->idle_count < LN_META_IDLE_MAX;
	if (room)
		m->idle[m->idle_count++] = connection;
	pthread_mutex_unlock(&m->lock);
	return room;
}

int ln_meta_record_make(struct ln_meta_record *r, const char *key,
			size_t key_len, const void *value, size_t value_len)
{
	memset(r, 0, sizeof(*r));
	r->key = ln_malloc(key_len + 1);
	r->value = ln_malloc(value_len + 1);
	if (!r->key || !r->value) {
		ln_meta_record_fini(r);
		return LUNE_ERR_NOMEM;
	}
	memcpy(r->key, key, key_len);
	r->key[key_len] = 0;
	if (value_len)
		memcpy(r->value, value, value_len);
	r->value[value_len] = 0;
	r->value_len = value_len;
	return 0;
}

void ln_meta_record_fini(struct ln_meta_record *r)
{
	ln_free(r->key);
	ln_free(r->value);
	memset(r, 0, sizeof(*r));
}

int ln_meta_list_add(struct ln_meta_list *l, struct ln_meta_record *r)
{
	struct ln_meta_record *more;
	size_t cap = 16;

	/* Room grows by doubling: there is some unless count is a power. */
	if (l->count >= LN_META_RECORDS_MAX) {
		ln_meta_record_fini(r);
		return ln_error(LUNE_ERR_LIMIT, "more than %u records listed",
				LN_META_RECORDS_MAX);
	}
	if (!l->count || (l->count >= 16 && !(l->count & (l->count - 1)))) {
		cap = ln_max(cap, 2 * l->count);
		more = ln_realloc_array(l->records, cap, sizeof(*more));
		if (!more) {
			ln_meta_record_fini(r);
			return LUNE_ERR_NOMEM;
		}
		l->records = more;
	}
	l->records[l->count++] = *r;
	return 0;
}

void ln_meta_list_fini(struct ln_meta_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		ln_meta_record_fini(&l->records[i]);
	ln_free(l->records);
	memset(l, 0, sizeof(*l));
}

/* ---- opening ------------------------------------------------------------ */

/* One "host[:port]" or "[v6][:port]" of n bytes. */
static int parse_endpoint(struct ln_meta *m, const char *s, size_t n)
{
	struct ln_meta_endpoint *e = &m->endpoints[m->endpoint_count];
	const char *host = s, *end = s + n, *close, *port = NULL;
	size_t host_len, port_len;

	if (m->endpoint_count == LN_META_ENDPOINTS_MAX)
		return ln_error(LUNE_ERR_LIMIT, "more than %d endpoints",
				LN_META_ENDPOINTS_MAX);
	if (n && *s == '[') {
		host = s + 1;
		close = memchr(s, ']', n);
		if (!close)
			return LUNE_ERR_INVAL;
		host_len = (size_t)(close - host);
		if (close + 1 < end)
			port = close + 1;
	} else {
		close = memchr(s, ':', n);
		host_len = close ? (size_t)(close - s) : n;
		port = close;
	}
	if (port && *port != ':')
		return LUNE_ERR_INVAL;
	port_len = port ? (size_t)(end - port) - 1 : 0;
	if (port && !port_len)
		return LUNE_ERR_INVAL;
	port = port ? port + 1 : m->ops->default_port;
	port_len = port_len ? port_len : strlen(port);
	if (!host_len || host_len >= sizeof(e->host) || port_len > 5 ||
	    strspn(port, "0123456789") < port_len)
		return LUNE_ERR_INVAL;
	memcpy(e->host, host, host_len);
	memcpy(e->port, port, port_len);
	if (atoi(e->port) < 1 || atoi(e->port) > 65535)
		return LUNE_ERR_INVAL;
	m->endpoint_count++;
	return 0;
}

static int parse_endpoints(struct ln_meta *m, const char *s, size_t n)
{
	const char *end = s + n, *comma;
	int rc = 0;

	while (!rc) {
		comma = memchr(s, ',', (size_t)(end - s));
		rc = parse_endpoint(m, s, (size_t)((comma ? comma : end) - s));
		if (!comma)
			break;
		s = comma + 1;
	}
	return rc;
}

/*
 * The path becomes the prefix "path/".  A query is for others (bootstrap
 * URLs carry the size of the world there) and is not looked at.
 */
static int parse_url(struct ln_meta *m, const char *rest)
{
	size_t hosts = strcspn(rest, "/?"), path;
	int rc;

	rc = parse_endpoints(m, rest, hosts);
	if (rc)
		return rc;
	rest += hosts;
	rest += strspn(rest, "/");
	path = strcspn(rest, "?");
	while (path && rest[path - 1] == '/')
		path--;
	if (path > LN_META_KEY_MAX / 2)
		return ln_error(LUNE_ERR_LIMIT, "path longer than %d bytes",
				LN_META_KEY_MAX / 2);
	m->prefix = ln_asprintf("%.*s%s", (int)path, rest, path ? "/" : "");
	return m->prefix ? 0 : LUNE_ERR_NOMEM;
}

static int choose_backend(struct ln_meta *m, const char *url,
			  const char **rest)
{
	const char *colon = strstr(url, "://");

	for (size_t i = 0; colon && i < LN_ARRAY_SIZE(backends); i++) {
		size_t n = strlen(backends[i]->scheme);

		if (n == (size_t)(colon - url) &&
		    !strncmp(url, backends[i]->scheme, n)) {
			m->ops = backends[i];
			*rest = colon + 3;
			return 0;
		}
	}
	if (colon && !strncmp(url, "etcd://", 7))
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"this build has no etcd: \"%s\"", url);
	return ln_error(LUNE_ERR_INVAL,
			"metadata URL \"%s\" is not etcd://... or lune://...",
			url);
}

static int init_locks(struct ln_meta *m)
{
	int rc;

	pthread_mutex_init(&m->lock, NULL);
	rc = ln_meta_cond_init(&m->leases_changed);
	if (rc)
		goto no_cond;
	rc = ln_meta_stop_init(&m->stop);
	if (rc)
		goto no_stop;
	return 0;
no_stop:
	pthread_cond_destroy(&m->leases_changed);
no_cond:
	pthread_mutex_destroy(&m->lock);
	return rc;
}

static void fini_locks(struct ln_meta *m)
{
	ln_meta_stop_fini(&m->stop);
	pthread_cond_destroy(&m->leases_changed);
	pthread_mutex_destroy(&m->lock);
}

int ln_meta_open(const char *url, struct ln_meta **out)
{
	struct ln_meta *m;
	const char *rest = url;
	int rc;

	if (!url)
		return ln_error(LUNE_ERR_INVAL, "no metadata URL");
	m = ln_calloc(1, sizeof(*m));
	if (!m)
		return LUNE_ERR_NOMEM;
	rc = choose_backend(m, url, &rest);
	if (rc)
		goto free_client;
	rc = parse_url(m, rest);
	if (rc == LUNE_ERR_INVAL)
		ln_error(rc, "metadata URL \"%s\": no list of host:port", url);
	if (rc)
		goto free_client;
	rc = init_locks(m);
	if (rc)
		goto free_client;
	rc = m->ops->open(m);
	if (rc)
		goto fini;
	*out = m;
	return 0;
fini:
	fini_locks(m);
free_client:
	ln_free(m->prefix);
	ln_free(m);
	return rc;
}

void ln_meta_close(struct ln_meta *m)
{
	if (!m)
		return;
	ln_meta_stop_raise(&m->stop);
	ln_meta_lease_stop(m);
	m->ops->close(m);
	fini_locks(m);
	ln_free(m->prefix);
	ln_free(m);
}

void ln_meta_set_key(struct ln_meta *m, const uint8_t *key)
{
	pthread_mutex_lock(&m->lock);
	m->has_key = key != NULL;
	if (key)
		memcpy(m->key, key, sizeof(m->key));
	else
		memset(m->key, 0, sizeof(m->key));
	pthread_mutex_unlock(&m->lock);
}

/* ---- calls -------------------------------------------------------------- */

/* The whole key in a caller's buffer; a prefix to list may be empty. */
static int whole(const struct ln_meta *m, const char *key, bool is_prefix,
		 char out[LN_META_KEY_MAX + 1])
{
	size_t a = strlen(m->prefix), b;

	if (!key || (!*key && !is_prefix))
		return ln_error(LUNE_ERR_INVAL, "a record needs a key");
	b = strlen(key);
	if (a + b > LN_META_KEY_MAX)
		return ln_error(LUNE_ERR_LIMIT,
				"key of %zu bytes, %d are allowed: %.60s...",
				a + b, LN_META_KEY_MAX, key);
	memcpy(out, m->prefix, a);
	memcpy(out + a, key, b + 1);
	return 0;
}

/* Take the prefix of the URL off a record's key again. */
static void strip(const struct ln_meta *m, struct ln_meta_record *r)
{
	size_t n = strlen(m->prefix);

	if (n && !strncmp(r->key, m->prefix, n))
		memmove(r->key, r->key + n, strlen(r->key + n) + 1);
}

int ln_meta_get(struct ln_meta *m, const char *key, uint64_t deadline,
		struct ln_meta_record *out)
{
	char k[LN_META_KEY_MAX + 1];
	int rc;

	rc = whole(m, key, false, k);
	if (!rc)
		rc = m->ops->get(m, k, deadline, out);
	if (!rc)
		strip(m, out);
	return rc;
}

int ln_meta_list(struct ln_meta *m, const char *prefix, uint64_t deadline,
		 struct ln_meta_list *out)
{
	struct ln_meta_list l = { 0 };
	char k[LN_META_KEY_MAX + 1];
	int rc;

	rc = whole(m, prefix, true, k);
	if (!rc)
		rc = m->ops->list(m, k, deadline, &l);
	if (rc) {
		ln_meta_list_fini(&l);
		return rc;
	}
	for (size_t i = 0; i < l.count; i++)
		strip(m, &l.records[i]);
	*out = l;
	return 0;
}

/* Whether the record is what an earlier attempt of this put has written. */
static bool put_was_done(struct ln_meta *m, struct ln_meta_change *c,
			 uint64_t deadline)
{
	struct ln_meta_record r;
	bool same;

	if (!c->repeated || m->ops->get(m, c->key, deadline, &r))
		return false;
	same = r.value_len == c->value_len && r.mod_rev != c->expect &&
	       (!c->value_len || !memcmp(r.value, c->value, r.value_len));
	c->rev = r.mod_rev;
	ln_meta_record_fini(&r);
	return same;
}

static int change(struct ln_meta *m, struct ln_meta_change *c,
		  const struct ln_meta_put *p, uint64_t deadline)
{
	char k[LN_META_KEY_MAX + 1];
	int rc;

	rc = whole(m, p->key, false, k);
	if (rc)
		return rc;
	if (p->value_len > LN_META_VALUE_MAX)
		return ln_error(LUNE_ERR_LIMIT,
				"value of %zu bytes for \"%s\", %d are allowed",
				p->value_len, p->key, LN_META_VALUE_MAX);
	if (p->value_len && !p->value)
		return ln_error(LUNE_ERR_INVAL, "no value for \"%s\"", p->key);
	if (p->lease && ln_meta_lease_is_lost(m, p->lease))
		return ln_error(LUNE_ERR_NOTFOUND,
				"lease %016llx of \"%s\" was lost",
				(unsigned long long)p->lease, p->key);
	c->key = k;
	c->value = p->value;
	c->value_len = p->value_len;
	c->lease = p->lease;
	rc = m->ops->put(m, c, deadline);
	if (rc == LUNE_ERR_CONFLICT && put_was_done(m, c, deadline))
		rc = 0;
	c->key = NULL;
	return rc;
}

int ln_meta_put(struct ln_meta *m, const struct ln_meta_put *p,
		uint64_t deadline)
{
	struct ln_meta_change c = { .compare = false };

	return change(m, &c, p, deadline);
}

int ln_meta_cas(struct ln_meta *m, const struct ln_meta_put *p,
		uint64_t expect, uint64_t deadline, uint64_t *out_rev)
{
	struct ln_meta_change c = { .compare = true, .expect = expect };
	int rc;

	rc = change(m, &c, p, deadline);
	if (!rc && out_rev)
		*out_rev = c.rev;
	return rc;
}

int ln_meta_delete(struct ln_meta *m, const char *key, uint64_t expect,
		   uint64_t deadline)
{
	struct ln_meta_change c = { .compare = expect, .expect = expect };
	char k[LN_META_KEY_MAX + 1];
	int rc;

	rc = whole(m, key, false, k);
	if (rc)
		return rc;
	c.key = k;
	rc = m->ops->del(m, &c, deadline);
	if (rc == LUNE_ERR_NOTFOUND && c.repeated)
		rc = 0;
	return rc;
}
