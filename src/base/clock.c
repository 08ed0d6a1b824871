/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: CLOCK_MONOTONIC in nanoseconds, and absolute deadlines on it.  A
 * deadline is computed once, at the top of a call, and handed down, so that
 * retries and several steps share one bound.
 */
#include "base/base.h"

#include <limits.h>
#include <time.h>

#include <lune/ctx.h>

uint64_t ln_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t ln_deadline(int timeout_ms, int default_ms)
{
	if (timeout_ms == LUNE_TIMEOUT_DEFAULT)
		timeout_ms = default_ms;
	if (timeout_ms == LUNE_FOREVER)
		return LN_NEVER;
	/* Other negative values mean nothing: do not wait on them. */
	return ln_now_ns() + (uint64_t)ln_max(timeout_ms, 0) * 1000000u;
}

int ln_deadline_left_ms(uint64_t deadline)
{
	uint64_t now, ms;

	if (deadline == LN_NEVER)
		return -1;
	now = ln_now_ns();
	if (now >= deadline)
		return 0;
	ms = (deadline - now - 1) / 1000000u + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

bool ln_deadline_passed(uint64_t deadline)
{
	return deadline != LN_NEVER && ln_now_ns() >= deadline;
}
