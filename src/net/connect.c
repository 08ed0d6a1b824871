/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to a peer: its addresses in order, the next one when one fails
 * or STAGGER_MS after the last, all within connect_timeout.  First the unix
 * socket if the card says the same node, then TCP: addresses of a subnet of
 * ours, then by the card's order (fastest first), loopback last.  What answers
 * must prove to be the very process (hello.c), so a wrong address is harmless.
 *
 * All in the poller.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

#include "net/link.h"

#define STAGGER_MS 250
#define RETRY_MS 50
#define DATA_TRIES 4
#define ATTEMPTS_MAX 4 /* connections under way to one peer */

static bool allowed(struct ln_net *net, int index)
{
	for (int i = 0; net->ops[i]; i++)
		if (net->ops[i]->index == index)
			return true;
	return false;
}

/* ---- order --------------------------------------------------------------- */

bool ln_addr_is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static bool same_prefix(const struct sockaddr_storage *a,
			const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a,
				  *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return !((ntohl(a4->sin_addr.s_addr) ^
			  ntohl(b4->sin_addr.s_addr)) >> 8);
	return !memcmp(&a6->sin6_addr, &b6->sin6_addr, 8);
}

/* Lower is better: subnet of ours, any, loopback. */
static int addr_rank(struct ln_net *net, const struct sockaddr_storage *a)
{
	if (ln_addr_is_loopback(a))
		return 2;
	for (int i = 0; i < net->card.naddrs; i++)
		if (same_prefix(a, &net->card.addrs[i]))
			return 0;
	return 1;
}

static void order_make(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	l->norder = 0;
	if (!allowed(p->net, LN_TP_TCP))
		return;
	for (int rank = 0; rank < 3; rank++)
		for (int i = 0; i < p->card.naddrs; i++)
			if (addr_rank(p->net, &p->card.addrs[i]) == rank)
				l->order[l->norder++] = (uint8_t)i;
}

/* ---- attempts ------------------------------------------------------------ */

static socklen_t unix_addr(const char *name, struct sockaddr_storage *out)
{
	struct sockaddr_un *u = (void *)out;
	size_t n = strlen(name);

	memset(out, 0, sizeof(*out));
	u->sun_family = AF_UNIX;
	/* The first byte stays 0: the abstract name space. */
	memcpy(u->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int conn_start(struct ln_peer *p, const struct sockaddr_storage *a,
		      socklen_t len, struct ln_conn **out)
{
	int fd = socket(a->ss_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "socket");
	ln_socket_tune(p->net, fd, a);
	if (connect(fd, (const struct sockaddr *)a, len) &&
	    errno != EINPROGRESS) {
		int code = errno == ECONNREFUSED ? LUNE_ERR_PEER
						 : LUNE_ERR_UNREACHABLE;

		ln_error_errno(code, "connect");
		close(fd);
		return code;
	}
	return ln_conn_open(p->net, fd, a->ss_family, p, out);
}

static socklen_t addr_bytes(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in)
				       : sizeof(struct sockaddr_in6);
}

/* The next address of the list; LUNE_ERR_NOTFOUND: none is left. */
static int attempt_next(struct ln_peer *p, struct ln_conn **out)
{
	struct ln_peer_link *l = p->link;
	const struct sockaddr_storage *a;
	struct sockaddr_storage u;
	socklen_t len;
	int rc;

	if (l->try_unix) {
		l->try_unix = false;
		len = unix_addr(p->card.unix_name, &u);
		rc = conn_start(p, &u, len, out);
		if (!rc)
			snprintf((*out)->where, sizeof((*out)->where),
				 "unix:%s", p->card.unix_name);
		return rc;
	}
	if (l->next_addr >= l->norder)
		return LUNE_ERR_NOTFOUND;
	a = &p->card.addrs[l->order[l->next_addr++]];
	rc = conn_start(p, a, addr_bytes(a), out);
	if (!rc)
		ln_topo_addr_text(a, 0, (*out)->where, sizeof((*out)->where));
	return rc;
}

static void fail_note(struct ln_peer_link *l, int code, const char *why)
{
	/* Our own connection losing against theirs is no failure. */
	if (code == LUNE_ERR_EXIST)
		return;
	l->fail_code = code;
	snprintf(l->fail_text, sizeof(l->fail_text), "%s", why);
}

static int conns_count(const struct ln_peer_link *l)
{
	const struct ln_conn *c;
	int n = 0;

	DL_FOREACH(l->conns, c)
		n++;
	return n;
}

static void list_restart(struct ln_peer *p)
{
	struct ln_net *net = p->net;

	p->link->next_addr = 0;
	p->link->try_unix = net->card.unix_name[0] && p->card.unix_name[0] &&
			    p->card.node[0] == net->card.node[0] &&
			    p->card.node[1] == net->card.node[1];
}

/* Start what may be started now; CONNECTING. */
static void attempts_go(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	uint64_t now = ln_now_ns();
	struct ln_conn *c;
	int rc = LUNE_ERR_AGAIN;

	while (conns_count(l) < ATTEMPTS_MAX) {
		rc = attempt_next(p, &c);
		if (rc == LUNE_OK) {
			DL_APPEND(l->conns, c);
			break;
		}
		if (rc == LUNE_ERR_NOTFOUND)
			break;
		fail_note(l, rc, lune_last_error());
	}
	if (rc != LUNE_ERR_NOTFOUND) {
		ln_timer_start(p->net, &l->timer,
			       ln_min(now + STAGGER_MS * 1000000u,
				      l->connect_until));
	} else if (l->conns) {
		ln_timer_start(p->net, &l->timer, l->connect_until);
	} else if (l->dup) {
		/* They were about to connect, too: wait for that, or again. */
		l->dup = false;
		list_restart(p);
		ln_timer_start(p->net, &l->timer,
			       ln_min(now + RETRY_MS * 1000000u,
				      l->connect_until));
	} else {
		ln_peer_unreached(p, l->fail_code, l->fail_text);
	}
}

static void attempt_timer(struct ln_net *net, struct ln_timer *t)
{
	struct ln_peer_link *l = ln_container_of(t, struct ln_peer_link,
						 timer);
	struct ln_peer *p = l->peer;

	(void)net;
	if (atomic_load(&p->state) != LN_PEER_CONNECTING)
		return;
	if (ln_now_ns() >= l->connect_until)
		ln_peer_unreached(p, l->fail_code, l->fail_text);
	else if (!l->accepting)
		attempts_go(p);
	else
		ln_timer_start(net, t, l->connect_until);
}

void ln_connect_start(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	if (atomic_load(&p->state) != LN_PEER_IDLE)
		return;
	atomic_store(&p->state, LN_PEER_CONNECTING);
	l->connect_until = ln_now_ns() +
			   (uint64_t)p->net->conf->connect_timeout * 1000000u;
	l->timer.fn = attempt_timer;
	l->dup = false;
	l->fail_code = LUNE_ERR_UNREACHABLE;
	snprintf(l->fail_text, sizeof(l->fail_text),
		 "no address of it answered in time");
	order_make(p);
	list_restart(p);
	if (!l->norder && !l->try_unix)
		snprintf(l->fail_text, sizeof(l->fail_text),
			 "no transport allowed here reaches its addresses");
	if (l->accepting)
		ln_timer_start(p->net, &l->timer, l->connect_until);
	else
		attempts_go(p);
}

/* One of ours ended without being adopted. */
void ln_connect_failed(struct ln_conn *c, int code, const char *why)
{
	struct ln_peer_link *l = c->peer->link;

	DL_DELETE(l->conns, c);
	if (c->kind == LN_CONN_CONTROL)
		fail_note(l, code, why);
	else if (l->data_tries++ < DATA_TRIES)
		ln_connect_data(c->peer);
}

/* Go on if nothing else is under way. */
void ln_connect_resume(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	if (atomic_load(&p->state) == LN_PEER_CONNECTING && !l->accepting &&
	    !l->conns)
		attempts_go(p);
}

static void conns_drop(struct ln_peer *p, int kind)
{
	struct ln_conn *c, *tmp;

	DL_FOREACH_SAFE(p->link->conns, c, tmp) {
		if (kind >= 0 && c->kind != kind)
			continue;
		DL_DELETE(p->link->conns, c);
		ln_conn_free(c);
	}
}

void ln_connect_abandon(struct ln_peer *p)
{
	conns_drop(p, LN_CONN_CONTROL);
}

void ln_connect_stop(struct ln_peer *p)
{
	struct ln_conn *c = p->link->accepting;

	ln_timer_stop(p->net, &p->link->timer);
	conns_drop(p, -1);
	p->link->accepting = NULL;
	if (c) {
		ln_listen_drop_conn(p->net, c);
		ln_conn_free(c);
	}
}

/* ---- data connections ---------------------------------------------------- */

static int streams_wanted(const struct ln_net *net)
{
	if (net->conf->tcp_streams)
		return (int)net->conf->tcp_streams;
	/* One stream fills two cores; more help where there are more. */
	return net->topo->allowed_cores >= 8 ? 4 : 1;
}

static bool stream_missing(const struct ln_peer_link *l, int index)
{
	const struct ln_conn *c;

	if (l->streams[index])
		return false;
	DL_FOREACH(l->conns, c)
		if (c->kind == LN_CONN_DATA && c->index == index)
			return false;
	return true;
}

/* To the address that the control connection found. */
void ln_connect_data(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct ln_conn *c;

	if (l->is_unix || !l->connector ||
	    atomic_load(&p->state) != LN_PEER_UP ||
	    getpeername(l->streams[0]->watch.fd, (struct sockaddr *)&a, &len))
		return;
	for (int i = 1; i <= streams_wanted(p->net); i++) {
		if (!stream_missing(l, i))
			continue;
		if (conn_start(p, &a, len, &c))
			return;
		c->kind = LN_CONN_DATA;
		c->index = (uint8_t)i;
		memcpy(c->where, l->where, sizeof(c->where));
		DL_APPEND(l->conns, c);
	}
}
