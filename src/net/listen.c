/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets and the connections that have not proven themselves: at
 * most UNPROVEN_MAX, each for a few seconds (hello.c); more are closed at
 * once.  Two TCP sockets (v4, v6) on any address, and an abstract unix one.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "net/link.h"

#define UNPROVEN_MAX 256
#define ACCEPTS_MAX 16 /* per event */
#define BACKLOG 512

enum { SOCK_V4, SOCK_V6, SOCK_UNIX, SOCKS };

struct ln_listen {
	struct ln_watch watch[SOCKS];
	struct ln_conn *conns;
	int nconns;
	struct ln_timer retry; /* out of descriptors: listen again later */
};

/*
 * Pacing (bbr) does loopback no good: half the rate of cubic was measured.
 * Not all names are allowed everywhere; the system's choice is the last.
 */
static void congestion_set(struct ln_net *net, int fd, bool loopback)
{
	const char *const names[] = { "cubic", "reno" };
	const char *cc = net->conf->tcp_congestion;

	if (cc && cc[0]) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
			ln_debug("congestion control %s: %m", cc);
		return;
	}
	for (size_t i = 0; loopback && i < LN_ARRAY_SIZE(names); i++)
		if (!setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i],
				strlen(names[i])))
			return;
}

void ln_socket_tune(struct ln_net *net, int fd,
		    const struct sockaddr_storage *a)
{
	int one = 1;
	unsigned ms = (unsigned)net->conf->peer_timeout;

	if (a->ss_family == AF_UNIX)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	congestion_set(net, fd, ln_addr_is_loopback(a));
}

static void accepted(struct ln_net *net, int fd,
		     const struct sockaddr_storage *a)
{
	struct ln_listen *l = net->listen;
	struct ln_conn *c;

	if (l->nconns >= UNPROVEN_MAX) {
		ln_count(net->counters, refused_auth, 1);
		close(fd);
		return;
	}
	ln_socket_tune(net, fd, a);
	if (ln_conn_open(net, fd, a->ss_family, NULL, &c))
		return;
	if (a->ss_family == AF_UNIX)
		snprintf(c->where, sizeof(c->where), "unix");
	else
		ln_topo_addr_text(a, 0, c->where, sizeof(c->where));
	DL_APPEND(l->conns, c);
	l->nconns++;
}

static void listen_event(struct ln_net *net, struct ln_watch *w,
			 uint32_t events)
{
	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage a = { 0 };
		socklen_t n = sizeof(a);
		int fd = accept4(w->fd, (struct sockaddr *)&a, &n,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accepted(net, fd, &a);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			/* Level-triggered: it would be reported for ever. */
			ln_warn("accept: %m");
			ln_engine_rewatch(net, w, 0);
			ln_timer_start(net, &net->listen->retry,
				       ln_now_ns() + 1000000000u);
		}
		return;
	}
}

static void retry_listen(struct ln_net *net, struct ln_timer *t)
{
	(void)t;
	for (int i = 0; i < SOCKS; i++)
		if (net->listen->watch[i].fd >= 0)
			ln_engine_rewatch(net, &net->listen->watch[i], EPOLLIN);
}

void ln_listen_drop_conn(struct ln_net *net, struct ln_conn *c)
{
	DL_DELETE(net->listen->conns, c);
	net->listen->nconns--;
}

/* A socket listening on `a`; its name comes back in it. */
static int listen_on(struct ln_net *net, int which, struct sockaddr_storage *a,
		     socklen_t len)
{
	struct ln_watch *w = &net->listen->watch[which];
	int one = 1, fd;
	socklen_t n = sizeof(*a);

	fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return LUNE_ERR_UNSUPPORTED;
	if (which == SOCK_V6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	/* A port of one's own choice may have old connections in TIME_WAIT. */
	if (which != SOCK_UNIX && net->conf->tcp_port)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)a, len) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)a, &n)) {
		ln_error_errno(LUNE_ERR_SYSTEM, "listening on port %d",
			       which == SOCK_UNIX ? 0
						  : (int)net->conf->tcp_port);
		close(fd);
		return LUNE_ERR_SYSTEM;
	}
	w->fd = fd;
	w->fn = listen_event;
	return ln_engine_watch(net, w, EPOLLIN);
}

int ln_listen_unix(struct ln_net *net, struct ln_card *card)
{
	struct sockaddr_storage a = { .ss_family = AF_UNIX };
	struct sockaddr_un *u = (void *)&a;
	char name[64], id[LN_UUID_TEXT];
	size_t n;
	int rc;

	ln_uuid_text(&card->uuid, id);
	n = (size_t)snprintf(name, sizeof(name), "lune-%s", id);
	memcpy(u->sun_path + 1, name, n);
	rc = listen_on(net, SOCK_UNIX, &a,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   n));
	if (!rc)
		memcpy(card->unix_name, name, n + 1);
	return rc;
}

/* Ports by family, 0: that family is not there. */
int ln_listen_tcp(struct ln_net *net, int *port4, int *port6)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *v4 = (void *)&a;
	struct sockaddr_in6 *v6 = (void *)&a;
	int port = (int)net->conf->tcp_port, rc4, rc6;

	*port4 = *port6 = 0;
	v4->sin_family = AF_INET;
	v4->sin_port = htons((uint16_t)port);
	rc4 = listen_on(net, SOCK_V4, &a, sizeof(*v4));
	if (!rc4)
		*port4 = ntohs(v4->sin_port);
	memset(&a, 0, sizeof(a));
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	rc6 = listen_on(net, SOCK_V6, &a, sizeof(*v6));
	if (!rc6)
		*port6 = ntohs(v6->sin6_port);
	/* A port that was asked for must not be another's in one family. */
	if (port && (rc4 == LUNE_ERR_SYSTEM || rc6 == LUNE_ERR_SYSTEM))
		return LUNE_ERR_SYSTEM;
	return rc4 && rc6 ? rc4 : LUNE_OK;
}

int ln_listen_open(struct ln_net *net)
{
	net->listen = ln_calloc(1, sizeof(*net->listen));
	if (!net->listen)
		return LUNE_ERR_NOMEM;
	net->listen->retry.fn = retry_listen;
	for (int i = 0; i < SOCKS; i++)
		net->listen->watch[i].fd = -1;
	return LUNE_OK;
}

/* No poller runs any more. */
void ln_listen_close(struct ln_net *net)
{
	struct ln_listen *l = net->listen;
	struct ln_conn *c, *tmp;

	if (!l)
		return;
	DL_FOREACH_SAFE(l->conns, c, tmp) {
		DL_DELETE(l->conns, c);
		ln_conn_free(c);
	}
	ln_timer_stop(net, &l->retry);
	for (int i = 0; i < SOCKS; i++) {
		int fd = l->watch[i].fd;

		if (fd < 0)
			continue;
		ln_engine_unwatch(net, &l->watch[i]);
		close(fd);
	}
	ln_free(l);
	net->listen = NULL;
}

void ln_listen_forked(struct ln_net *net)
{
	struct ln_conn *c;

	for (int i = 0; i < SOCKS; i++)
		if (net->listen->watch[i].fd >= 0)
			close(net->listen->watch[i].fd);
	DL_FOREACH(net->listen->conns, c)
		if (c->s)
			close(c->s->watch.fd);
}
