/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send side of a stream: what goes out, in this order, in one sendmsg:
 *
 *	out[0 .. before)   small frames, copied
 *	piece              a header, and payload straight from memory
 *	out[before .. )    small frames queued while the piece was going out
 *
 * Whoever queues also sends, under the send side's lock; what the socket does
 * not take goes on when epoll says so.  An error is only noted here: the
 * socket is shut down, so that the poller reads the end of it and buries the
 * stream, because whoever sends may hold locks that death needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/link.h"

static void on_event(struct ln_net *net, struct ln_watch *w, uint32_t events);

int ln_stream_open(struct ln_net *net, int fd, int family,
		   struct ln_stream **out)
{
	struct ln_stream *s = ln_calloc(1, sizeof(*s));

	if (!s)
		return LUNE_ERR_NOMEM;
	s->in = ln_malloc(LN_IN_BYTES);
	if (!s->in) {
		ln_free(s);
		return LUNE_ERR_NOMEM;
	}
	s->net = net;
	s->family = family;
	s->watch = (struct ln_watch){ .fd = fd, .fn = on_event };
	*out = s;
	return LUNE_OK;
}

static void stream_free(struct ln_grave *g)
{
	struct ln_stream *s = ln_container_of(g, struct ln_stream, grave);

	if (s->piece)
		ln_free(s->piece->copy);
	ln_free(s->piece);
	ln_free(s->out);
	ln_free(s->in);
	ln_free(s);
}

void ln_stream_close(struct ln_stream *s)
{
	int fd = s->watch.fd;

	ln_sink_unpin(&s->sink);
	if (s->piece)
		for (int i = 0; i < s->piece->npins; i++)
			ln_mem_unpin(s->piece->pins[i]);
	ln_engine_unwatch(s->net, &s->watch);
	close(fd);
	for (int i = 0; i < s->nfds; i++)
		close(s->fds[i].fd);
	for (int i = 0; i < s->in_nfds; i++)
		close(s->in_fds[i]);
	s->nfds = s->in_nfds = 0;
	ln_engine_bury(s->net, &s->grave, stream_free);
}

static void on_event(struct ln_net *net, struct ln_watch *w, uint32_t events)
{
	struct ln_stream *s = (struct ln_stream *)w;
	int rc = LUNE_OK;

	(void)net;
	if (s->connecting) {
		rc = ln_conn_hello(s->conn);
		if (rc)
			ln_conn_drop(s->conn, rc, lune_last_error());
		return;
	}
	if (events & EPOLLOUT) {
		if (s->peer)
			pthread_mutex_lock(&s->peer->lock);
		ln_stream_flush(s);
		if (s->peer)
			ln_link_unlock(s->peer);
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		rc = ln_stream_read(s);
	/* It may have been proven, or closed, by what it read. */
	if (s->watch.fd < 0)
		return;
	if (s->conn && rc)
		ln_conn_drop(s->conn, rc, lune_last_error());
	else if (s->peer && rc)
		ln_peer_die(s->peer, rc, lune_last_error());
	else if (s->peer)
		ln_link_flush_acks(s->peer);
}

/* ---- queueing ------------------------------------------------------------ */

static int out_reserve(struct ln_stream *s, size_t bytes)
{
	size_t have = ln_stream_queued(s), cap = s->out_cap;
	uint8_t *p;

	if (s->out_len + bytes <= cap)
		return LUNE_OK;
	if (s->out_at) {
		memmove(s->out, s->out + s->out_at, have);
		s->out_at = 0;
		s->out_len = have;
	}
	if (have + bytes <= cap)
		return LUNE_OK;
	if (have + bytes > LN_OUT_MAX)
		return ln_error(LUNE_ERR_LIMIT,
				"the peer does not take its replies");
	while (cap < have + bytes)
		cap = cap ? cap * 2 : 4096;
	p = ln_realloc_array(s->out, cap, 1);
	if (!p)
		return LUNE_ERR_NOMEM;
	s->out = p;
	s->out_cap = cap;
	return LUNE_OK;
}

int ln_stream_queue(struct ln_stream *s, const struct ln_frame *f,
		    const struct iovec *body, int nbody)
{
	size_t n = LN_FRAME_BYTES;
	uint8_t *p;
	int rc;

	for (int i = 0; i < nbody; i++)
		n += body[i].iov_len;
	rc = out_reserve(s, n);
	if (rc)
		return rc;
	p = s->out + s->out_len;
	ln_frame_encode(f, p);
	p += LN_FRAME_BYTES;
	for (int i = 0; i < nbody; i++) {
		if (body[i].iov_len)
			memcpy(p, body[i].iov_base, body[i].iov_len);
		p += body[i].iov_len;
	}
	s->out_len += n;
	return LUNE_OK;
}

int ln_stream_queue_fd(struct ln_stream *s, const struct ln_frame *f,
		       const void *body, int fd)
{
	struct iovec v = { (void *)body, f->bytes };
	struct ln_frame g = *f;
	uint64_t at = s->out_pos + ln_stream_queued(s);
	int copy, rc;

	if (s->family != AF_UNIX || s->nfds == LN_FDS_MAX)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"no descriptor can be sent now");
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "dup");
	g.flags |= LN_FRAME_FD;
	rc = ln_stream_queue(s, &g, &v, 1);
	if (rc) {
		close(copy);
		return rc;
	}
	s->fds[s->nfds++] = (struct ln_out_fd){ at, copy };
	return LUNE_OK;
}

/* ---- sending ------------------------------------------------------------- */

static int add_iov(struct iovec *v, int n, void *p, size_t bytes)
{
	if (!bytes)
		return n;
	v[n].iov_base = p;
	v[n].iov_len = bytes;
	return n + 1;
}

/* What to send next; a frame with a descriptor starts its own send. */
static int out_iov(struct ln_stream *s, struct iovec *v)
{
	struct ln_piece *k = s->piece;
	size_t queued = ln_stream_queued(s), first = queued;
	int n = 0;

	if (s->nfds) {
		uint64_t at = s->fds[s->nfds > 1 && s->fds[0].at == s->out_pos]
				      .at;
		if (at > s->out_pos && at - s->out_pos < queued)
			queued = (size_t)(at - s->out_pos);
		first = queued;
	}
	if (k && k->busy && s->before < first)
		first = s->before;
	n = add_iov(v, n, s->out + s->out_at, first);
	if (!k || !k->busy || first < s->before)
		return n;
	for (int i = k->at; i < k->n; i++)
		n = add_iov(v, n, k->iov[i].iov_base, k->iov[i].iov_len);
	return add_iov(v, n, s->out + s->out_at + first, queued - first);
}

static void out_consume(struct ln_stream *s, size_t bytes)
{
	s->out_at += bytes;
	s->out_pos += bytes;
	if (s->out_at == s->out_len)
		s->out_at = s->out_len = 0;
}

static size_t piece_consume(struct ln_piece *k, size_t bytes)
{
	size_t done = 0;

	while (k->at < k->n && done < bytes) {
		struct iovec *v = &k->iov[k->at];
		size_t n = ln_min(v->iov_len, bytes - done);

		v->iov_base = (char *)v->iov_base + n;
		v->iov_len -= n;
		done += n;
		if (!v->iov_len)
			k->at++;
	}
	while (k->at < k->n && !k->iov[k->at].iov_len)
		k->at++;
	k->left -= done;
	return done;
}

/* n bytes went out. */
static void consume(struct ln_stream *s, size_t n)
{
	struct ln_piece *k = s->piece;
	size_t m;

	if (k && k->busy) {
		m = ln_min(n, s->before);
		s->before -= m;
		out_consume(s, m);
		n -= m;
		if (!s->before)
			n -= piece_consume(k, n);
		if (k->at < k->n || s->before)
			return;
		ln_wire_piece_sent(s);
	}
	out_consume(s, n);
}

static ssize_t send_some(struct ln_stream *s, struct iovec *v, int n)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} u;
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
	bool with_fd = s->nfds && s->fds[0].at == s->out_pos;
	struct cmsghdr *c;
	ssize_t sent;

	if (with_fd) {
		memset(&u, 0, sizeof(u));
		m.msg_control = u.buf;
		m.msg_controllen = sizeof(u.buf);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &s->fds[0].fd, sizeof(int));
	}
	do {
		sent = sendmsg(s->watch.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	if (with_fd && sent > 0) {
		close(s->fds[0].fd);
		s->nfds--;
		memmove(s->fds, s->fds + 1, sizeof(s->fds[0]) *
						    (size_t)s->nfds);
	}
	return sent;
}

static void want_out(struct ln_stream *s, bool want)
{
	s->want_out = want;
	ln_engine_rewatch(s->net, &s->watch,
			  EPOLLIN | (want ? (uint32_t)EPOLLOUT : 0));
}

void ln_stream_break(struct ln_stream *s, const char *why)
{
	s->broken = true;
	snprintf(s->why, sizeof(s->why), "%s", why);
	shutdown(s->watch.fd, SHUT_RDWR);
	if (s->want_out)
		want_out(s, false);
}

void ln_stream_flush(struct ln_stream *s)
{
	struct iovec v[LN_IOV_MAX + 2];
	ssize_t sent;
	size_t all;
	int n;

	while (!s->broken) {
		if (s->peer)
			ln_wire_pull(s);
		n = out_iov(s, v);
		if (!n)
			break;
		all = 0;
		for (int i = 0; i < n; i++)
			all += v[i].iov_len;
		sent = send_some(s, v, n);
		if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
			ln_stream_break(s, strerror(errno));
			return;
		}
		if (sent > 0)
			consume(s, (size_t)sent);
		/* A short write: the socket is full. */
		if (sent < (ssize_t)all) {
			want_out(s, true);
			return;
		}
	}
	if (s->want_out)
		want_out(s, false);
}
