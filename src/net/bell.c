/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells: how threads of a process are woken, by its own threads and by
 * peers that map the bell.  The futex is a shared one for that reason.
 */
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/link.h"

void ln_doorbell_ring_slow(struct ln_doorbell *d, int evfd)
{
	uint64_t one = 1;

	atomic_fetch_add(&d->seq, 1);
	if (atomic_load(&d->sleepers))
		ln_futex_wake(&d->seq, INT_MAX);
	/* Readable once: whoever takes the flag writes. */
	if (evfd >= 0 && atomic_exchange(&d->armed, 0) &&
	    write(evfd, &one, sizeof(one)) < 0)
		ln_debug("eventfd: %m");
}

void ln_futex_wake(_Atomic uint32_t *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

void ln_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline / 1000000000u),
			       .tv_nsec = (long)(deadline % 1000000000u) };

	/* WAIT_BITSET takes an absolute monotonic time. */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen,
		deadline == LN_NEVER ? NULL : &ts, NULL,
		FUTEX_BITSET_MATCH_ANY);
}
