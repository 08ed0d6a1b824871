/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the tcp rendezvous: a thread of rank 0 that collects the cards
 * of all ranks and hands them out.
 *
 *	accept -> HELLO -> [PROOF] -> joined -> card given -> ALL sent -> closed
 *
 * One poll loop over non-blocking sockets, so nobody who connects can hold
 * anybody up.  A connection that has not joined in time is dropped, and only
 * so many of these strangers are kept (the oldest goes), so that scanners and
 * half-open connections neither disturb nor fill the table.
 *
 * What the messages do is in tcp_rules.c.
 *
 * Invariants:
 *  1. rank_conn[r] is the one connection that joined as r, or NULL.
 *  2. Output is either `out` or `all`; it is never changed while being sent.
 *  3. Once `all` is set the world is complete and never fails.
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/tcp_server.h"

static void drop(struct ln_rdv_server *s, struct ln_conn *c)
{
	DL_DELETE(s->conns, c);
	s->nconns--;
	if (c->stage == LN_NEW || c->stage == LN_CHALLENGED)
		s->nstrangers--;
	if (s->rank_conn[c->hello.rank] == c)
		s->rank_conn[c->hello.rank] = NULL;
	close(c->fd);
	ln_free(c);
}

/* The connection is over, by itself or by what it sent. */
static void lose(struct ln_rdv_server *s, struct ln_conn *c)
{
	unsigned rank = c->hello.rank;
	bool joined = c->stage == LN_JOINED;

	drop(s, c);
	if (joined)
		ln_rules_left(s, rank);
}

/* false: the connection is to be lost. */
static bool receive(struct ln_rdv_server *s, struct ln_conn *c)
{
	uint8_t waste[512];
	ssize_t n;

	if (c->stage == LN_LEAVING)
		n = recv(c->fd, waste, sizeof(waste), 0);
	else
		n = recv(c->fd, c->in + c->in_len,
			 sizeof(c->in) - c->in_len, 0);
	if (!n)
		return false;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (c->stage == LN_LEAVING)
		return true;
	c->in_len += (size_t)n;
	return ln_rules_parse(s, c);
}

static bool send_some(struct ln_conn *c, const uint8_t *p, size_t len,
		      size_t *at)
{
	while (*at < len) {
		ssize_t n = send(c->fd, p + *at, len - *at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		*at += (size_t)n;
		if (c->stage == LN_LEAVING && c->sends_all)
			c->deadline = ln_deadline(LN_SERVER_STRANGER_MS, 0);
	}
	return true;
}

static bool wants_to_send(const struct ln_rdv_server *s,
			  const struct ln_conn *c)
{
	return c->out_at < c->out_len ||
	       (c->sends_all && c->all_at < s->all_len);
}

/* false: the connection is broken. */
static bool transmit(struct ln_rdv_server *s, struct ln_conn *c)
{
	if (!send_some(c, c->out, c->out_len, &c->out_at))
		return false;
	if (c->out_at == c->out_len)
		c->out_at = c->out_len = 0;
	if (!c->out_len && c->sends_all &&
	    !send_some(c, s->all, s->all_len, &c->all_at))
		return false;
	/*
	 * Closing with something unread would reset the connection and take
	 * back what was just sent: wait for the other side to close.
	 */
	if (c->stage == LN_LEAVING && !c->shut && !wants_to_send(s, c)) {
		c->shut = true;
		c->deadline = ln_deadline(LN_SERVER_LINGER_MS, 0);
		shutdown(c->fd, SHUT_WR);
	}
	return true;
}

static void adopt(struct ln_rdv_server *s, int fd)
{
	struct ln_conn *c, *old;

	if (s->nstrangers >= LN_SERVER_STRANGERS) {
		DL_FOREACH(s->conns, old)
			if (old->stage == LN_NEW || old->stage == LN_CHALLENGED)
				break;
		if (old)
			drop(s, old);
	}
	c = ln_calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->deadline = ln_deadline(LN_SERVER_STRANGER_MS, 0);
	DL_APPEND(s->conns, c);
	s->nconns++;
	s->nstrangers++;
}

static void accept_all(struct ln_rdv_server *s)
{
	/* Bounded, so that a flood does not keep us from the ranks. */
	for (int i = 0; i < LN_SERVER_STRANGERS; i++) {
		int fd = accept4(s->listen_fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		adopt(s, fd);
	}
}

/* What has become too late, and when to look again. */
static uint64_t check_time(struct ln_rdv_server *s)
{
	uint64_t next = LN_NEVER;
	struct ln_conn *c, *tmp;

	for (int i = 0; i < s->size && !s->all && !s->failed_code; i++) {
		if (!s->there[i])
			continue;
		if (ln_deadline_passed(s->answer_by[i]))
			ln_rules_late(s);
		next = ln_min(next, s->answer_by[i]);
	}
	DL_FOREACH_SAFE(s->conns, c, tmp) {
		if (c->stage == LN_JOINED)
			continue;
		if (ln_deadline_passed(c->deadline))
			drop(s, c);
		else
			next = ln_min(next, c->deadline);
	}
	return next;
}

static int make_polls(struct ln_rdv_server *s, size_t *count)
{
	size_t want = (size_t)s->nconns + 2, n = 0;
	struct ln_conn *c;

	if (want > s->polls_cap) {
		struct pollfd *p = ln_realloc_array(s->polls, 2 * want,
						    sizeof(*p));

		if (!p)
			return LUNE_ERR_NOMEM;
		s->polls = p;
		s->polls_cap = 2 * want;
	}
	s->polls[n++] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
	s->polls[n++] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
	DL_FOREACH(s->conns, c) {
		short events = POLLIN;

		if (wants_to_send(s, c))
			events |= POLLOUT;
		s->polls[n++] = (struct pollfd){ .fd = c->fd,
						 .events = events };
	}
	*count = n;
	return LUNE_OK;
}

/*
 * Handling one connection may make others LN_LEAVING, but removes only itself,
 * so the list and the poll array stay in step.
 */
static void serve(struct ln_rdv_server *s, size_t count)
{
	struct ln_conn *c, *tmp;
	size_t i = 2;

	DL_FOREACH_SAFE(s->conns, c, tmp) {
		short got = i < count ? s->polls[i++].revents : 0;
		bool alive = true;

		if (got & (POLLIN | POLLHUP | POLLERR))
			alive = receive(s, c);
		if (alive && (got || wants_to_send(s, c)))
			alive = transmit(s, c);
		if (!alive)
			lose(s, c);
	}
	if (s->polls[1].revents)
		accept_all(s);
}

static bool finished(struct ln_rdv_server *s)
{
	struct ln_conn *c;
	bool owing = false;

	/* All ranks were served: the port is free for the next world. */
	if (s->all && !s->nconns)
		return true;
	if (!atomic_load(&s->stop))
		return false;
	DL_FOREACH(s->conns, c)
		owing |= c->stage == LN_LEAVING;
	return !owing || ln_deadline_passed(atomic_load(&s->till));
}

static void *run(void *arg)
{
	struct ln_rdv_server *s = arg;
	size_t count;

	while (!finished(s)) {
		uint64_t next = check_time(s);
		bool stop = atomic_load(&s->stop);

		if (make_polls(s, &count))
			break;
		if (stop)
			next = ln_min(next, atomic_load(&s->till));
		/* It stays readable after stop: do not spin on it. */
		s->polls[0].events = stop ? 0 : POLLIN;
		if (poll(s->polls, count, ln_deadline_left_ms(next)) < 0 &&
		    errno != EINTR)
			break;
		serve(s, count);
	}
	close(s->listen_fd);
	s->listen_fd = -1;
	while (s->conns)
		drop(s, s->conns);
	return NULL;
}

static void server_free(struct ln_rdv_server *s)
{
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	for (int i = 0; s->cards && i < s->size; i++)
		ln_free(s->cards[i].bytes);
	ln_free(s->cards);
	ln_free(s->rank_conn);
	ln_free(s->there);
	ln_free(s->answer_by);
	ln_free(s->all);
	ln_free(s->polls);
	ln_free(s);
}

static int server_init(struct ln_rdv_server *s)
{
	size_t n = (size_t)s->size;

	s->cards = ln_calloc(n, sizeof(*s->cards));
	s->rank_conn = ln_calloc(n, sizeof(*s->rank_conn));
	s->there = ln_calloc(n, sizeof(*s->there));
	s->answer_by = ln_calloc(n, sizeof(*s->answer_by));
	s->polls_cap = n + LN_SERVER_STRANGERS + 2;
	s->polls = ln_calloc(s->polls_cap, sizeof(*s->polls));
	if (!s->cards || !s->rank_conn || !s->there || !s->answer_by ||
	    !s->polls)
		return LUNE_ERR_NOMEM;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "eventfd");
	return LUNE_OK;
}

int ln_rdv_server_start(const struct ln_rdv_server_opts *o,
			struct ln_rdv_server **out)
{
	struct ln_rdv_server *s = ln_calloc(1, sizeof(*s));
	int rc = s ? LUNE_OK : LUNE_ERR_NOMEM;
	int err;

	if (rc) {
		close(o->listen_fd);
		close(o->own_fd);
		return rc;
	}
	s->b = o->b;
	s->size = o->b->info.size;
	s->listen_fd = o->listen_fd;
	s->wake_fd = -1;
	rc = server_init(s);
	if (rc) {
		close(o->own_fd);
		server_free(s);
		return rc;
	}
	adopt(s, o->own_fd);
	if (!s->conns) {
		server_free(s);
		return LUNE_ERR_NOMEM;
	}
	err = pthread_create(&s->thread, NULL, run, s);
	if (err) {
		while (s->conns)
			drop(s, s->conns);
		server_free(s);
		errno = err;
		return ln_error_errno(LUNE_ERR_SYSTEM, "starting a thread");
	}
	*out = s;
	return LUNE_OK;
}

void ln_rdv_server_stop(struct ln_rdv_server *s, uint64_t deadline)
{
	uint64_t one = 1;

	atomic_store(&s->till, deadline);
	atomic_store(&s->stop, true);
	if (write(s->wake_fd, &one, sizeof(one)) < 0)
		ln_debug("waking the rendezvous: %s", strerror(errno));
	pthread_join(s->thread, NULL);
	server_free(s);
}
