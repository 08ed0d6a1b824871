/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd v3 through its JSON gateway.  A call takes an idle connection or makes
 * one, like the embedded client.  Conditions are transactions: compare the
 * revision of the key's creation (0: there is none) or of its last change.
 * Lists are read in pages at one revision, so that no answer is unbounded.
 */
#include <sodium.h>

#include "meta/etcd.h"
#include "meta/etcd_json.h"

#define PAGE_RECORDS 256

/* ---- base64 ------------------------------------------------------------- */

void ln_etcd_key64(const void *p, size_t n, char out[LN_ETCD_KEY64])
{
	sodium_bin2base64(out, LN_ETCD_KEY64, p, n,
			  sodium_base64_VARIANT_ORIGINAL);
}

/*
 * The range of a prefix ends before the prefix with its last byte one higher;
 * etcd takes a zero byte for the first key, and as an end for "no end".
 */
void ln_etcd_prefix64(const char *prefix, char from[LN_ETCD_KEY64],
		      char to[LN_ETCD_KEY64])
{
	size_t n = strlen(prefix);
	char end[LN_META_KEY_MAX + 1];

	ln_etcd_key64(prefix, n ? n : 1, from);
	memcpy(end, prefix, n + 1);
	while (n && (uint8_t)end[n - 1] == 0xff)
		n--;
	if (n)
		end[n - 1]++;
	else
		end[n++] = 0;
	ln_etcd_key64(end, n, to);
}

static char *value64(const void *p, size_t n)
{
	size_t cap = sodium_base64_ENCODED_LEN(n,
					       sodium_base64_VARIANT_ORIGINAL);
	char *s = ln_malloc(cap);

	if (s)
		sodium_bin2base64(s, cap, p, n, sodium_base64_VARIANT_ORIGINAL);
	return s;
}

/* ---- one request over the endpoints ------------------------------------- */

struct call {
	const char *path;
	const char *body;
	uint64_t deadline;
	bool *repeated; /* NULL: the caller does not care */
	/* Takes what is needed from the answer. */
	int (*parse)(const char *p, size_t n, void *out);
	void *out;
};

static int attempt(struct ln_meta_try *t, const struct call *c)
{
	struct ln_etcd_request r = { .path = c->path, .body = c->body,
				     .until = ln_meta_try_until(t),
				     .stop = t->stop };
	struct ln_meta *m = t->m;
	struct ln_etcd_http *h;
	int rc = 0;

	while ((h = ln_meta_idle_take(m)) && h->endpoint != t->endpoint)
		ln_etcd_http_close(h);
	if (!h)
		rc = ln_etcd_http_open(m, t->endpoint, &h);
	if (rc)
		return rc;
	rc = ln_etcd_http_post(h, &r, &t->sent);
	if (!rc && c->parse)
		rc = c->parse(h->answer ? h->answer : "", h->len, c->out);
	if (rc == LUNE_ERR_PROTO)
		rc = ln_error_prefix(LUNE_ERR_META, "%s", h->name);
	/* What failed may hold a connection that hangs. */
	if (rc == LUNE_ERR_META || !ln_meta_idle_give(m, h))
		ln_etcd_http_close(h);
	return rc;
}

static int request(struct ln_meta *m, const struct call *c)
{
	struct ln_meta_try t;
	int rc;

	if (!c->body)
		return LUNE_ERR_NOMEM;
	ln_meta_try_init(&t, m, c->deadline);
	for (;;) {
		if (c->repeated)
			*c->repeated = t.sent;
		rc = attempt(&t, c);
		if (rc != LUNE_ERR_META)
			break;
		if (!ln_meta_try_again(&t))
			return rc;
	}
	ln_meta_try_done(&t);
	return rc;
}

/* ---- reading ------------------------------------------------------------ */

static int parse_range(const char *p, size_t n, void *out)
{
	return ln_meta_etcd_parse_range(p, n, out);
}

static int etcd_get(struct ln_meta *m, const char *key, uint64_t deadline,
		    struct ln_meta_record *out)
{
	struct ln_meta_etcd_range r;
	struct call c = { .path = "kv/range", .deadline = deadline,
			  .parse = parse_range, .out = &r };
	char k[LN_ETCD_KEY64], body[LN_ETCD_KEY64 + 32];
	int rc;

	ln_etcd_key64(key, strlen(key), k);
	snprintf(body, sizeof(body), "{\"key\":\"%s\"}", k);
	c.body = body;
	rc = request(m, &c);
	if (rc)
		return rc;
	if (!r.list.count)
		rc = ln_error(LUNE_ERR_NOTFOUND, "\"%s\" does not exist", key);
	if (!rc) {
		*out = r.list.records[0];
		memset(&r.list.records[0], 0, sizeof(*out));
	}
	ln_meta_list_fini(&r.list);
	return rc;
}

/* Move the records of a page to the end of the list. */
static int append(struct ln_meta_list *l, struct ln_meta_list *page)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < page->count; i++) {
		rc = ln_meta_list_add(l, &page->records[i]);
		memset(&page->records[i], 0, sizeof(page->records[i]));
	}
	ln_meta_list_fini(page);
	return rc;
}

/* The next page begins right behind the last key. */
static void next_page(const struct ln_meta_list *l, char from[LN_ETCD_KEY64])
{
	const char *last = l->records[l->count - 1].key;

	ln_etcd_key64(last, strlen(last) + 1, from);
}

static int list_once(struct ln_meta *m, const char *prefix, uint64_t deadline,
		     struct ln_meta_list *out)
{
	struct ln_meta_etcd_range r = { .more = true };
	char from[LN_ETCD_KEY64], to[LN_ETCD_KEY64];
	char body[2 * LN_ETCD_KEY64 + 128];
	struct call c = { .path = "kv/range", .deadline = deadline,
			  .parse = parse_range, .out = &r, .body = body };
	int rc = 0;

	ln_etcd_prefix64(prefix, from, to);
	while (!rc && r.more) {
		snprintf(body, sizeof(body),
			 "{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"%d\""
			 ",\"revision\":\"%llu\"}", from, to, PAGE_RECORDS,
			 (unsigned long long)out->revision);
		rc = request(m, &c);
		if (rc)
			break;
		if (!out->revision)
			out->revision = r.head.revision;
		r.more = r.more && r.list.count;
		rc = append(out, &r.list);
		if (!rc && r.more)
			next_page(out, from);
	}
	return rc;
}

static int etcd_list(struct ln_meta *m, const char *prefix, uint64_t deadline,
		     struct ln_meta_list *out)
{
	int rc;

	/* Compacted between two pages: begin anew. */
	while ((rc = list_once(m, prefix, deadline, out)) ==
		       LUNE_ERR_COMPACTED &&
	       !ln_deadline_passed(deadline))
		ln_meta_list_fini(out);
	return rc;
}

/* ---- changing ----------------------------------------------------------- */

static int parse_change(const char *p, size_t n, void *out)
{
	return ln_meta_etcd_parse_change(p, n, out);
}

static int send_change(struct ln_meta *m, struct ln_meta_change *c,
		       char *body, uint64_t deadline,
		       struct ln_meta_etcd_change *out)
{
	struct call call = { .body = body, .deadline = deadline,
			     .repeated = &c->repeated,
			     .parse = parse_change, .out = out };
	int rc;

	if (c->compare)
		call.path = "kv/txn";
	else
		call.path = c->value ? "kv/put" : "kv/deleterange";
	rc = request(m, &call);
	if (!rc)
		c->rev = out->head.revision;
	ln_free(body);
	return rc;
}

/* The transaction around a request: `do` when the revision is expected. */
static char *make_txn(const struct ln_meta_change *c, const char *k,
		      const char *what, const char *request_body)
{
	const char *target = c->expect ? "MOD" : "CREATE";
	const char *field = c->expect ? "mod_revision" : "create_revision";

	return ln_asprintf("{\"compare\":[{\"key\":\"%s\",\"target\":\"%s\","
			   "\"%s\":\"%llu\"}],\"success\":[{\"%s\":%s}],"
			   "\"failure\":[{\"request_range\":{\"key\":\"%s\","
			   "\"keys_only\":true}}]}",
			   k, target, field, (unsigned long long)c->expect,
			   what, request_body, k);
}

static int conflict(const struct ln_meta_change *c)
{
	return ln_error(LUNE_ERR_CONFLICT, "\"%s\" is not at revision %llu",
			c->key, (unsigned long long)c->expect);
}

static char *put_body(const struct ln_meta_change *c)
{
	char k[LN_ETCD_KEY64], *value, *put = NULL, *txn = NULL;

	ln_etcd_key64(c->key, strlen(c->key), k);
	value = value64(c->value, c->value_len);
	if (value)
		put = ln_asprintf("{\"key\":\"%s\",\"value\":\"%s\","
				  "\"lease\":\"%llu\"}", k, value,
				  (unsigned long long)c->lease);
	ln_free(value);
	if (!c->compare || !put)
		return put;
	txn = make_txn(c, k, "request_put", put);
	ln_free(put);
	return txn;
}

static int etcd_put(struct ln_meta *m, struct ln_meta_change *c,
		    uint64_t deadline)
{
	struct ln_meta_etcd_change out;
	int rc;

	/* What is put is told from what is deleted by its value. */
	if (!c->value)
		c->value = "";
	rc = send_change(m, c, put_body(c), deadline, &out);
	if (!rc && c->compare && !out.succeeded)
		rc = conflict(c);
	return rc;
}

static int etcd_del(struct ln_meta *m, struct ln_meta_change *c,
		    uint64_t deadline)
{
	struct ln_meta_etcd_change out;
	char k[LN_ETCD_KEY64], *del, *body;
	int rc;

	ln_etcd_key64(c->key, strlen(c->key), k);
	del = ln_asprintf("{\"key\":\"%s\"}", k);
	body = del;
	if (c->compare && del) {
		body = make_txn(c, k, "request_delete_range", del);
		ln_free(del);
	}
	rc = send_change(m, c, body, deadline, &out);
	if (!rc && c->compare && !out.succeeded && out.found)
		return conflict(c);
	if (!rc && !out.deleted)
		rc = ln_error(LUNE_ERR_NOTFOUND, "\"%s\" does not exist",
			      c->key);
	return rc;
}

/* ---- leases ------------------------------------------------------------- */

static int parse_lease(const char *p, size_t n, void *out)
{
	return ln_meta_etcd_parse_lease(p, n, out);
}

static int etcd_lease_open(struct ln_meta *m, int ttl_ms, uint64_t deadline,
			   uint64_t *out)
{
	struct ln_meta_etcd_lease l;
	char body[64];
	struct call c = { .path = "lease/grant", .deadline = deadline,
			  .parse = parse_lease, .out = &l, .body = body };
	int rc;

	snprintf(body, sizeof(body), "{\"TTL\":\"%d\"}",
		 ttl_ms / 1000 + (ttl_ms % 1000 > 0));
	rc = request(m, &c);
	if (!rc)
		*out = l.id;
	return rc;
}

static int etcd_lease_keep(struct ln_meta *m, uint64_t lease,
			   uint64_t deadline)
{
	struct ln_meta_etcd_lease l;
	char body[64];
	struct call c = { .path = "lease/keepalive", .deadline = deadline,
			  .parse = parse_lease, .out = &l, .body = body };
	int rc;

	snprintf(body, sizeof(body), "{\"ID\":\"%llu\"}",
		 (unsigned long long)lease);
	rc = request(m, &c);
	if (!rc && !l.ttl_s)
		rc = ln_error(LUNE_ERR_NOTFOUND, "etcd has no lease %016llx",
			      (unsigned long long)lease);
	return rc;
}

static int etcd_lease_close(struct ln_meta *m, uint64_t lease,
			    uint64_t deadline)
{
	bool repeated;
	char body[64];
	struct call c = { .path = "lease/revoke", .deadline = deadline,
			  .repeated = &repeated, .body = body };
	int rc;

	snprintf(body, sizeof(body), "{\"ID\":\"%llu\"}",
		 (unsigned long long)lease);
	rc = request(m, &c);
	return rc == LUNE_ERR_NOTFOUND && repeated ? 0 : rc;
}

/* ---- the table ---------------------------------------------------------- */

static int etcd_open(struct ln_meta *m)
{
	(void)m;
	return 0;
}

static void etcd_close(struct ln_meta *m)
{
	struct ln_etcd_http *h;

	while ((h = ln_meta_idle_take(m)))
		ln_etcd_http_close(h);
}

const struct ln_meta_ops ln_meta_etcd_ops = {
	.scheme = "etcd",
	.default_port = "2379",
	.open = etcd_open,
	.close = etcd_close,
	.get = etcd_get,
	.list = etcd_list,
	.put = etcd_put,
	.del = etcd_del,
	.lease_open = etcd_lease_open,
	.lease_keep = etcd_lease_keep,
	.lease_close = etcd_lease_close,
	.watch_run = ln_etcd_watch_run,
};
