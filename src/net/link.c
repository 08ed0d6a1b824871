/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's proven connections: taking them over, their own frames, heartbeats
 * and death.  All in the poller, except ln_link_send and the accessors.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "net/link.h"

/* ---- up ------------------------------------------------------------------ */

static void pidfd_event(struct ln_net *net, struct ln_watch *w, uint32_t events)
{
	struct ln_peer_link *l = ln_container_of(w, struct ln_peer_link, pidfd);

	(void)net;
	(void)events;
	ln_peer_die(l->peer, LUNE_ERR_PEER, "the process has ended");
}

/* A child of a fork may hold the peer's socket open: watch the process too. */
static void pid_watch(struct ln_peer *p, int fd)
{
	struct ln_peer_link *l = p->link;
	struct ucred cred = { 0 };
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) || !cred.pid)
		return;
	l->pid = cred.pid;
#ifdef SYS_pidfd_open
	l->pidfd.fd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	l->pidfd.fn = pidfd_event;
	if (l->pidfd.fd >= 0 &&
	    ln_engine_watch(p->net, &l->pidfd, EPOLLIN)) {
		close(l->pidfd.fd);
		l->pidfd.fd = -1;
	}
#endif
}

static void transports_up(struct ln_peer *p)
{
	struct ln_net *net = p->net;
	struct ln_peer_link *l = p->link;

	for (int i = 0; net->ops[i]; i++) {
		const struct ln_net_ops *o = net->ops[i];

		if (!o->reaches(net, &p->card))
			continue;
		if (o->up && o->up(p)) {
			ln_info("%s does not carry peer %d: %s", o->name,
				p->card.pid, lune_last_error());
			continue;
		}
		l->ups[o->index] = true;
		if (!l->primary)
			l->primary = o;
	}
	/* Frames over the control connection always work. */
	if (!l->primary)
		l->primary = &ln_net_tcp;
}

static void stream_take(struct ln_peer *p, struct ln_conn *c)
{
	struct ln_peer_link *l = p->link;
	struct ln_stream *s = c->s;

	s->conn = NULL;
	s->index = c->index;
	pthread_mutex_lock(&p->lock);
	s->peer = p;
	l->streams[c->index] = s;
	l->nstreams = ln_max(l->nstreams, c->index + 1);
	ln_wire_kick(p);
	ln_link_unlock(p);
}

static void control_up(struct ln_peer *p, struct ln_conn *c)
{
	struct ln_peer_link *l = p->link;
	char text[256];

	l->is_unix = c->s->family == AF_UNIX;
	l->connector = c->out;
	l->heard_at = ln_now_ns();
	memcpy(l->where, c->where, sizeof(l->where));
	ln_timer_stop(p->net, &l->timer);
	if (l->is_unix)
		pid_watch(p, c->s->watch.fd);
	stream_take(p, c);
	ln_peer_ref(p); /* the link's */
	ln_count(p->net->counters, connects, 1);
	transports_up(p);
	atomic_store_explicit(&p->state, LN_PEER_UP, memory_order_release);
	ln_peer_text(p, text, sizeof(text));
	ln_info("connected to %s", text);
}

bool ln_link_adopt(struct ln_peer *p, struct ln_conn *c)
{
	struct ln_peer_link *l = p->link;
	struct ln_frame ready = { .type = LN_FRAME_READY };
	int state = atomic_load(&p->state);

	if (c->kind == LN_CONN_DATA) {
		if (state != LN_PEER_UP || l->streams[c->index])
			return false;
		if (c->out)
			DL_DELETE(l->conns, c);
		stream_take(p, c);
		return true;
	}
	if (state == LN_PEER_UP || state == LN_PEER_DEAD)
		return false;
	if (c->out)
		DL_DELETE(l->conns, c);
	else
		l->accepting = NULL;
	ln_connect_abandon(p);
	control_up(p, c);
	/* Tells the connector that data connections would be taken now. */
	if (!c->out)
		ln_link_reply(p, &ready);
	ln_link_flush_acks(p);
	ln_peer_pump(p);
	ln_net_event(p->net);
	return true;
}

/* ---- frames -------------------------------------------------------------- */

int ln_link_reply(struct ln_peer *p, const struct ln_frame *f)
{
	struct ln_peer_link *l = p->link;
	int rc = LUNE_ERR_PEER;

	pthread_mutex_lock(&p->lock);
	if (l->streams[0])
		rc = ln_stream_queue(l->streams[0], f, NULL, 0);
	l->must_flush = true;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void ln_link_ack(struct ln_peer *p, uint64_t op)
{
	struct ln_peer_link *l = p->link;

	if (l->nacks == LN_ACKS_MAX)
		ln_link_flush_acks(p);
	l->acks[l->nacks++] = op;
}

void ln_link_flush_acks(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_frame f = { .type = LN_FRAME_ACK };
	uint8_t ids[LN_ACKS_MAX * 8];
	struct iovec v = { ids, 0 };
	int rc = LUNE_OK;

	if (!l->nacks && !l->must_flush)
		return;
	pthread_mutex_lock(&p->lock);
	if (l->streams[0] && l->nacks) {
		ln_words_encode(l->acks, l->nacks, ids);
		f.bytes = v.iov_len = (size_t)l->nacks * 8;
		rc = ln_stream_queue(l->streams[0], &f, &v, 1);
	}
	l->nacks = 0;
	l->must_flush = false;
	if (l->streams[0] && !l->streams[0]->want_out)
		ln_stream_flush(l->streams[0]);
	ln_link_unlock(p);
	if (rc)
		ln_peer_kill(p, rc, "it takes no acknowledgements");
}

static int user_frame(struct ln_stream *s, const struct ln_frame *f,
		      const void *body)
{
	struct ln_net *net = s->net;
	int fd = -1;

	if (f->flags & LN_FRAME_FD) {
		if (!s->in_nfds)
			return ln_error(LUNE_ERR_PROTO,
					"a frame lacks its descriptor");
		fd = s->in_fds[0];
		s->in_nfds--;
		memmove(s->in_fds, s->in_fds + 1,
			sizeof(s->in_fds[0]) * (size_t)s->in_nfds);
	}
	if (net->handlers[f->type])
		return net->handlers[f->type](s->peer, f, body, fd);
	/* Of a transport that is not allowed here. */
	if (fd >= 0)
		close(fd);
	return LUNE_OK;
}

int ln_link_frame(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta, const void *body)
{
	struct ln_frame pong = { .type = LN_FRAME_PONG };

	if (f->type >= LN_FRAME_USER)
		return user_frame(s, f, body);
	switch (f->type) {
	case LN_FRAME_PING:
		return ln_link_reply(s->peer, &pong);
	case LN_FRAME_PONG:
		return LUNE_OK;
	case LN_FRAME_READY:
		if (s->index == 0)
			ln_connect_data(s->peer);
		return LUNE_OK;
	case LN_FRAME_BYE:
		s->peer->link->said_bye = true;
		return ln_error(LUNE_ERR_PEER, "it left");
	}
	return ln_wire_frame(s, f, meta, body);
}

void ln_frame_register(struct ln_net *net, int type, ln_frame_fn *fn)
{
	net->handlers[type] = fn;
}

int ln_link_send(struct ln_peer *p, const struct ln_frame *f, const void *body,
		 int fd)
{
	struct ln_peer_link *l = p->link;
	struct iovec v = { (void *)body, f->bytes };
	struct ln_frame g = *f;
	int rc;

	g.count = 0;
	pthread_mutex_lock(&p->lock);
	if (!l->streams[0])
		rc = ln_error(LUNE_ERR_PEER, "not connected");
	else if (f->type < LN_FRAME_USER || f->bytes > LN_USER_BYTES_MAX)
		rc = ln_error(LUNE_ERR_INVAL, "not a transport's frame");
	else if (fd >= 0)
		rc = ln_stream_queue_fd(l->streams[0], &g, body, fd);
	else
		rc = ln_stream_queue(l->streams[0], &g, &v, 1);
	if (!rc && !l->streams[0]->want_out)
		ln_stream_flush(l->streams[0]);
	ln_link_unlock(p);
	return rc;
}

bool ln_link_is_unix(const struct ln_peer *p)
{
	return p->link->is_unix;
}

int ln_link_pid(const struct ln_peer *p)
{
	return p->link->pid;
}

/* ---- heartbeats ---------------------------------------------------------- */

struct beat {
	uint64_t now;
	bool late; /* we ourselves slept: silence means nothing */
};

static void beat_peer(struct ln_peer *p, void *arg)
{
	struct beat *b = arg;
	struct ln_peer_link *l = p->link;
	struct ln_frame ping = { .type = LN_FRAME_PING };
	uint64_t silent;
	char why[96];

	if (atomic_load(&p->state) != LN_PEER_UP || !l->streams[0])
		return;
	if (l->heard || b->late) {
		l->heard = false;
		l->heard_at = b->now;
		return;
	}
	silent = (b->now - l->heard_at) / 1000000u;
	if (silent > (uint64_t)p->net->conf->peer_timeout) {
		snprintf(why, sizeof(why), "no sign of life for %llu ms",
			 (unsigned long long)silent);
		ln_peer_die(p, LUNE_ERR_PEER, why);
		return;
	}
	ln_count(p->net->counters, heartbeats_sent, 1);
	ln_link_reply(p, &ping);
	ln_link_flush_acks(p);
}

void ln_link_tick(struct ln_net *net)
{
	uint64_t beat_ns = (uint64_t)net->conf->heartbeat * 1000000u;
	struct beat b = { .now = ln_now_ns() };

	b.late = b.now - net->last_beat > 3 * beat_ns;
	net->last_beat = b.now;
	ln_peers_each(net, beat_peer, &b);
}

void ln_link_bye(struct ln_peer *p)
{
	struct ln_frame bye = { .type = LN_FRAME_BYE };

	if (atomic_load(&p->state) != LN_PEER_UP)
		return;
	ln_link_reply(p, &bye);
	ln_link_flush_acks(p);
}

/* ---- death --------------------------------------------------------------- */

/* Jobs whose pieces were going out are nobody's now; lock held. */
static void stream_orphan(struct ln_peer_link *l, struct ln_stream *s)
{
	struct ln_job *j = s->piece && s->piece->busy ? s->piece->job : NULL;

	if (!j)
		return;
	s->piece->job = NULL;
	if (--j->pieces == 0 && j->at == j->count)
		LL_PREPEND(l->job_free, j);
}

static void streams_close(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_stream *list[LN_STREAMS_MAX];
	int n = 0;

	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < l->nstreams; i++) {
		if (!l->streams[i])
			continue;
		stream_orphan(l, l->streams[i]);
		list[n++] = l->streams[i];
		l->streams[i] = NULL;
	}
	l->nstreams = 0;
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < n; i++)
		ln_stream_close(list[i]);
	if (l->pidfd.fd >= 0) {
		int fd = l->pidfd.fd;

		ln_engine_unwatch(p->net, &l->pidfd);
		close(fd);
	}
}

static void transports_down(struct ln_peer *p)
{
	struct ln_net *net = p->net;

	for (int i = 0; net->ops[i]; i++) {
		const struct ln_net_ops *o = net->ops[i];

		if (!p->link->ups[o->index])
			continue;
		/* Others read it to choose a route. */
		pthread_mutex_lock(&net->import_lock);
		p->link->ups[o->index] = false;
		pthread_mutex_unlock(&net->import_lock);
		if (o->down)
			o->down(p);
	}
}

void ln_peer_die(struct ln_peer *p, int code, const char *why)
{
	struct ln_peer_link *l = p->link;
	int was = atomic_load(&p->state);
	struct ln_op *op, *tmp;
	char text[256];

	if (was == LN_PEER_DEAD)
		return;
	ln_peer_text(p, text, sizeof(text));
	if (l->said_bye)
		ln_info("%s left", text);
	else
		ln_warn("lost %s: %s", text,
			*why ? why : lune_strerror(code));
	ln_count(p->net->counters, peers_lost, l->said_bye ? 0 : 1);
	ln_peer_ref(p);
	pthread_mutex_lock(&p->lock);
	p->death_code = code;
	snprintf(l->fail_text, sizeof(l->fail_text), "%s", why);
	atomic_store_explicit(&p->state, LN_PEER_DEAD, memory_order_release);
	pthread_mutex_unlock(&p->lock);
	ln_connect_stop(p);
	streams_close(p);
	if (was == LN_PEER_UP)
		transports_down(p);
	pthread_mutex_lock(&p->lock);
	ln_wire_fail(p, code);
	DL_FOREACH_SAFE(p->pending, op, tmp) {
		DL_DELETE(p->pending, op);
		atomic_fetch_sub(&l->npending, 1);
		op->spare[LN_SPARE_FLAGS] = 0;
		op->bytes = op->index = 0;
		ln_wire_done(l, op, code);
	}
	ln_link_unlock(p);
	if (p->net->cb.peer_down)
		p->net->cb.peer_down(p->net->cb.arg, p);
	ln_net_event(p->net);
	if (was == LN_PEER_UP)
		ln_peer_unref(p); /* the link's */
	ln_peer_unref(p);
}
