/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness inside a rank: flags and barriers on the shared page, and what
 * one rank does to another.  Every wait ends at the page's wait_deadline.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/run.h"

struct page *ranks_page;
static int my_rank, my_incarnation;
static bool in_rank;

void ranks_become(int rank, int incarnation)
{
	my_rank = rank;
	my_incarnation = incarnation;
	in_rank = true;
}

/* ---- time and futexes -------------------------------------------------- */

uint64_t ranks_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int64_t ranks_now_ms(void)
{
	return (int64_t)(ranks_now_ns() / MS);
}

int ranks_scale(void)
{
	const char *s = getenv("LUNE_TEST_SCALE");
	int scale = s ? atoi(s) : 1;

	if (scale < 1)
		scale = 1;
#if defined(__SANITIZE_THREAD__)
	scale *= 6;
#elif defined(__SANITIZE_ADDRESS__)
	scale *= 3;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	scale *= 6;
#elif __has_feature(address_sanitizer)
	scale *= 3;
#endif
#endif
	return scale;
}

void ranks_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep while *word is seen; false when the deadline has passed. */
static bool sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
	uint64_t now = ranks_now_ns();
	struct timespec ts;

	if (now >= deadline)
		return false;
	ts.tv_sec = (time_t)((deadline - now) / 1000000000u);
	ts.tv_nsec = (long)((deadline - now) % 1000000000u);
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0);
	return true;
}

static bool wait_at_least(_Atomic uint32_t *word, uint32_t value,
			  uint64_t deadline)
{
	for (;;) {
		uint32_t seen = atomic_load(word);

		if (seen >= value)
			return true;
		if (!sleep_on(word, seen, deadline))
			return false;
	}
}

/* ---- inside a rank ----------------------------------------------------- */

struct slot *ranks_slot(int rank)
{
	return &ranks_page->slot[rank == RANKS_CONTROL ? RANKS_MAX : rank];
}

void ranks_fail(const char *file, int line, const char *fmt, ...)
{
	struct slot *s = in_rank ? ranks_slot(my_rank) : NULL;
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(NULL);
	if (!s) {
		fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
		exit(1);
	}
	if (!atomic_exchange(&s->failed, true))
		snprintf(s->message, sizeof(s->message),
			 "%s:%d: check failed: %s", file, line, text);
	_exit(1);
}

int ranks_rank(void)
{
	return my_rank;
}

int ranks_size(void)
{
	return ranks_page->n;
}

int ranks_incarnation(void)
{
	return my_incarnation;
}

void *ranks_scratch(void)
{
	return ranks_page->scratch;
}

void ranks_barrier_at(unsigned id, int count, const char *file, int line)
{
	_Atomic uint32_t *word = &ranks_page->barrier[id];
	uint32_t mine = atomic_fetch_add(word, 1);
	uint32_t full = (mine / (uint32_t)count + 1) * (uint32_t)count;

	ranks_wake(word);
	if (!wait_at_least(word, full, ranks_page->wait_deadline))
		ranks_fail(file, line, "barrier %u: %u of %d came before the "
			   "deadline", id, count - (full - atomic_load(word)),
			   count);
}

void ranks_set(unsigned flag, uint32_t value)
{
	atomic_store(&ranks_page->flag[flag], value);
	ranks_wake(&ranks_page->flag[flag]);
}

uint32_t ranks_add(unsigned flag, uint32_t value)
{
	uint32_t sum = atomic_fetch_add(&ranks_page->flag[flag], value) + value;

	ranks_wake(&ranks_page->flag[flag]);
	return sum;
}

uint32_t ranks_get(unsigned flag)
{
	return atomic_load(&ranks_page->flag[flag]);
}

void ranks_wait_at(unsigned flag, uint32_t value, const char *file, int line)
{
	if (!wait_at_least(&ranks_page->flag[flag], value,
			   ranks_page->wait_deadline))
		ranks_fail(file, line, "flag %u is %u, not %u, at the deadline",
			   flag, ranks_get(flag), value);
}

bool ranks_wait_ms(unsigned flag, uint32_t value, int timeout_ms)
{
	uint64_t deadline = ranks_now_ns() + (uint64_t)timeout_ms * MS;

	if (deadline > ranks_page->wait_deadline)
		deadline = ranks_page->wait_deadline;
	return wait_at_least(&ranks_page->flag[flag], value, deadline);
}

int ranks_pid(int rank)
{
	return atomic_load(&ranks_slot(rank)->pid);
}

bool ranks_running(int rank)
{
	return atomic_load(&ranks_slot(rank)->state) == SLOT_RUNS;
}

static void await_start(int rank)
{
	if (!wait_at_least(&ranks_slot(rank)->incarnation, 1,
			   ranks_page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d does not start", rank);
}

void ranks_kill(int rank)
{
	struct slot *s = ranks_slot(rank);

	/* The parent may still be forking it. */
	await_start(rank);
	atomic_store(&s->killed, true);
	if (!ranks_running(rank))
		return;
	kill(ranks_pid(rank), SIGKILL);
	if (!wait_at_least(&s->state, SLOT_ENDED, ranks_page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d does not die", rank);
}

void ranks_stop(int rank)
{
	await_start(rank);
	atomic_store(&ranks_slot(rank)->stopped, true);
	kill(ranks_pid(rank), SIGSTOP);
}

void ranks_continue(int rank)
{
	kill(ranks_pid(rank), SIGCONT);
	atomic_store(&ranks_slot(rank)->stopped, false);
}

void ranks_restart(int rank)
{
	struct slot *s = ranks_slot(rank);
	uint32_t next;

	await_start(rank);
	next = atomic_load(&s->incarnation) + 1;
	atomic_store(&s->killed, true);
	atomic_store(&s->restart, true);
	kill(ranks_page->parent, SIGUSR1);
	if (!wait_at_least(&s->incarnation, next, ranks_page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d was not restarted",
			   rank);
}

