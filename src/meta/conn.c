/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to an embedded server: a non-blocking socket, of which
 * every wait ends at a deadline or when the client is closed.  The host of an
 * endpoint may have several addresses; they are tried in turn.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meta/conn.h"

#define IN_FIRST 4096

static int failed(const struct ln_meta_conn *c, const char *what)
{
	return ln_error_errno(LUNE_ERR_META, "%s: %s", c->name, what);
}

/* Wait for events on the socket; META when time or patience is over. */
static int await(struct ln_meta_conn *c, short events, uint64_t until)
{
	struct pollfd p[2] = { { .fd = c->fd, .events = events },
			       { .fd = c->stop->fd, .events = POLLIN } };
	int n;

	do
		n = poll(p, 2, ln_deadline_left_ms(until));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return failed(c, "poll");
	if (atomic_load(&c->stop->on))
		return ln_error(LUNE_ERR_META, "%s: closed", c->name);
	if (!n)
		return ln_error(LUNE_ERR_META, "%s: no answer in time",
				c->name);
	return 0;
}

/* ---- connecting --------------------------------------------------------- */

static void set_options(int fd)
{
	int on = 1, idle = 5, interval = 2, count = 3, user_ms = 15000;

	/* Best effort: without them only a dead host is noticed later. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms,
		   sizeof(user_ms));
}

static int connect_to(struct ln_meta_conn *c, const struct addrinfo *a,
		      uint64_t until)
{
	socklen_t n = sizeof(int);
	int rc, err = 0;

	c->fd = socket(a->ai_family,
		       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return failed(c, "socket");
	set_options(c->fd);
	if (!connect(c->fd, a->ai_addr, a->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		rc = failed(c, "connect");
	else
		rc = await(c, POLLOUT, until);
	if (!rc) {
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &n);
		errno = err;
		rc = err ? failed(c, "connect") : 0;
	}
	if (rc) {
		close(c->fd);
		c->fd = -1;
	}
	return rc;
}

static int connect_any(struct ln_meta_conn *c,
		       const struct ln_meta_endpoint *e, uint64_t until)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_family = AF_UNSPEC };
	struct addrinfo *all, *a;
	int rc;

	rc = getaddrinfo(e->host, e->port, &hints, &all);
	if (rc)
		return ln_error(LUNE_ERR_META, "%s: %s", c->name,
				gai_strerror(rc));
	rc = LUNE_ERR_META;
	for (a = all; a && rc; a = a->ai_next)
		rc = connect_to(c, a, until);
	freeaddrinfo(all);
	return rc;
}

/* ---- the key ------------------------------------------------------------ */

static bool take_key(struct ln_meta *m, uint8_t key[LN_KEY_BYTES])
{
	bool has;

	pthread_mutex_lock(&m->lock);
	has = m->has_key;
	memcpy(key, m->key, LN_KEY_BYTES);
	pthread_mutex_unlock(&m->lock);
	return has;
}

static int read_hello(struct ln_meta_conn *c, uint64_t until, uint8_t *nonce,
		      bool *wants_key)
{
	struct ln_meta_frame f;
	int rc;

	rc = ln_meta_conn_recv(c, until, &f);
	if (rc)
		return rc;
	if (f.type != LN_META_HELLO || f.b != LN_META_FRAME_VERSION ||
	    f.value_len != LN_META_NONCE_BYTES)
		return ln_error(LUNE_ERR_META,
				"%s is no metadata server of this version",
				c->name);
	memcpy(nonce, f.value, LN_META_NONCE_BYTES);
	c->store_id = f.a;
	*wants_key = f.flag;
	return 0;
}

static int read_welcome(struct ln_meta_conn *c, uint64_t until,
			const uint8_t *mac)
{
	struct ln_meta_frame f;
	int rc;

	rc = ln_meta_conn_recv(c, until, &f);
	if (rc)
		return rc;
	if (f.type == LN_META_STATUS && (int64_t)f.b == LUNE_ERR_AUTH)
		return ln_error(LUNE_ERR_AUTH,
				"metadata server %s refused the job key",
				c->name);
	if (f.type != LN_META_WELCOME || f.value_len != LN_MAC_BYTES)
		return ln_error(LUNE_ERR_META, "%s broke the protocol",
				c->name);
	if (mac && !ln_mac_equal(mac, f.value))
		return ln_error(LUNE_ERR_AUTH,
				"metadata server %s does not know the job key",
				c->name);
	return 0;
}

static int shake_hands(struct ln_meta *m, struct ln_meta_conn *c,
		       uint64_t until)
{
	uint8_t nonces[2 * LN_META_NONCE_BYTES], key[LN_KEY_BYTES];
	uint8_t proof[LN_META_NONCE_BYTES + LN_MAC_BYTES] = { 0 };
	struct ln_meta_frame f = { .type = LN_META_PROOF, .value = proof,
				   .value_len = sizeof(proof),
				   .b = LN_META_FRAME_VERSION };
	uint8_t expected[LN_MAC_BYTES];
	bool has, wants = false;
	int rc;

	rc = read_hello(c, until, nonces, &wants);
	if (rc)
		return rc;
	has = take_key(m, key);
	if (wants != has)
		return ln_error(LUNE_ERR_AUTH, wants
				? "metadata server %s wants a job key"
				: "metadata server %s has no job key",
				c->name);
	rc = ln_random(proof, LN_META_NONCE_BYTES);
	if (rc)
		return rc;
	memcpy(nonces + LN_META_NONCE_BYTES, proof, LN_META_NONCE_BYTES);
	if (has) {
		ln_meta_frame_proof(key, 'c', nonces,
				    proof + LN_META_NONCE_BYTES);
		ln_meta_frame_proof(key, 's', nonces, expected);
	}
	rc = ln_meta_conn_send(c, &f, until);
	return rc ? rc : read_welcome(c, until, has ? expected : NULL);
}

int ln_meta_conn_open_for(struct ln_meta *m, struct ln_meta_stop *stop,
			  size_t endpoint, uint64_t until,
			  struct ln_meta_conn **out)
{
	const struct ln_meta_endpoint *e = &m->endpoints[endpoint];
	struct ln_meta_conn *c;
	int rc;

	c = ln_calloc(1, sizeof(*c));
	if (!c)
		return LUNE_ERR_NOMEM;
	c->fd = -1;
	c->endpoint = endpoint;
	c->stop = stop;
	c->in = ln_malloc(IN_FIRST);
	if (!c->in) {
		ln_free(c);
		return LUNE_ERR_NOMEM;
	}
	c->cap = IN_FIRST;
	snprintf(c->name, sizeof(c->name), "%s:%s", e->host, e->port);
	rc = connect_any(c, e, until);
	if (!rc)
		rc = shake_hands(m, c, until);
	if (rc) {
		ln_meta_conn_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

int ln_meta_conn_open(struct ln_meta *m, size_t endpoint, uint64_t until,
		      struct ln_meta_conn **out)
{
	return ln_meta_conn_open_for(m, &m->stop, endpoint, until, out);
}

void ln_meta_conn_close(struct ln_meta_conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	ln_free(c->in);
	ln_free(c);
}

bool ln_meta_conn_alive(const struct ln_meta_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return c->taken == c->got && poll(&p, 1, 0) == 0;
}

/* ---- frames ------------------------------------------------------------- */

static int send_all(struct ln_meta_conn *c, const uint8_t *p, size_t n,
		    uint64_t until)
{
	ssize_t sent;
	int rc;

	while (n) {
		sent = send(c->fd, p, n, MSG_NOSIGNAL);
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return failed(c, "send");
		rc = await(c, POLLOUT, until);
		if (rc)
			return rc;
	}
	return 0;
}

int ln_meta_conn_send(struct ln_meta_conn *c, const struct ln_meta_frame *f,
		      uint64_t until)
{
	uint8_t small[2048], *p = small;
	size_t bytes = ln_meta_frame_bytes(f);
	int rc;

	if (bytes > sizeof(small))
		p = ln_malloc(bytes);
	if (!p)
		return LUNE_ERR_NOMEM;
	ln_meta_frame_write(f, p);
	rc = send_all(c, p, bytes, until);
	if (p != small)
		ln_free(p);
	return rc;
}

/* Room for at least one more byte, up to the longest frame. */
static int make_room(struct ln_meta_conn *c)
{
	size_t cap = ln_min(2 * c->cap, (size_t)LN_META_FRAME_MAX);
	uint8_t *p;

	if (c->taken) {
		memmove(c->in, c->in + c->taken, c->got - c->taken);
		c->got -= c->taken;
		c->taken = 0;
	}
	if (c->got < c->cap)
		return 0;
	p = ln_realloc_array(c->in, cap, 1);
	if (!p)
		return LUNE_ERR_NOMEM;
	c->in = p;
	c->cap = cap;
	return 0;
}

static int receive_some(struct ln_meta_conn *c, uint64_t until)
{
	ssize_t n;
	int rc;

	rc = make_room(c);
	while (!rc) {
		n = recv(c->fd, c->in + c->got, c->cap - c->got, 0);
		if (n > 0) {
			c->got += (size_t)n;
			return 0;
		}
		if (!n)
			return ln_error(LUNE_ERR_META,
					"%s closed the connection", c->name);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return failed(c, "receive");
		rc = await(c, POLLIN, until);
	}
	return rc;
}

int ln_meta_conn_recv(struct ln_meta_conn *c, uint64_t until,
		      struct ln_meta_frame *out)
{
	int n, rc;

	for (;;) {
		n = ln_meta_frame_parse(c->in + c->taken, c->got - c->taken,
					LN_META_FRAME_MAX, out);
		if (n < 0)
			return ln_error(LUNE_ERR_META,
					"%s sent no frame of a metadata server",
					c->name);
		if (n > 0) {
			c->taken += (size_t)n;
			return 0;
		}
		rc = receive_some(c, until);
		if (rc)
			return rc;
	}
}
