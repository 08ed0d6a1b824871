/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call over several endpoints.  An attempt goes to the endpoint that
 * answered last; when it fails, the next one gets its turn, after each full
 * round with a pause that doubles up to a second, until the deadline.  No
 * endpoint may eat the whole time of a call: where there are others, an
 * attempt ends after a part of what is left, and always after ten seconds, so
 * that a connection whose host was replaced is noticed.
 */
#include <poll.h>

#include "meta/internal.h"

#define NS_PER_MS 1000000u
#define ATTEMPT_ALONE_MS 10000
#define ATTEMPT_MS 3000
#define BACKOFF_FIRST_MS 20
#define BACKOFF_MAX_MS 1000

void ln_meta_try_init(struct ln_meta_try *t, struct ln_meta *m,
		      uint64_t deadline)
{
	memset(t, 0, sizeof(*t));
	t->m = m;
	t->stop = &m->stop;
	t->begun = ln_now_ns();
	t->deadline = deadline;
	t->endpoint = atomic_load_explicit(&m->endpoint, memory_order_relaxed);
	t->backoff_ms = BACKOFF_FIRST_MS;
}

uint64_t ln_meta_try_until(const struct ln_meta_try *t)
{
	bool alone = t->m->endpoint_count == 1;
	uint64_t now = ln_now_ns(), cap, left;

	cap = (uint64_t)(alone ? ATTEMPT_ALONE_MS : ATTEMPT_MS) * NS_PER_MS;
	if (t->deadline <= now)
		return now;
	left = t->deadline - now;
	if (!alone && t->attempts + 1 < t->m->endpoint_count)
		left /= 2;
	return now + ln_min(left, cap);
}

void ln_meta_try_done(struct ln_meta_try *t)
{
	atomic_store_explicit(&t->m->endpoint, t->endpoint,
			      memory_order_relaxed);
}

/* "a:1: refused; b:2: refused", as far as the room goes. */
static void join_causes(const struct ln_meta_try *t, char *out, size_t bytes)
{
	size_t at = 0;
	int n;

	out[0] = 0;
	for (size_t i = 0; i < t->m->endpoint_count; i++) {
		if (!t->causes[i][0] || at >= bytes)
			continue;
		n = snprintf(out + at, bytes - at, "%s%s", at ? "; " : "",
			     t->causes[i]);
		if (n > 0)
			at += (size_t)n;
	}
}

static void give_up(const struct ln_meta_try *t)
{
	char all[1024];

	join_causes(t, all, sizeof(all));
	ln_error(LUNE_ERR_META,
		 "the metadata service does not answer (%u attempts in %llu "
		 "ms): %s", t->attempts,
		 (unsigned long long)((ln_now_ns() - t->begun) / NS_PER_MS),
		 all);
}

bool ln_meta_pause(struct ln_meta_stop *stop, int ms)
{
	struct pollfd p = { .fd = stop->fd, .events = POLLIN };

	poll(&p, 1, ms);
	return atomic_load(&stop->on);
}

bool ln_meta_try_again(struct ln_meta_try *t)
{
	struct ln_meta *m = t->m;
	int left, ms = 0;

	snprintf(t->causes[t->endpoint], LN_META_CAUSE_MAX, "%s",
		 lune_last_error());
	t->attempts++;
	t->endpoint = (t->endpoint + 1) % m->endpoint_count;
	if (t->attempts % m->endpoint_count == 0) {
		ms = t->backoff_ms;
		t->backoff_ms = ln_min(2 * ms, BACKOFF_MAX_MS);
	}
	left = ln_deadline_left_ms(t->deadline);
	if (left >= 0 && ms > left)
		ms = left;
	if (ln_deadline_passed(t->deadline) || ln_meta_pause(t->stop, ms) ||
	    ln_deadline_passed(t->deadline)) {
		give_up(t);
		return false;
	}
	return true;
}
