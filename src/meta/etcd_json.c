/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of etcd's JSON gateway.  Numbers of 64 bits are strings there, keys
 * and values are base64, and whatever is zero, false or empty is left out; so
 * a missing member is its zero, and a member of another type is an error.
 */
#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>

#include "meta/etcd_json.h"
#include "meta/internal.h"

/* gRPC status codes that say something about the call, not the service. */
enum { GRPC_INVALID = 3, GRPC_NOT_FOUND = 5, GRPC_DENIED = 7,
       GRPC_EXHAUSTED = 8, GRPC_OUT_OF_RANGE = 11, GRPC_UNAUTHENTICATED = 16 };

static int malformed(const char *what)
{
	return ln_error(LUNE_ERR_PROTO, "etcd's answer is malformed: %s", what);
}

/* The answer as an object; what is behind "result" when there is one. */
static json_t *load(const char *p, size_t n)
{
	json_t *root;

	root = json_loadb(p, n, 0, NULL);
	if (!root || !json_is_object(root)) {
		json_decref(root);
		malformed("not a JSON object");
		return NULL;
	}
	return root;
}

static const json_t *result_of(const json_t *root)
{
	const json_t *r = json_object_get(root, "result");

	return json_is_object(r) ? r : root;
}

/* ---- members ------------------------------------------------------------ */

static int get_number(const json_t *o, const char *name, uint64_t *out)
{
	const json_t *v = json_object_get(o, name);
	const char *s = json_string_value(v);
	unsigned long long n;
	char *end;

	*out = 0;
	if (!v)
		return 0;
	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		*out = (uint64_t)json_integer_value(v);
		return 0;
	}
	if (!s || *s < '0' || *s > '9')
		return malformed(name);
	errno = 0;
	n = strtoull(s, &end, 10);
	if (errno || *end || n > INT64_MAX)
		return malformed(name);
	*out = n;
	return 0;
}

static int get_bool(const json_t *o, const char *name, bool *out)
{
	const json_t *v = json_object_get(o, name);

	*out = json_is_true(v);
	return !v || json_is_boolean(v) ? 0 : malformed(name);
}

static int get_head(const json_t *o, struct ln_meta_etcd_head *out)
{
	const json_t *h = json_object_get(o, "header");
	int rc;

	if (!json_is_object(h))
		return malformed("header");
	rc = get_number(h, "revision", &out->revision);
	return rc ? rc : get_number(h, "raft_term", &out->term);
}

/* An array that may be missing: its length is 0 then. */
static int get_array(const json_t *o, const char *name, const json_t **out)
{
	*out = json_object_get(o, name);
	return !*out || json_is_array(*out) ? 0 : malformed(name);
}

/* Decode into a buffer with a NUL behind; the buffer is the caller's. */
static int get_bytes(const json_t *o, const char *name, size_t max,
		     uint8_t **out, size_t *len)
{
	const json_t *v = json_object_get(o, name);
	size_t n = json_string_length(v), cap = n / 4 * 3;
	uint8_t *p;

	if (v && !json_is_string(v))
		return malformed(name);
	if (cap > max + 2)
		return malformed("a key or value beyond the limits");
	p = ln_malloc(cap + 1);
	if (!p)
		return LUNE_ERR_NOMEM;
	*len = 0;
	if (n && sodium_base642bin(p, cap, json_string_value(v), n, NULL, len,
				   NULL, sodium_base64_VARIANT_ORIGINAL)) {
		ln_free(p);
		return malformed(name);
	}
	if (*len > max) {
		ln_free(p);
		return malformed("a key or value beyond the limits");
	}
	p[*len] = 0;
	*out = p;
	return 0;
}

/* ---- records ------------------------------------------------------------ */

static int get_record(const json_t *kv, struct ln_meta_record *out)
{
	struct ln_meta_record r = { 0 };
	uint8_t *key = NULL;
	size_t key_len;
	int rc;

	if (!json_is_object(kv))
		return malformed("kv");
	rc = get_number(kv, "create_revision", &r.create_rev);
	if (!rc)
		rc = get_number(kv, "mod_revision", &r.mod_rev);
	if (!rc)
		rc = get_bytes(kv, "key", LN_META_KEY_MAX, &key, &key_len);
	if (rc)
		return rc;
	r.key = (char *)key;
	if (!key_len || memchr(key, 0, key_len))
		rc = malformed("key");
	if (!rc)
		rc = get_bytes(kv, "value", LN_META_VALUE_MAX, &r.value,
			       &r.value_len);
	if (rc) {
		ln_free(key);
		return rc;
	}
	*out = r;
	return 0;
}

static int get_list(const json_t *o, struct ln_meta_list *out)
{
	struct ln_meta_record r;
	const json_t *kvs;
	int rc;

	rc = get_array(o, "kvs", &kvs);
	for (size_t i = 0; !rc && i < json_array_size(kvs); i++) {
		rc = get_record(json_array_get(kvs, i), &r);
		if (!rc)
			rc = ln_meta_list_add(out, &r);
	}
	return rc;
}

int ln_meta_etcd_parse_range(const char *p, size_t n,
			     struct ln_meta_etcd_range *out)
{
	struct ln_meta_etcd_range r = { 0 };
	json_t *root;
	int rc;

	root = load(p, n);
	if (!root)
		return LUNE_ERR_PROTO;
	rc = get_head(root, &r.head);
	if (!rc)
		rc = get_bool(root, "more", &r.more);
	if (!rc)
		rc = get_list(root, &r.list);
	json_decref(root);
	if (rc) {
		ln_meta_list_fini(&r.list);
		return rc;
	}
	r.list.revision = r.head.revision;
	*out = r;
	return 0;
}

/* ---- changes ------------------------------------------------------------ */

/* What the one request in a transaction was answered. */
static int get_response(const json_t *root, struct ln_meta_etcd_change *c)
{
	const json_t *all, *one, *part, *kvs;
	int rc;

	rc = get_array(root, "responses", &all);
	if (rc || !all)
		return rc;
	one = json_array_get(all, 0);
	part = json_object_get(one, "response_delete_range");
	rc = part ? get_number(part, "deleted", &c->deleted) : 0;
	part = json_object_get(one, "response_range");
	if (rc || !part)
		return rc;
	rc = get_array(part, "kvs", &kvs);
	c->found = json_array_size(kvs) > 0;
	return rc;
}

int ln_meta_etcd_parse_change(const char *p, size_t n,
			      struct ln_meta_etcd_change *out)
{
	struct ln_meta_etcd_change c = { 0 };
	json_t *root;
	int rc;

	root = load(p, n);
	if (!root)
		return LUNE_ERR_PROTO;
	rc = get_head(root, &c.head);
	if (!rc)
		rc = get_number(root, "deleted", &c.deleted);
	if (!rc)
		rc = get_bool(root, "succeeded", &c.succeeded);
	if (!rc)
		rc = get_response(root, &c);
	json_decref(root);
	if (!rc)
		*out = c;
	return rc;
}

int ln_meta_etcd_parse_lease(const char *p, size_t n,
			     struct ln_meta_etcd_lease *out)
{
	struct ln_meta_etcd_lease l;
	json_t *root;
	int rc;

	root = load(p, n);
	if (!root)
		return LUNE_ERR_PROTO;
	rc = get_number(result_of(root), "ID", &l.id);
	if (!rc)
		rc = get_number(result_of(root), "TTL", &l.ttl_s);
	if (!rc && !l.id)
		rc = malformed("ID");
	json_decref(root);
	if (!rc)
		*out = l;
	return rc;
}

/* ---- watches ------------------------------------------------------------ */

void ln_meta_etcd_news_fini(struct ln_meta_etcd_news *n)
{
	for (size_t i = 0; i < n->count; i++)
		ln_meta_record_fini(&n->events[i].record);
	ln_free(n->events);
	n->events = NULL;
	n->count = 0;
}

static int get_event(const json_t *o, struct ln_meta_event *out)
{
	const json_t *type = json_object_get(o, "type");
	const char *name = type ? json_string_value(type) : "PUT";

	if (!name || (strcmp(name, "PUT") != 0 && strcmp(name, "DELETE") != 0))
		return malformed("type of an event");
	out->deleted = !strcmp(name, "DELETE");
	return get_record(json_object_get(o, "kv"), &out->record);
}

static int get_events(const json_t *o, struct ln_meta_etcd_news *n)
{
	const json_t *all;
	size_t count;
	int rc;

	rc = get_array(o, "events", &all);
	count = json_array_size(all);
	if (rc || !count)
		return rc;
	n->events = ln_calloc(count, sizeof(*n->events));
	if (!n->events)
		return LUNE_ERR_NOMEM;
	for (size_t i = 0; !rc && i < count; i++) {
		rc = get_event(json_array_get(all, i), &n->events[i]);
		n->count += !rc;
	}
	return rc;
}

static int get_news(const json_t *o, struct ln_meta_etcd_news *n)
{
	const char *why;
	int rc;

	rc = get_head(o, &n->head);
	if (!rc)
		rc = get_bool(o, "created", &n->created);
	if (!rc)
		rc = get_bool(o, "canceled", &n->canceled);
	if (!rc)
		rc = get_number(o, "compact_revision", &n->compacted);
	why = json_string_value(json_object_get(o, "cancel_reason"));
	snprintf(n->why, sizeof(n->why), "%s", why ? why : "");
	return rc ? rc : get_events(o, n);
}

int ln_meta_etcd_parse_news(const char *p, size_t n,
			    struct ln_meta_etcd_news *out)
{
	struct ln_meta_etcd_news news = { 0 };
	json_t *root;
	int rc;

	root = load(p, n);
	if (!root)
		return LUNE_ERR_PROTO;
	if (json_is_object(json_object_get(root, "result")))
		rc = get_news(result_of(root), &news);
	else
		rc = malformed("no result in a watch");
	json_decref(root);
	if (rc) {
		ln_meta_etcd_news_fini(&news);
		return rc;
	}
	*out = news;
	return 0;
}

/* ---- errors ------------------------------------------------------------- */

static int code_of(uint64_t grpc, const char *why)
{
	switch (grpc) {
	case GRPC_NOT_FOUND:
		return LUNE_ERR_NOTFOUND;
	case GRPC_OUT_OF_RANGE:
		return LUNE_ERR_COMPACTED;
	case GRPC_INVALID:
		return strstr(why, "too large") ? LUNE_ERR_LIMIT
						: LUNE_ERR_INVAL;
	case GRPC_EXHAUSTED:
		/* The other reason, too many requests, passes by itself. */
		return strstr(why, "space exceeded") ? LUNE_ERR_LIMIT
						     : LUNE_ERR_META;
	case GRPC_DENIED:
	case GRPC_UNAUTHENTICATED:
		return LUNE_ERR_AUTH;
	default:
		return LUNE_ERR_META;
	}
}

int ln_meta_etcd_parse_error(const char *p, size_t n, char *why,
			     size_t why_bytes)
{
	json_t *root = json_loadb(p, n, 0, NULL);
	const json_t *e = json_object_get(root, "error");
	const char *text = json_string_value(e);
	uint64_t grpc = 0;
	int code;

	/* Inside a stream the error is an object of its own. */
	if (json_is_object(e)) {
		text = json_string_value(json_object_get(e, "message"));
		if (get_number(e, "grpc_code", &grpc))
			grpc = 0;
	} else if (get_number(root, "code", &grpc)) {
		grpc = 0;
	}
	text = text ? text : "the answer is not that of an etcd v3 gateway";
	snprintf(why, why_bytes, "%s", text);
	code = code_of(grpc, text);
	json_decref(root);
	return code;
}
