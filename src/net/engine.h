/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's state, shared by engine.c and wait.c only. */
#ifndef LN_NET_ENGINE_H
#define LN_NET_ENGINE_H

#include <utlist.h>

#include "net/link.h"

struct ln_engine {
	/* 1: somebody polls.  Acquire to take, release to give. */
	_Atomic int owner;
	int ep, wakefd, userfd;

	/* The poller's. */
	struct ln_watch wake_watch, bell_watch;
	struct ln_timer *timers, tick;
	_Atomic uint64_t next_timer; /* a lower bound; the thread peeks */
	struct ln_grave *graves;
	_Atomic bool rung;

	pthread_mutex_t req_lock; /* a leaf; guards requests, req_* of peers */
	struct ln_peer *requests;
	_Atomic bool asked;
	_Atomic uint32_t sweeps_asked, sweeps_done;

	pthread_t thread;
	bool has_thread;
	_Alignas(LN_CACHELINE) _Atomic bool stop;
	_Atomic uint32_t word; /* the ticking thread's futex */
	_Atomic bool ticking, take_over, user_armed;
	_Atomic bool asleep; /* the thread is in poll(ep), or about to be */
	_Alignas(LN_CACHELINE) _Atomic uint32_t polls; /* by users */
	_Atomic uint32_t spinners; /* users inside ln_net_wait, awake */
};
/* wait.c */
void ln_net_ring_user(struct ln_net *net);

#endif
