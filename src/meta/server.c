/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded metadata server: one thread, one epoll set, no blocking call.
 * Used by rank 0 of a job that has no etcd, and standalone.
 *
 * Invariants
 * 1. Only the thread touches the store and the sessions, so there are no
 *    locks; start and stop hand everything over with the thread itself.
 * 2. A session that breaks a rule is marked dead and closed at the end of the
 *    round, never in its midst: events of this round may still point to it.
 * 3. Nothing that a client sends makes the server wait: half frames and slow
 *    readers are dropped after a time, readers of a watch are told only as
 *    much as they take.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "meta/server.h"

#define EVENTS_MAX 64
#define SWEEP_NS 1000000000ull
/* Time for the handshake, or for the rest of a frame that has begun. */
#define HALF_FRAME_NS (30 * 1000000000ull)
#define HANDSHAKE_NS (10 * 1000000000ull)

/* ---- sessions ----------------------------------------------------------- */

static void arm(struct ln_meta_session *c)
{
	struct epoll_event e = { .events = ln_meta_session_events(c),
				 .data.ptr = c };

	if (c->dead || e.events == c->armed)
		return;
	if (epoll_ctl(c->server->epoll_fd, EPOLL_CTL_MOD, c->fd, &e))
		c->dead = true;
	c->armed = e.events;
}

/* Asked for on the listening socket, which is known by a NULL pointer. */
static void listen_for(struct ln_meta_server *s, bool on)
{
	struct epoll_event e = { .events = on ? EPOLLIN : 0 };

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &e);
	s->accepting = on;
}

static void set_options(int fd)
{
	int on = 1, idle = 10, interval = 5, count = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static void add_client(struct ln_meta_server *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct ln_meta_session *c;

	set_options(fd);
	if (s->session_count >= LN_META_CLIENTS_MAX) {
		ln_warn("metadata server: more than %d clients",
			LN_META_CLIENTS_MAX);
		close(fd);
		return;
	}
	if (ln_meta_session_open(s, fd, &c)) {
		close(fd);
		return;
	}
	e.data.ptr = c;
	c->armed = e.events;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e))
		c->dead = true;
	DL_APPEND(s->sessions, c);
	s->session_count++;
	ln_meta_session_flush(c);
	arm(c);
}

static void accept_clients(struct ln_meta_server *s)
{
	int fd;

	for (;;) {
		fd = accept4(s->listen_fd, NULL, NULL,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			add_client(s, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		/* Out of descriptors: the next sweep tries again. */
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			listen_for(s, false);
		return;
	}
}

static void reap(struct ln_meta_server *s)
{
	struct ln_meta_session *c, *tmp;

	DL_FOREACH_SAFE(s->sessions, c, tmp) {
		if (!c->dead)
			continue;
		DL_DELETE(s->sessions, c);
		s->session_count--;
		/* Closing is not enough: a child of a fork may hold it. */
		epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
		ln_meta_session_close(c);
	}
}

/* Drop those that began something and do not finish it. */
static void sweep(struct ln_meta_server *s, uint64_t now)
{
	struct ln_meta_session *c;
	uint64_t limit;

	DL_FOREACH(s->sessions, c) {
		limit = c->welcome ? HALF_FRAME_NS : HANDSHAKE_NS;
		if (c->since && now - c->since > limit)
			c->dead = true;
	}
	if (!s->accepting)
		listen_for(s, true);
	s->next_sweep = now + SWEEP_NS;
}

/* ---- the thread --------------------------------------------------------- */

static void tell_watches(struct ln_meta_server *s)
{
	struct ln_meta_session *c;

	DL_FOREACH(s->sessions, c) {
		if (!c->watch_rev || c->dead)
			continue;
		ln_meta_session_flush(c);
		arm(c);
	}
}

static void handle(struct ln_meta_server *s, const struct epoll_event *e)
{
	struct ln_meta_session *c = e->data.ptr;

	if (!c) {
		accept_clients(s);
		return;
	}
	if (c->dead)
		return;
	if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		ln_meta_session_readable(c);
	if (!c->dead)
		ln_meta_session_flush(c);
	arm(c);
}

/* One round; told is the revision that watches know of. */
static uint64_t serve_round(struct ln_meta_server *s, uint64_t told)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t wake, now;
	int n;

	wake = ln_meta_store_expire(s->store);
	if (s->sessions || !s->accepting)
		wake = ln_min(wake, s->next_sweep);
	if (told != ln_meta_store_revision(s->store))
		wake = 0;
	n = epoll_wait(s->epoll_fd, events, EVENTS_MAX,
		       ln_deadline_left_ms(wake));
	for (int i = 0; i < n; i++) {
		/* The stop descriptor only has to wake us. */
		if (events[i].data.ptr != &s->stop)
			handle(s, &events[i]);
	}
	if (told != ln_meta_store_revision(s->store)) {
		told = ln_meta_store_revision(s->store);
		tell_watches(s);
	}
	now = ln_now_ns();
	if (now >= s->next_sweep)
		sweep(s, now);
	reap(s);
	return told;
}

static void *serve(void *arg)
{
	struct ln_meta_server *s = arg;
	uint64_t told = ln_meta_store_revision(s->store);

	while (!atomic_load(&s->stop.on))
		told = serve_round(s, told);
	return NULL;
}

/* ---- start and stop ----------------------------------------------------- */

static int bind_to(struct ln_meta_server *s, const struct addrinfo *a)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	int on = 1;

	s->listen_fd = socket(a->ai_family,
			      SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->listen_fd < 0)
		return -1;
	setsockopt(s->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(s->listen_fd, a->ai_addr, a->ai_addrlen) ||
	    listen(s->listen_fd, 1024) ||
	    getsockname(s->listen_fd, (struct sockaddr *)&ss, &n)) {
		close(s->listen_fd);
		return -1;
	}
	s->port = ntohs(ss.ss_family == AF_INET6
			? ((struct sockaddr_in6 *)&ss)->sin6_port
			: ((struct sockaddr_in *)&ss)->sin_port);
	return 0;
}

static int listen_on(struct ln_meta_server *s, const char *host, int port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *a;
	char text[8];
	int rc;

	host = host ? host : "127.0.0.1";
	if (port < 0 || port > 65535)
		return ln_error(LUNE_ERR_INVAL, "port %d", port);
	snprintf(text, sizeof(text), "%d", port);
	rc = getaddrinfo(host, text, &hints, &a);
	if (rc)
		return ln_error(LUNE_ERR_INVAL, "address \"%s\": %s", host,
				gai_strerror(rc));
	rc = bind_to(s, a);
	if (rc)
		rc = ln_error_errno(LUNE_ERR_SYSTEM,
				    "metadata server cannot listen on %s:%d",
				    host, port);
	freeaddrinfo(a);
	return rc;
}

static int make_epoll(struct ln_meta_server *s)
{
	struct epoll_event e = { .events = EPOLLIN };

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "epoll_create");
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &e))
		goto fail;
	e.data.ptr = &s->stop;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->stop.fd, &e))
		goto fail;
	s->accepting = true;
	return 0;
fail:
	ln_error_errno(LUNE_ERR_SYSTEM, "epoll_ctl");
	close(s->epoll_fd);
	return LUNE_ERR_SYSTEM;
}

static int start(struct ln_meta_server *s,
		 const struct ln_meta_server_opts *o)
{
	int rc;

	rc = ln_meta_store_open(o->max_bytes, &s->store);
	if (rc)
		return rc;
	rc = ln_meta_stop_init(&s->stop);
	if (rc)
		goto no_stop;
	rc = listen_on(s, o->host, o->port);
	if (rc)
		goto no_listen;
	rc = make_epoll(s);
	if (rc)
		goto no_epoll;
	rc = pthread_create(&s->thread, NULL, serve, s);
	if (!rc)
		return 0;
	errno = rc;
	rc = ln_error_errno(LUNE_ERR_SYSTEM, "no thread for the server");
	close(s->epoll_fd);
no_epoll:
	close(s->listen_fd);
no_listen:
	ln_meta_stop_fini(&s->stop);
no_stop:
	ln_meta_store_close(s->store);
	return rc;
}

int ln_meta_server_start(const struct ln_meta_server_opts *o,
			 struct ln_meta_server **out)
{
	struct ln_meta_server *s;
	int rc;

	s = ln_calloc(1, sizeof(*s));
	if (!s)
		return LUNE_ERR_NOMEM;
	s->has_key = o->key != NULL;
	if (o->key)
		memcpy(s->key, o->key, sizeof(s->key));
	rc = start(s, o);
	if (rc) {
		ln_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

int ln_meta_server_port(const struct ln_meta_server *s)
{
	return s->port;
}

void ln_meta_server_stop(struct ln_meta_server *s)
{
	struct ln_meta_session *c, *tmp;

	if (!s)
		return;
	ln_meta_stop_raise(&s->stop);
	pthread_join(s->thread, NULL);
	DL_FOREACH_SAFE(s->sessions, c, tmp)
		ln_meta_session_close(c);
	close(s->epoll_fd);
	close(s->listen_fd);
	ln_meta_stop_fini(&s->stop);
	ln_meta_store_close(s->store);
	ln_free(s);
}
