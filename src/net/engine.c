/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: one epoll set per net, and whoever holds `owner` is the poller.
 *
 *	thread          poll(ep) asleep --event--> take owner, passes, asleep
 *	waiting user    take owner, pass, look, ...          (wait.c)
 *
 * The thread sleeps without being owner, so that a user who waits can poll at
 * any moment.  While users poll, the thread does not race them for each event:
 * it only looks in every TICK_NS ("ticking"), and goes back to sleep in
 * poll(ep) when nobody has polled for QUIET_TICKS.
 *
 * Requests of other threads (connect, kill) are lists taken at the start of a
 * pass; sockets are opened, closed and read by the poller only.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "net/engine.h"

#define TICK_NS 250000u
#define QUIET_TICKS 4
#define EVENTS_MAX 64
#define PASSES_MAX 16 /* in a row without looking at the world again */

int ln_engine_watch(struct ln_net *net, struct ln_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	w->events = events;
	if (epoll_ctl(net->engine->ep, EPOLL_CTL_ADD, w->fd, &ev))
		return ln_error_errno(LUNE_ERR_SYSTEM, "epoll_ctl");
	return LUNE_OK;
}

void ln_engine_rewatch(struct ln_net *net, struct ln_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (w->events == events)
		return;
	w->events = events;
	epoll_ctl(net->engine->ep, EPOLL_CTL_MOD, w->fd, &ev);
}

void ln_engine_unwatch(struct ln_net *net, struct ln_watch *w)
{
	if (w->fd >= 0)
		epoll_ctl(net->engine->ep, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = -1;
}

void ln_engine_bury(struct ln_net *net, struct ln_grave *g,
		    void (*fn)(struct ln_grave *g))
{
	g->fn = fn;
	g->next = net->engine->graves;
	net->engine->graves = g;
}

static void graves_empty(struct ln_engine *e)
{
	while (e->graves) {
		struct ln_grave *g = e->graves;

		e->graves = g->next;
		g->fn(g);
	}
}

void ln_engine_wake(struct ln_net *net)
{
	uint64_t one = 1;

	if (write(net->engine->wakefd, &one, sizeof(one)) < 0)
		ln_debug("eventfd: %m");
}

static void wake_read(struct ln_net *net, struct ln_watch *w, uint32_t events)
{
	uint64_t n;

	(void)events;
	if (read(w->fd, &n, sizeof(n)) <= 0 || w != &net->engine->bell_watch)
		return;
	net->engine->rung = true;
	/*
	 * Ringing disarmed the bell.  If it is not the thread that got here,
	 * the thread sleeps on: arm again, before this pass looks at rings.
	 */
	if (atomic_load(&net->engine->asleep))
		atomic_store(&net->bell->armed, 1);
}

/* ---- timers -------------------------------------------------------------- */

void ln_timer_start(struct ln_net *net, struct ln_timer *t, uint64_t at)
{
	struct ln_engine *e = net->engine;

	if (!t->at)
		DL_APPEND(e->timers, t);
	t->at = at;
	if (at < e->next_timer)
		e->next_timer = at;
}

void ln_timer_stop(struct ln_net *net, struct ln_timer *t)
{
	if (!t->at)
		return;
	DL_DELETE(net->engine->timers, t);
	t->at = 0;
}

/* One that is due, or NULL; the list may change while its fn runs. */
static struct ln_timer *timer_due(struct ln_engine *e, uint64_t now)
{
	struct ln_timer *t;

	e->next_timer = LN_NEVER;
	DL_FOREACH(e->timers, t) {
		if (t->at <= now)
			return t;
		if (t->at < e->next_timer)
			e->next_timer = t->at;
	}
	return NULL;
}

static int timers_run(struct ln_net *net)
{
	struct ln_engine *e = net->engine;
	uint64_t now = ln_now_ns();
	struct ln_timer *t;
	int n = 0;

	if (now < e->next_timer)
		return 0;
	while ((t = timer_due(e, now))) {
		ln_timer_stop(net, t);
		t->fn(net, t);
		n++;
	}
	return n;
}

static void tick(struct ln_net *net, struct ln_timer *t)
{
	ln_link_tick(net);
	ln_peers_collect(net);
	ln_timer_start(net, t,
		       ln_now_ns() + (uint64_t)net->conf->heartbeat * 1000000u);
}

/* ---- requests ------------------------------------------------------------ */

void ln_engine_request(struct ln_peer *p)
{
	struct ln_engine *e = p->net->engine;

	pthread_mutex_lock(&e->req_lock);
	if (!p->link->req_queued) {
		p->link->req_queued = true;
		ln_peer_ref(p);
		p->link->req_next = e->requests;
		e->requests = p;
		atomic_store(&e->asked, true);
	}
	pthread_mutex_unlock(&e->req_lock);
	ln_engine_wake(p->net);
}

void ln_engine_sweep(struct ln_net *net)
{
	atomic_fetch_add(&net->engine->sweeps_asked, 1);
	ln_engine_wake(net);
}

static void sweep_peer(struct ln_peer *p, void *arg)
{
	(void)arg;
	ln_peer_sweep(p);
	ln_wire_sweep(p);
}

static int requests_do(struct ln_net *net)
{
	struct ln_engine *e = net->engine;
	uint32_t sweeps = atomic_load(&e->sweeps_asked);
	struct ln_peer *p, *next;
	int n = 0;

	if (sweeps != atomic_load(&e->sweeps_done)) {
		ln_peers_each(net, sweep_peer, NULL);
		atomic_store(&e->sweeps_done, sweeps);
		ln_net_event(net);
		n++;
	}
	if (!atomic_load(&e->asked))
		return n;
	pthread_mutex_lock(&e->req_lock);
	p = e->requests;
	e->requests = NULL;
	atomic_store(&e->asked, false);
	pthread_mutex_unlock(&e->req_lock);
	for (; p; p = next, n++) {
		pthread_mutex_lock(&e->req_lock);
		next = p->link->req_next;
		p->link->req_queued = false;
		pthread_mutex_unlock(&e->req_lock);
		ln_peer_request(p);
		ln_peer_unref(p);
	}
	return n;
}

/* ---- polling ------------------------------------------------------------- */

static int events_do(struct ln_net *net, int timeout_ms)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(net->engine->ep, ev, EVENTS_MAX, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct ln_watch *w = ev[i].data.ptr;

		if (w->fd >= 0)
			w->fn(net, w, ev[i].events);
	}
	return n < 0 ? 0 : n;
}

static int pass(struct ln_net *net, int timeout_ms)
{
	struct ln_engine *e = net->engine;
	int n, left;

	n = requests_do(net);
	if (n)
		timeout_ms = 0;
	if (timeout_ms) {
		left = ln_deadline_left_ms(e->next_timer);
		if (timeout_ms < 0 || (left >= 0 && left < timeout_ms))
			timeout_ms = left;
	}
	/* Whoever slept long finds answers first, and deadlines after them. */
	n += events_do(net, timeout_ms);
	n += timers_run(net);
	for (int i = 0; net->ops[i]; i++)
		if (net->ops[i]->progress)
			n += ln_max(0, net->ops[i]->progress(net));
	if (e->graves)
		graves_empty(e);
	return n;
}

int ln_engine_poll(struct ln_net *net, int timeout_ms)
{
	struct ln_engine *e = net->engine;
	int n;

	if (atomic_exchange_explicit(&e->owner, 1, memory_order_acquire))
		return -1;
	n = pass(net, timeout_ms);
	atomic_store_explicit(&e->owner, 0, memory_order_release);
	return n;
}

int ln_net_progress(struct ln_net *net)
{
	int n;

	atomic_fetch_add_explicit(&net->engine->polls, 1,
				  memory_order_relaxed);
	n = ln_engine_poll(net, 0);
	return n < 0 ? 0 : n;
}

/* Users poll: look in now and then.  False: nobody has for a while. */
static bool thread_ticks(struct ln_net *net, uint32_t *seen, int *quiet)
{
	struct ln_engine *e = net->engine;
	uint32_t polls = atomic_load(&e->polls), word;

	if (polls != *seen || atomic_load(&e->spinners))
		*quiet = 0;
	*seen = polls;
	if (atomic_exchange(&e->take_over, false) &&
	    !atomic_load(&e->spinners))
		*quiet = QUIET_TICKS;
	if (*quiet >= QUIET_TICKS)
		return false;
	(*quiet)++;
	word = atomic_load(&e->word);
	atomic_store(&e->ticking, true);
	if (!atomic_load(&e->take_over) && !atomic_load(&e->stop))
		ln_futex_wait(&e->word, word, ln_now_ns() + TICK_NS);
	atomic_store(&e->ticking, false);
	if (atomic_load(&e->polls) == polls)
		ln_engine_poll(net, 0);
	return true;
}

/* Sleep until something happens, with the bell armed for peers. */
static void thread_sleeps(struct ln_net *net, int *quiet)
{
	struct ln_engine *e = net->engine;
	struct pollfd pf = { .fd = e->ep, .events = POLLIN };
	int left;

	atomic_store(&e->asleep, true);
	atomic_store(&net->bell->armed, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (ln_engine_poll(net, 0) > 0) {
		atomic_store(&e->asleep, false);
		return;
	}
	left = ln_deadline_left_ms(atomic_load(&e->next_timer));
	if (!atomic_load(&e->stop))
		poll(&pf, 1, left);
	atomic_store(&e->asleep, false);
	atomic_store(&net->bell->armed, 0);
	for (int i = 0; i < PASSES_MAX; i++)
		if (ln_engine_poll(net, 0) <= 0)
			break;
	/* A peer that rings often shall not wake us each time. */
	if (atomic_exchange(&e->rung, false)) {
		*quiet = QUIET_TICKS / 2;
		if (atomic_exchange(&e->user_armed, false))
			ln_net_ring_user(net);
	}
}

static void *thread_main(void *arg)
{
	struct ln_net *net = arg;
	struct ln_engine *e = net->engine;
	uint32_t seen = 0;
	int quiet = QUIET_TICKS;

	prctl(PR_SET_NAME, "lune");
	while (!atomic_load(&e->stop))
		if (!thread_ticks(net, &seen, &quiet))
			thread_sleeps(net, &quiet);
	return NULL;
}

/* ---- life ---------------------------------------------------------------- */

int ln_engine_open(struct ln_net *net)
{
	struct ln_engine *e = ln_alloc_aligned(LN_CACHELINE, sizeof(*e));

	if (!e)
		return LUNE_ERR_NOMEM;
	net->engine = e;
	e->next_timer = LN_NEVER;
	pthread_mutex_init(&e->req_lock, NULL);
	e->ep = epoll_create1(EPOLL_CLOEXEC);
	e->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->userfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	net->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->ep < 0 || e->wakefd < 0 || net->evfd < 0 || e->userfd < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "epoll or eventfd");
	e->wake_watch = (struct ln_watch){ .fd = e->wakefd, .fn = wake_read };
	e->bell_watch = (struct ln_watch){ .fd = net->evfd, .fn = wake_read };
	e->tick.fn = tick;
	ln_timer_start(net, &e->tick,
		       ln_now_ns() + (uint64_t)net->conf->heartbeat * 1000000u);
	if (ln_engine_watch(net, &e->wake_watch, EPOLLIN) ||
	    ln_engine_watch(net, &e->bell_watch, EPOLLIN))
		return LUNE_ERR_SYSTEM;
	return LUNE_OK;
}

int ln_engine_start(struct ln_net *net)
{
	struct ln_engine *e = net->engine;
	sigset_t all, old;
	int rc;

	if (net->manual)
		return LUNE_OK;
	/* The program's signals are its own threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&e->thread, NULL, thread_main, net);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		errno = rc;
		return ln_error_errno(LUNE_ERR_SYSTEM, "progress thread");
	}
	e->has_thread = true;
	return LUNE_OK;
}

void ln_engine_stop(struct ln_net *net)
{
	struct ln_engine *e = net->engine;

	if (!e || !e->has_thread)
		return;
	atomic_store(&e->stop, true);
	atomic_fetch_add(&e->word, 1);
	ln_futex_wake(&e->word, 1);
	ln_engine_wake(net);
	pthread_join(e->thread, NULL);
	e->has_thread = false;
}

void ln_engine_forked(struct ln_net *net)
{
	struct ln_engine *e = net->engine;

	close(e->ep);
	close(e->wakefd);
	close(e->userfd);
	close(net->evfd);
}

void ln_engine_close(struct ln_net *net)
{
	struct ln_engine *e = net->engine;

	if (!e)
		return;
	graves_empty(e);
	if (e->ep >= 0)
		close(e->ep);
	if (e->wakefd >= 0)
		close(e->wakefd);
	if (e->userfd >= 0)
		close(e->userfd);
	if (net->evfd >= 0)
		close(net->evfd);
	pthread_mutex_destroy(&e->req_lock);
	ln_free(e);
	net->engine = NULL;
}
