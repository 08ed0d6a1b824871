/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proving the job key on a new connection.
 *
 *	connector                     acceptor
 *	HELLO kind, nonce, card  -->
 *	                         <--  HELLO nonce, card
 *	PROOF mac(1, both)       -->
 *	                         <--  PROOF mac(2, both)   or DUP
 *	READY                    -->
 *
 * A mac covers both HELLOs whole: both nonces (a replay has an old one), both
 * cards, who was addressed, and the kind of connection; the first byte tells
 * whose it is (a reflection has the wrong one).  The acceptor says nothing to
 * whoever does not address its very uuid and incarnation, and keeps nothing
 * before READY, so that a connector may still choose among its attempts.
 *
 * Two processes that connect to each other at once: the lower uuid refuses
 * (DUP) once it has sent its own PROOF, and until then gives its own attempt
 * up; the higher always gives its own up.  The higher can accept only after
 * the lower's PROOF, so exactly one connection survives.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#include "net/link.h"

#define HELLO_MS 3000 /* for a stranger to prove itself */

enum { STEP_CONNECT, STEP_HELLO, STEP_PROOF, STEP_READY };

static void conn_timeout(struct ln_net *net, struct ln_timer *t)
{
	struct ln_conn *c = ln_container_of(t, struct ln_conn, timer);

	if (!c->out)
		ln_count(net->counters, refused_auth, 1);
	ln_conn_drop(c, LUNE_ERR_UNREACHABLE, "no answer to HELLO in time");
}

int ln_conn_open(struct ln_net *net, int fd, int family, struct ln_peer *p,
		 struct ln_conn **out)
{
	struct ln_conn *c = ln_calloc(1, sizeof(*c));
	uint64_t ms = p ? (uint64_t)net->conf->connect_timeout : HELLO_MS;

	if (!c || ln_stream_open(net, fd, family, &c->s)) {
		ln_free(c);
		close(fd);
		return LUNE_ERR_NOMEM;
	}
	c->net = net;
	c->s->conn = c;
	c->out = p != NULL;
	c->s->connecting = c->out;
	c->peer = p ? ln_peer_ref(p) : NULL;
	c->step = c->out ? STEP_CONNECT : STEP_HELLO;
	c->code = LUNE_ERR_UNREACHABLE;
	c->timer.fn = conn_timeout;
	ln_timer_start(net, &c->timer, ln_now_ns() + ms * 1000000u);
	if (ln_engine_watch(net, &c->s->watch,
			    c->out ? EPOLLOUT : EPOLLIN)) {
		ln_conn_free(c);
		return LUNE_ERR_SYSTEM;
	}
	*out = c;
	return LUNE_OK;
}

static void conn_bury(struct ln_grave *g)
{
	ln_free(ln_container_of(g, struct ln_conn, grave));
}

/* The stream is closed unless it was adopted (then c->s is NULL). */
void ln_conn_free(struct ln_conn *c)
{
	ln_timer_stop(c->net, &c->timer);
	if (c->s)
		ln_stream_close(c->s);
	c->s = NULL;
	if (c->peer)
		ln_peer_unref(c->peer);
	c->peer = NULL;
	ln_engine_bury(c->net, &c->grave, conn_bury);
}

void ln_conn_drop(struct ln_conn *c, int code, const char *why)
{
	struct ln_peer *p = c->peer;

	ln_debug("connection %s %s dropped: %s", c->out ? "to" : "from",
		 c->where, why);
	if (!c->out) {
		if (c->step < STEP_READY && code == LUNE_ERR_PROTO)
			ln_count(c->net->counters, refused_proto, 1);
		ln_listen_drop_conn(c->net, c);
		if (p && p->link->accepting == c) {
			p->link->accepting = NULL;
			ln_connect_resume(p);
		}
		ln_conn_free(c);
		return;
	}
	/* What the end of the connection means depends on how far we were. */
	if (code == LUNE_ERR_PEER && c->step == STEP_PROOF) {
		code = LUNE_ERR_AUTH;
		why = "it refused our proof of the job key";
	}
	ln_peer_ref(p);
	ln_connect_failed(c, code, why);
	ln_conn_free(c);
	ln_connect_resume(p);
	ln_peer_unref(p);
}

/* ---- what is said -------------------------------------------------------- */

/* To whom, what for, a nonce, our card. */
static int hello_send(struct ln_conn *c, const struct ln_card *to)
{
	struct ln_pack k = { .p = c->mine, .cap = sizeof(c->mine) };
	struct ln_frame f = { .type = LN_FRAME_HELLO };
	struct iovec v;

	if (ln_random(c->nonce, sizeof(c->nonce)))
		return LUNE_ERR_SYSTEM;
	ln_pack_u8(&k, c->kind);
	ln_pack_u8(&k, c->index);
	ln_pack_bytes(&k, c->nonce, sizeof(c->nonce));
	ln_pack_bytes(&k, to->uuid.b, sizeof(to->uuid.b));
	ln_pack_u64(&k, to->incarnation);
	ln_pack_u16(&k, (uint16_t)c->net->card_bytes);
	ln_pack_bytes(&k, c->net->card_packed, c->net->card_bytes);
	if (k.bad)
		return ln_error(LUNE_ERR_LIMIT, "a HELLO is too long");
	c->mine_bytes = (uint16_t)k.len;
	f.bytes = k.len;
	v = (struct iovec){ c->mine, k.len };
	return ln_stream_queue(c->s, &f, &v, 1);
}

static int hello_parse(struct ln_conn *c, const struct ln_frame *f,
		       const void *body)
{
	struct ln_unpack u = { .p = body, .len = f->bytes };
	struct ln_uuid to = { { 0 } };
	uint8_t nonce[32], card[LN_CARD_BYTES_MAX];
	uint64_t incarnation;
	uint16_t n;
	int rc;

	c->kind = ln_unpack_u8(&u);
	c->index = ln_unpack_u8(&u);
	ln_unpack_bytes(&u, nonce, sizeof(nonce));
	ln_unpack_bytes(&u, to.b, sizeof(to.b));
	incarnation = ln_unpack_u64(&u);
	n = ln_unpack_u16(&u);
	if (n > sizeof(card))
		u.bad = true;
	else
		ln_unpack_bytes(&u, card, n);
	if (u.bad || c->kind > LN_CONN_DATA ||
	    (c->kind == LN_CONN_DATA) != (c->index > 0) ||
	    c->index >= LN_STREAMS_MAX)
		return ln_error(LUNE_ERR_PROTO, "a damaged HELLO");
	rc = ln_card_unpack(card, n, &c->card);
	if (rc)
		return LUNE_ERR_PROTO;
	if (!ln_uuid_equal(&to, &c->net->card.uuid) ||
	    incarnation != c->net->card.incarnation)
		return ln_error(LUNE_ERR_STALE,
				"it looks for another process");
	memcpy(c->theirs, body, f->bytes);
	c->theirs_bytes = (uint16_t)f->bytes;
	return LUNE_OK;
}

/* role 1: the connector's proof, 2: the acceptor's. */
static void mac_make(const struct ln_conn *c, uint8_t role,
		     uint8_t mac[LN_MAC_BYTES])
{
	uint8_t text[8 + 2 * LN_HELLO_BYTES_MAX];
	struct ln_pack k = { .p = text, .cap = sizeof(text) };
	const uint8_t *first = c->out ? c->mine : c->theirs;
	const uint8_t *second = c->out ? c->theirs : c->mine;
	uint16_t nfirst = c->out ? c->mine_bytes : c->theirs_bytes;
	uint16_t nsecond = c->out ? c->theirs_bytes : c->mine_bytes;

	ln_pack_u8(&k, role);
	ln_pack_u16(&k, nfirst);
	ln_pack_bytes(&k, first, nfirst);
	ln_pack_u16(&k, nsecond);
	ln_pack_bytes(&k, second, nsecond);
	ln_hmac(c->net->key, text, k.len, mac);
}

static int proof_send(struct ln_conn *c)
{
	struct ln_frame f = { .type = LN_FRAME_PROOF, .bytes = LN_MAC_BYTES };
	uint8_t mac[LN_MAC_BYTES];
	struct iovec v = { mac, sizeof(mac) };

	mac_make(c, c->out ? 1 : 2, mac);
	return ln_stream_queue(c->s, &f, &v, 1);
}

static bool proof_good(struct ln_conn *c, const void *body)
{
	uint8_t mac[LN_MAC_BYTES];

	mac_make(c, c->out ? 2 : 1, mac);
	return ln_mac_equal(mac, body);
}

static int frame_send(struct ln_conn *c, uint8_t type, uint64_t a)
{
	struct ln_frame f = { .type = type, .a = a };

	return ln_stream_queue(c->s, &f, NULL, 0);
}

/* ---- the connector ------------------------------------------------------- */

int ln_conn_hello(struct ln_conn *c)
{
	socklen_t n = sizeof(errno);
	int err = 0, rc;

	getsockopt(c->s->watch.fd, SOL_SOCKET, SO_ERROR, &err, &n);
	if (err) {
		errno = err;
		return ln_error_errno(err == ECONNREFUSED ||
						      err == ENOENT
					      ? LUNE_ERR_PEER
					      : LUNE_ERR_UNREACHABLE,
				      "connecting to %s", c->where);
	}
	c->s->connecting = false;
	c->step = STEP_HELLO;
	rc = hello_send(c, &c->peer->card);
	if (rc)
		return rc;
	ln_engine_rewatch(c->net, &c->s->watch, EPOLLIN);
	ln_stream_flush(c->s);
	return LUNE_OK;
}

/* The proven stream becomes the link's; the conn is gone. */
static int conn_adopt(struct ln_conn *c)
{
	if (!ln_link_adopt(c->peer, c)) {
		ln_conn_drop(c, LUNE_ERR_EXIST, "another connection won");
		return LUNE_OK;
	}
	if (!c->out)
		ln_listen_drop_conn(c->net, c);
	c->s = NULL;
	ln_conn_free(c);
	return LUNE_OK;
}

static int connector_frame(struct ln_conn *c, const struct ln_frame *f,
			   const void *body)
{
	uint8_t kind = c->kind, index = c->index;
	int rc;

	if (f->type == LN_FRAME_HELLO && c->step == STEP_HELLO) {
		rc = hello_parse(c, f, body);
		if (!rc && (kind != c->kind || index != c->index ||
			    !ln_uuid_equal(&c->card.uuid,
					   &c->peer->card.uuid) ||
			    c->card.incarnation != c->peer->card.incarnation))
			rc = ln_error(LUNE_ERR_PEER,
				      "another process answers there");
		if (!rc)
			rc = proof_send(c);
		c->step = STEP_PROOF;
		if (!rc)
			ln_stream_flush(c->s);
		return rc;
	}
	if (c->step != STEP_PROOF)
		return ln_error(LUNE_ERR_PROTO, "HELLO out of order");
	if (f->type == LN_FRAME_DUP) {
		c->peer->link->dup = f->a == 0;
		return ln_error(f->a ? LUNE_ERR_PEER : LUNE_ERR_EXIST,
				f->a ? "it has given us up"
				     : "its own connection wins");
	}
	if (f->type != LN_FRAME_PROOF || !proof_good(c, body)) {
		ln_count(c->net->counters, refused_auth, 1);
		return ln_error(LUNE_ERR_AUTH, "its job key is another one");
	}
	rc = frame_send(c, LN_FRAME_READY, 0);
	if (rc)
		return rc;
	ln_stream_flush(c->s);
	return conn_adopt(c);
}

/* ---- the acceptor -------------------------------------------------------- */

static bool proof_was_sent(const struct ln_peer_link *l)
{
	const struct ln_conn *c;

	DL_FOREACH(l->conns, c)
		if (c->step >= STEP_PROOF)
			return true;
	return false;
}

/* Does this connection win against ours?  *why for DUP. */
static bool acceptor_takes(struct ln_conn *c, uint64_t *why)
{
	struct ln_peer *p = c->peer;
	struct ln_peer_link *l = p->link;
	int state = atomic_load(&p->state);
	bool lower = ln_uuid_compare(&c->net->card.uuid, &p->card.uuid) < 0;

	*why = 0;
	if (state == LN_PEER_DEAD) {
		*why = 1;
		return false;
	}
	if (c->kind == LN_CONN_DATA)
		return state == LN_PEER_UP;
	if (state == LN_PEER_UP || l->accepting)
		return false;
	if (lower && proof_was_sent(l)) {
		l->dup = true;
		return false;
	}
	ln_connect_abandon(p);
	l->accepting = c;
	return true;
}

static uint64_t ready_until(const struct ln_net *net)
{
	int64_t ms = net->conf->connect_timeout + net->conf->peer_timeout;

	return ln_now_ns() + (uint64_t)ms * 1000000u;
}

static int acceptor_proof(struct ln_conn *c, const void *body)
{
	uint64_t why;
	int rc;

	if (!proof_good(c, body)) {
		ln_count(c->net->counters, refused_auth, 1);
		return ln_error(LUNE_ERR_AUTH, "its job key is another one");
	}
	rc = ln_peer_get(c->net, &c->card, &c->peer);
	if (rc)
		return rc;
	if (acceptor_takes(c, &why)) {
		c->step = STEP_READY;
		/* No stranger any more: outlast its own deadline. */
		ln_timer_start(c->net, &c->timer, ready_until(c->net));
		rc = proof_send(c);
	} else {
		frame_send(c, LN_FRAME_DUP, why);
		rc = LUNE_ERR_EXIST;
		ln_error(rc, "our own connection wins");
	}
	ln_stream_flush(c->s);
	return rc;
}

static int acceptor_frame(struct ln_conn *c, const struct ln_frame *f,
			  const void *body)
{
	int rc;

	if (f->type == LN_FRAME_HELLO && c->step == STEP_HELLO) {
		rc = hello_parse(c, f, body);
		if (rc == LUNE_ERR_STALE)
			ln_count(c->net->counters, refused_stale, 1);
		if (!rc)
			rc = hello_send(c, &c->card);
		c->step = STEP_PROOF;
		if (!rc)
			ln_stream_flush(c->s);
		return rc;
	}
	if (f->type == LN_FRAME_PROOF && c->step == STEP_PROOF)
		return acceptor_proof(c, body);
	if (f->type == LN_FRAME_READY && c->step == STEP_READY)
		return conn_adopt(c);
	return ln_error(LUNE_ERR_PROTO, "HELLO out of order");
}

int ln_conn_frame(struct ln_conn *c, const struct ln_frame *f, const void *body)
{
	return c->out ? connector_frame(c, f, body)
		      : acceptor_frame(c, f, body);
}
