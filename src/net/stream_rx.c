/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receive side of a stream: a buffer for headers and small frames, and a
 * sink for payload that has a place of its own.
 *
 *	socket --readv--> sink.iov (user's memory, regions) , in (what follows)
 *
 * One readv takes the rest of a payload and the next headers.  Payload that
 * came with the headers is copied from the buffer; the rest is not.  Before
 * each touch of pinned memory the regions are looked at again, so that a
 * released one is left alone although its payload still comes.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/link.h"

#define READS_MAX 16	     /* per event, so that other streams get a turn */
#define AHEAD_BYTES (8 * 1024) /* read behind a payload that goes on */

void ln_sink_unpin(struct ln_sink *k)
{
	for (int i = 0; i < k->npins; i++)
		ln_mem_unpin(k->pins[i]);
	k->npins = 0;
}

/* What is left of the payload goes nowhere. */
void ln_sink_drop(struct ln_stream *s)
{
	struct ln_sink *k = &s->sink;

	ln_sink_unpin(k);
	k->drop = k->left;
	k->at = k->n = 0;
	k->op = NULL;
}

void ln_sink_check(struct ln_stream *s)
{
	struct ln_sink *k = &s->sink;

	for (int i = 0; i < k->npins; i++) {
		if (ln_mem_valid(s->net->mem, k->pins[i]->key))
			continue;
		k->code = LUNE_ERR_STALE;
		k->index = k->f.index;
		k->landed = 0;
		ln_sink_drop(s);
		return;
	}
}

/* n bytes arrived at the sink's place. */
static void sink_advance(struct ln_sink *k, size_t n)
{
	k->left -= n;
	while (n && k->at < k->n) {
		struct iovec *v = &k->iov[k->at];
		size_t m = ln_min(n, v->iov_len);

		v->iov_base = (char *)v->iov_base + m;
		v->iov_len -= m;
		n -= m;
		if (!v->iov_len)
			k->at++;
	}
	k->drop -= n;
}

/* Copy payload that lies in the buffer. */
static void sink_copy(struct ln_stream *s)
{
	struct ln_sink *k = &s->sink;
	size_t have = ln_min(s->in_len - s->in_at, k->left), n = have;
	uint8_t *p = s->in + s->in_at;

	for (int i = k->at; i < k->n && n; i++) {
		size_t m = ln_min(n, k->iov[i].iov_len);

		if (m)
			memcpy(k->iov[i].iov_base, p, m);
		p += m;
		n -= m;
	}
	sink_advance(k, have);
	s->in_at += have;
}

/* Streamed frames end when the sink is full. */
static int frame_streamed(struct ln_stream *s, const struct ln_frame *f,
			  const uint8_t *meta, size_t meta_bytes)
{
	int rc = ln_wire_begin(s, f, meta);

	if (rc)
		return rc;
	s->in_at += LN_FRAME_BYTES + meta_bytes;
	return s->sink.left ? LUNE_OK : ln_wire_end(s);
}

/*
 * Handle the frame at in_at.  LUNE_ERR_AGAIN: more bytes are needed.
 */
static int frame_next(struct ln_stream *s)
{
	const uint8_t *p = s->in + s->in_at;
	size_t have = s->in_len - s->in_at, meta;
	struct ln_frame f;
	int rc;

	if (have < LN_FRAME_BYTES)
		return LUNE_ERR_AGAIN;
	rc = ln_frame_decode(p, &f);
	if (rc)
		return rc;
	meta = ln_frame_meta_bytes(&f);
	if (have < LN_FRAME_BYTES + meta)
		return LUNE_ERR_AGAIN;
	if (s->peer && (f.type == LN_FRAME_PUT || f.type == LN_FRAME_DATA))
		return frame_streamed(s, &f, p + LN_FRAME_BYTES, meta);
	if (!s->peer && f.type >= LN_FRAME_PING)
		return ln_error(LUNE_ERR_PROTO, "no HELLO came first");
	if (have < LN_FRAME_BYTES + meta + f.bytes)
		return LUNE_ERR_AGAIN;
	s->in_at += LN_FRAME_BYTES + meta + f.bytes;
	if (!s->peer)
		return ln_conn_frame(s->conn, &f, p + LN_FRAME_BYTES);
	return ln_link_frame(s, &f, p + LN_FRAME_BYTES,
			     p + LN_FRAME_BYTES + meta);
}

/* All that is in the buffer. */
static int frames_do(struct ln_stream *s)
{
	int rc = LUNE_OK;

	while (!rc && s->watch.fd >= 0) {
		if (s->sink.left) {
			ln_sink_check(s);
			sink_copy(s);
			if (s->sink.left)
				break;
			rc = ln_wire_end(s);
		} else {
			rc = frame_next(s);
		}
	}
	if (rc == LUNE_ERR_AGAIN)
		rc = LUNE_OK;
	if (s->in_at == s->in_len) {
		s->in_at = s->in_len = 0;
	} else if (s->in_at) {
		memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
		s->in_len -= s->in_at;
		s->in_at = 0;
	}
	return rc;
}

/*
 * Descriptors that came along wait for the frames that own them.  Of strangers
 * none is kept; a proven peer's first ones may come in the read of its READY.
 */
static void take_fds(struct ln_stream *s, struct msghdr *m)
{
	bool proven = s->peer || (s->conn && s->conn->peer);
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET ||
		    c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(fd));
			if (proven && s->in_nfds < LN_FDS_MAX)
				s->in_fds[s->in_nfds++] = fd;
			else
				close(fd);
		}
	}
}

/*
 * Dropped payload goes to the upper part of the buffer, which is empty while
 * a sink is open.
 */
#define NOWHERE_AT (LN_IN_BYTES / 2)
#define NOWHERE_BYTES (LN_IN_BYTES - NOWHERE_AT)

/* The list of a read: the sink's rest, then room behind it in the buffer. */
static int in_iov(struct ln_stream *s, struct iovec *v, size_t *asked)
{
	struct ln_sink *k = &s->sink;
	size_t room = LN_IN_BYTES - s->in_len;
	int n = 0;

	*asked = 0;
	if (k->left) {
		for (int i = k->at; i < k->n; i++, n++) {
			v[n] = k->iov[i];
			*asked += v[n].iov_len;
		}
		if (k->drop) {
			/* Behind it lies more payload, not headers. */
			v[n].iov_base = s->in + NOWHERE_AT;
			v[n].iov_len = ln_min(k->drop, NOWHERE_BYTES);
			*asked += v[n].iov_len;
			if (k->drop > NOWHERE_BYTES)
				return n + 1;
			n++;
		}
		room = ln_min(room, AHEAD_BYTES);
	}
	v[n].iov_base = s->in + s->in_len;
	v[n].iov_len = room;
	*asked += room;
	return n + 1;
}

static ssize_t receive(struct ln_stream *s, struct iovec *v, int n)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * LN_FDS_MAX)];
		struct cmsghdr align;
	} u;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
	ssize_t got;

	if (s->family != AF_UNIX) {
		do {
			got = readv(s->watch.fd, v, n);
		} while (got < 0 && errno == EINTR);
		return got;
	}
	m.msg_control = u.buf;
	m.msg_controllen = sizeof(u.buf);
	do {
		got = recvmsg(s->watch.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got >= 0 && m.msg_controllen)
		take_fds(s, &m);
	return got;
}

/* By the other side, or by us because sending failed. */
static int closed(struct ln_stream *s)
{
	char why[sizeof(s->why)] = "";

	if (s->peer) {
		pthread_mutex_lock(&s->peer->lock);
		if (s->broken)
			memcpy(why, s->why, sizeof(why));
		pthread_mutex_unlock(&s->peer->lock);
	}
	if (why[0])
		return ln_error(LUNE_ERR_PEER, "sending failed: %s", why);
	return ln_error(LUNE_ERR_PEER, "it closed the connection");
}

static int read_once(struct ln_stream *s, bool *more)
{
	struct iovec v[LN_IOV_MAX + 2];
	size_t asked, sunk;
	ssize_t got;
	int n;

	if (s->sink.left)
		ln_sink_check(s);
	n = in_iov(s, v, &asked);
	got = receive(s, v, n);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		*more = false;
		return LUNE_OK;
	}
	if (got < 0)
		return ln_error_errno(LUNE_ERR_PEER, "receiving");
	if (got == 0)
		return closed(s);
	*more = (size_t)got == asked;
	if (s->peer)
		s->peer->link->heard = true;
	sunk = ln_min((size_t)got, s->sink.left);
	if (sunk)
		sink_advance(&s->sink, sunk);
	s->in_len += (size_t)got - sunk;
	if (sunk && !s->sink.left) {
		int rc = ln_wire_end(s);

		if (rc)
			return rc;
	}
	return frames_do(s);
}

int ln_stream_read(struct ln_stream *s)
{
	bool more = true;
	int rc = LUNE_OK;

	for (int i = 0; more && !rc && i < READS_MAX; i++) {
		if (s->watch.fd < 0)
			return LUNE_OK;
		rc = read_once(s, &more);
	}
	return rc;
}
