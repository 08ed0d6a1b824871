/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the embedded server: its handshake, its requests, and what it
 * is told.
 *
 *	connected --PROOF--> welcome --request--> answering --sent--> welcome
 *	                        '-----WATCH-----> watching (until it closes)
 *
 * Invariants
 * 1. While an answer is being sent no further request is read: what a client
 *    can make us hold is one frame in, and OUT_BYTES and a frame out.
 * 2. A list is a snapshot: references taken at once, sent as there is room.
 * 3. A watch keeps no queue, only the revision it comes to next.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meta/server.h"

#define IN_FIRST 1024
#define OUT_BYTES (256u << 10)
/* An empty buffer that is larger than this is given back. */
#define KEEP_BYTES (64u << 10)
/* Buffers double up to here. */
#define GROW_BYTES (2u << 20)
#define PROOF_BYTES (LN_META_NONCE_BYTES + LN_MAC_BYTES)

static void drop(struct ln_meta_session *c, const char *why)
{
	ln_info("metadata server drops a client: %s", why);
	c->dead = true;
}

/* ---- buffers ------------------------------------------------------------ */

static void buf_free(struct ln_meta_session *c, struct ln_meta_buf *b)
{
	c->server->buffer_bytes -= b->cap;
	ln_free(b->p);
	memset(b, 0, sizeof(*b));
}

/* Make [to, to + room) writable. */
static int buf_reserve(struct ln_meta_session *c, struct ln_meta_buf *b,
		       size_t room)
{
	size_t used = b->to - b->from, cap;
	uint8_t *p;

	if (b->cap - b->to >= room)
		return 0;
	if (b->from) {
		memmove(b->p, b->p + b->from, used);
		b->from = 0;
		b->to = used;
	}
	if (b->cap - used >= room)
		return 0;
	cap = ln_max(used + room, (size_t)IN_FIRST);
	cap = ln_max(cap, ln_min(2 * b->cap, (size_t)GROW_BYTES));
	if (c->server->buffer_bytes - b->cap + cap > LN_META_BUFFERS_MAX)
		return ln_error(LUNE_ERR_LIMIT, "all buffers are in use");
	p = ln_realloc_array(b->p, cap, 1);
	if (!p)
		return LUNE_ERR_NOMEM;
	c->server->buffer_bytes += cap - b->cap;
	b->p = p;
	b->cap = cap;
	return 0;
}

/* b was emptied: start at its front again, and give back what is large. */
static void buf_rewind(struct ln_meta_session *c, struct ln_meta_buf *b)
{
	if (b->from < b->to)
		return;
	b->from = b->to = 0;
	if (b->cap > KEEP_BYTES)
		buf_free(c, b);
}

static size_t pending(const struct ln_meta_session *c)
{
	return c->out.to - c->out.from;
}

/* ---- telling ------------------------------------------------------------ */

static void tell(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	size_t bytes = ln_meta_frame_bytes(f);

	if (buf_reserve(c, &c->out, bytes)) {
		drop(c, lune_last_error());
		return;
	}
	ln_meta_frame_write(f, c->out.p + c->out.to);
	c->out.to += bytes;
}

static void tell_status(struct ln_meta_session *c, int code, uint64_t number)
{
	struct ln_meta_frame f = { .type = LN_META_STATUS, .a = number,
				   .b = (uint64_t)(int64_t)code };
	const char *why = code ? lune_last_error() : "";

	f.value = (const uint8_t *)why;
	f.value_len = ln_min(strlen(why), (size_t)200);
	tell(c, &f);
}

static void tell_version(struct ln_meta_session *c,
			 const struct ln_meta_version *v)
{
	struct ln_meta_frame f = {
		.type = LN_META_RECORD,
		.flag = v->deleted,
		.a = v->create_rev,
		.b = v->mod_rev,
		.key = v->bytes,
		.key_len = v->key_len,
		.value = (const uint8_t *)ln_meta_version_value(v),
		.value_len = v->value_len,
	};

	tell(c, &f);
}

static void end_list(struct ln_meta_session *c)
{
	while (c->list_at < c->list_count)
		ln_meta_version_unref(c->list[c->list_at++]);
	ln_free(c->list);
	c->list = NULL;
	c->list_count = c->list_at = 0;
	c->list_rev = 0;
}

static void tell_list(struct ln_meta_session *c)
{
	struct ln_meta_frame f = { .type = LN_META_END, .a = c->list_rev };

	while (c->list_at < c->list_count && pending(c) < OUT_BYTES &&
	       !c->dead) {
		tell_version(c, c->list[c->list_at]);
		ln_meta_version_unref(c->list[c->list_at++]);
	}
	if (c->list_at < c->list_count || c->dead)
		return;
	tell(c, &f);
	end_list(c);
}

static bool send_some(struct ln_meta_session *c)
{
	ssize_t n;

	while (pending(c)) {
		n = send(c->fd, c->out.p + c->out.from, pending(c),
			 MSG_NOSIGNAL);
		if (n > 0) {
			c->out.from += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
			c->dead = true;
		return false;
	}
	buf_rewind(c, &c->out);
	return true;
}

static bool concerns(const struct ln_meta_session *c,
		     const struct ln_meta_version *v)
{
	return v->key_len >= c->watch_prefix_len &&
	       !memcmp(v->bytes, c->watch_prefix, c->watch_prefix_len);
}

static void tell_news(struct ln_meta_session *c)
{
	struct ln_meta_store *store = c->server->store;
	struct ln_meta_version *v;

	while (c->watch_rev <= ln_meta_store_revision(store) &&
	       pending(c) < OUT_BYTES && !c->dead) {
		v = ln_meta_store_change(store, c->watch_rev);
		if (!v) {
			ln_error(LUNE_ERR_COMPACTED,
				 "revision %llu is no longer kept",
				 (unsigned long long)c->watch_rev);
			tell_status(c, LUNE_ERR_COMPACTED, 0);
			c->watch_rev = UINT64_MAX;
			return;
		}
		c->watch_rev++;
		if (concerns(c, v))
			tell_version(c, v);
	}
}

/* ---- requests ----------------------------------------------------------- */

static void do_get(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	struct ln_meta_version *v;

	v = ln_meta_store_get(c->server->store, f->key, f->key_len);
	if (v) {
		tell_version(c, v);
		return;
	}
	ln_error(LUNE_ERR_NOTFOUND, "\"%.*s\" does not exist",
		 (int)f->key_len, f->key);
	tell_status(c, LUNE_ERR_NOTFOUND, 0);
}

static void do_list(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	struct ln_meta_store *store = c->server->store;
	int rc;

	rc = ln_meta_store_list(store, f->key, f->key_len, &c->list,
				&c->list_count);
	if (rc) {
		tell_status(c, rc, 0);
		return;
	}
	c->list_at = 0;
	c->list_rev = ln_meta_store_revision(store);
}

static void do_change(struct ln_meta_session *c,
		      const struct ln_meta_frame *f)
{
	struct ln_meta_store *store = c->server->store;
	struct ln_meta_edit e = { .key = f->key, .key_len = f->key_len,
				  .compare = f->flag, .expect = f->b };
	int rc;

	if (!f->key_len) {
		drop(c, "a record without a key");
		return;
	}
	if (f->type == LN_META_PUT) {
		e.value = f->value;
		e.value_len = f->value_len;
		e.lease = f->a;
		rc = ln_meta_store_put(store, &e);
	} else {
		rc = ln_meta_store_delete(store, &e);
	}
	tell_status(c, rc, rc ? 0 : ln_meta_store_revision(store));
}

static void do_lease(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	struct ln_meta_store *store = c->server->store;
	uint64_t lease = f->a;
	int rc;

	if (f->type == LN_META_LEASE_OPEN)
		rc = ln_meta_store_lease_open(store, f->a, &lease);
	else if (f->type == LN_META_LEASE_KEEP)
		rc = ln_meta_store_lease_keep(store, lease);
	else
		rc = ln_meta_store_lease_close(store, lease);
	tell_status(c, rc, lease);
}

static int check_watch(const struct ln_meta_server *s,
		       const struct ln_meta_frame *f)
{
	uint64_t now = ln_meta_store_revision(s->store);

	if (f->b && f->b != ln_meta_store_id(s->store))
		return ln_error(LUNE_ERR_COMPACTED, "the store is a new one");
	if (!f->a || f->a > now + 1 ||
	    (f->a <= now && !ln_meta_store_change(s->store, f->a)))
		return ln_error(LUNE_ERR_COMPACTED,
				"revision %llu is not kept, now is %llu",
				(unsigned long long)f->a,
				(unsigned long long)now);
	return 0;
}

static void do_watch(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	int rc;

	rc = check_watch(c->server, f);
	if (!rc) {
		c->watch_prefix = ln_malloc(f->key_len + 1);
		rc = c->watch_prefix ? 0 : LUNE_ERR_NOMEM;
	}
	tell_status(c, rc, 0);
	if (rc)
		return;
	memcpy(c->watch_prefix, f->key, f->key_len);
	c->watch_prefix_len = f->key_len;
	c->watch_rev = f->a;
}

static void do_proof(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	struct ln_meta_server *s = c->server;
	uint8_t mac[LN_MAC_BYTES] = { 0 };
	struct ln_meta_frame answer = { .type = LN_META_WELCOME, .value = mac,
					.value_len = sizeof(mac),
					.a = ln_meta_store_id(s->store) };

	if (f->type != LN_META_PROOF || f->value_len != PROOF_BYTES ||
	    f->b != LN_META_FRAME_VERSION) {
		drop(c, "its first frame is no proof");
		return;
	}
	memcpy(c->nonces + LN_META_NONCE_BYTES, f->value, LN_META_NONCE_BYTES);
	if (s->has_key) {
		ln_meta_frame_proof(s->key, 'c', c->nonces, mac);
		if (!ln_mac_equal(mac, f->value + LN_META_NONCE_BYTES)) {
			ln_error(LUNE_ERR_AUTH, "the job key does not match");
			tell_status(c, LUNE_ERR_AUTH, 0);
			send_some(c);
			drop(c, "wrong job key");
			return;
		}
		ln_meta_frame_proof(s->key, 's', c->nonces, mac);
	}
	c->welcome = true;
	tell(c, &answer);
}

static void dispatch(struct ln_meta_session *c, const struct ln_meta_frame *f)
{
	if (!c->welcome) {
		do_proof(c, f);
		return;
	}
	switch (f->type) {
	case LN_META_GET:
		do_get(c, f);
		break;
	case LN_META_LIST:
		do_list(c, f);
		break;
	case LN_META_PUT:
	case LN_META_DELETE:
		do_change(c, f);
		break;
	case LN_META_LEASE_OPEN:
	case LN_META_LEASE_KEEP:
	case LN_META_LEASE_CLOSE:
		do_lease(c, f);
		break;
	case LN_META_WATCH:
		do_watch(c, f);
		break;
	default:
		drop(c, "a frame that is no request");
	}
}

/* ---- reading ------------------------------------------------------------ */

static bool busy(const struct ln_meta_session *c)
{
	return c->list_rev || c->watch_rev || pending(c) >= OUT_BYTES;
}

/* Serve the frames that are whole, as long as answers can be written. */
static void serve_frames(struct ln_meta_session *c)
{
	struct ln_meta_frame f;
	size_t max;
	int n;

	while (!busy(c) && !c->dead && c->in.from < c->in.to) {
		max = c->welcome ? LN_META_FRAME_MAX
				 : LN_META_FRAME_HEAD + PROOF_BYTES;
		n = ln_meta_frame_parse(c->in.p + c->in.from,
					c->in.to - c->in.from, max, &f);
		if (n < 0)
			drop(c, "what it sent is no frame");
		if (n <= 0)
			break;
		c->since = 0;
		dispatch(c, &f);
		c->in.from += (size_t)n;
	}
	buf_rewind(c, &c->in);
	if (c->in.from < c->in.to && c->watch_rev)
		drop(c, "it speaks while it watches");
	if (c->in.from < c->in.to && !c->since && !busy(c))
		c->since = ln_now_ns();
}

void ln_meta_session_readable(struct ln_meta_session *c)
{
	ssize_t n;

	do {
		if (buf_reserve(c, &c->in, IN_FIRST)) {
			drop(c, lune_last_error());
			return;
		}
		n = recv(c->fd, c->in.p + c->in.to, c->in.cap - c->in.to, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0 || c->watch_rev) {
			/* Gone; or a watch that says something. */
			c->dead = true;
			return;
		}
		c->in.to += (size_t)n;
		serve_frames(c);
	} while (!c->dead && !busy(c));
}

/* ---- writing ------------------------------------------------------------ */

/* Whether there is more to say once the buffer is empty. */
static bool has_more(const struct ln_meta_session *c)
{
	return c->list_rev ||
	       (c->watch_rev && c->watch_rev <=
		ln_meta_store_revision(c->server->store)) ||
	       (!c->watch_rev && !c->since && c->in.from < c->in.to);
}

void ln_meta_session_flush(struct ln_meta_session *c)
{
	do {
		if (c->list_rev)
			tell_list(c);
		if (c->watch_rev)
			tell_news(c);
		else
			serve_frames(c);
	} while (send_some(c) && !c->dead && has_more(c));
}

uint32_t ln_meta_session_events(const struct ln_meta_session *c)
{
	uint32_t events = 0;

	if (!busy(c) || c->watch_rev)
		events |= EPOLLIN;
	if (pending(c))
		events |= EPOLLOUT;
	return events;
}

/* ---- open and close ----------------------------------------------------- */

int ln_meta_session_open(struct ln_meta_server *s, int fd,
			 struct ln_meta_session **out)
{
	struct ln_meta_frame hello = { .type = LN_META_HELLO,
				       .flag = s->has_key,
				       .a = ln_meta_store_id(s->store),
				       .b = LN_META_FRAME_VERSION };
	struct ln_meta_session *c;
	int rc;

	c = ln_calloc(1, sizeof(*c));
	if (!c)
		return LUNE_ERR_NOMEM;
	c->server = s;
	c->fd = fd;
	c->since = ln_now_ns();
	rc = ln_random(c->nonces, LN_META_NONCE_BYTES);
	if (rc) {
		ln_free(c);
		return rc;
	}
	hello.value = c->nonces;
	hello.value_len = LN_META_NONCE_BYTES;
	tell(c, &hello);
	*out = c;
	return 0;
}

void ln_meta_session_close(struct ln_meta_session *c)
{
	end_list(c);
	buf_free(c, &c->in);
	buf_free(c, &c->out);
	ln_free(c->watch_prefix);
	close(c->fd);
	ln_free(c);
}
