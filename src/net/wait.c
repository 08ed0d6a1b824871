/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: help with progress, spin for a short while, yield, sleep.
 *
 * The spin is bounded by time (LUNE_SPIN, or SPIN_US) and yields after each
 * pass: with more ranks than cores the others need the core to make true what
 * we wait for.  Asleep, with a progress thread: on the doorbell's futex, and
 * the thread takes over polling.  Without one: in epoll, as the poller; a
 * second waiter sleeps on the futex and is rung when the poller leaves.
 */
#include <sched.h>
#include <unistd.h>

#include "net/engine.h"

#define SPIN_US 50
#define LOOKS_PER_PASS 32
#define TURN_MS 10 /* how long a second waiter trusts the poller */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

void ln_net_ring_user(struct ln_net *net)
{
	uint64_t one = 1;

	if (write(net->engine->userfd, &one, sizeof(one)) < 0)
		ln_debug("eventfd: %m");
}

/*
 * With a progress thread `armed` means that it sleeps, and it need not know
 * of local events; only sleeping waiters and the user's eventfd do.
 */
void ln_net_event(struct ln_net *net)
{
	struct ln_engine *e = net->engine;

	if (net->manual) {
		ln_doorbell_ring(net->bell, net->evfd);
		return;
	}
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&net->bell->sleepers, memory_order_relaxed)) {
		atomic_fetch_add(&net->bell->seq, 1);
		ln_futex_wake(&net->bell->seq, INT32_MAX);
	}
	if (atomic_load_explicit(&e->user_armed, memory_order_relaxed) &&
	    atomic_exchange(&e->user_armed, false))
		ln_net_ring_user(net);
}

struct waiting {
	struct ln_net *net;
	bool (*ready)(void *arg);
	void *arg;
	uint64_t deadline;
};

/* True once ready; false when it is time to sleep. */
static bool spin(const struct waiting *w)
{
	int64_t us = w->net->conf->spin;
	uint64_t until = ln_now_ns() + (uint64_t)(us < 0 ? SPIN_US : us) * 1000;

	do {
		for (int i = 0; i < LOOKS_PER_PASS; i++) {
			if (w->ready(w->arg))
				return true;
			relax();
		}
		if (ln_net_progress(w->net) == 0)
			sched_yield();
		else
			until = ln_max(until, ln_now_ns() + SPIN_US * 500);
	} while (ln_now_ns() < ln_min(until, w->deadline));
	return w->ready(w->arg);
}

/* Sleep on the futex until rung or the time. */
static void sleep_on_bell(const struct waiting *w, uint64_t until)
{
	struct ln_doorbell *bell = w->net->bell;
	uint32_t seq;

	atomic_fetch_add(&bell->sleepers, 1);
	seq = atomic_load(&bell->seq);
	/*
	 * A peer that rang before it could see this sleeper, while the thread
	 * was in poll(ep) and not armed any more, woke nobody: one more pass
	 * finds what it left (in a ring, say).
	 */
	if (!w->ready(w->arg) && ln_engine_poll(w->net, 0) <= 0 &&
	    !w->ready(w->arg))
		ln_futex_wait(&bell->seq, seq, until);
	atomic_fetch_sub(&bell->sleepers, 1);
}

static void hand_to_thread(struct ln_engine *e)
{
	if (atomic_fetch_sub(&e->spinners, 1) != 1)
		return;
	atomic_store(&e->take_over, true);
	if (atomic_load(&e->ticking)) {
		atomic_fetch_add(&e->word, 1);
		ln_futex_wake(&e->word, 1);
	}
}

/* Be the poller and sleep in epoll; false: somebody else is. */
static bool sleep_in_epoll(const struct waiting *w)
{
	struct ln_doorbell *bell = w->net->bell;
	bool polled = true;

	atomic_store(&bell->armed, 1);
	atomic_thread_fence(memory_order_seq_cst);
	/* Rings in progress are caught by this pass. */
	if (!w->ready(w->arg) && ln_engine_poll(w->net, 0) == 0 &&
	    !w->ready(w->arg))
		polled = ln_engine_poll(w->net,
				ln_deadline_left_ms(w->deadline)) >= 0;
	atomic_store(&bell->armed, 0);
	if (atomic_load(&bell->sleepers))
		ln_doorbell_ring_slow(bell, -1);
	return polled;
}

int ln_net_wait(struct ln_net *net, bool (*ready)(void *arg), void *arg,
		uint64_t deadline)
{
	struct waiting w = { net, ready, arg, deadline };
	struct ln_engine *e = net->engine;
	bool is_ready;

	if (ready(arg))
		return LUNE_OK;
	for (;;) {
		atomic_fetch_add(&e->spinners, 1);
		is_ready = spin(&w);
		if (is_ready || ln_deadline_passed(deadline)) {
			atomic_fetch_sub(&e->spinners, 1);
			break;
		}
		if (net->manual) {
			atomic_fetch_sub(&e->spinners, 1);
			if (!sleep_in_epoll(&w))
				sleep_on_bell(&w, ln_min(deadline,
					ln_now_ns() + TURN_MS * 1000000u));
			continue;
		}
		hand_to_thread(e);
		sleep_on_bell(&w, deadline);
	}
	return is_ready ? LUNE_OK
			: ln_error(LUNE_ERR_TIMEOUT, "the deadline passed");
}

/* In manual mode the epoll set itself: it is readable for sockets, too. */
int ln_net_fd(struct ln_net *net)
{
	return net->manual ? net->engine->ep : net->engine->userfd;
}

int ln_net_arm(struct ln_net *net)
{
	uint64_t n;

	if (net->manual) {
		if (read(net->evfd, &n, sizeof(n)) < 0)
			n = 0;
		atomic_store(&net->bell->armed, 1);
	} else {
		if (read(net->engine->userfd, &n, sizeof(n)) < 0)
			n = 0;
		atomic_store(&net->engine->user_armed, true);
	}
	atomic_thread_fence(memory_order_seq_cst);
	return LUNE_OK;
}
