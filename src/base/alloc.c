/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation: malloc with overflow checks, a recorded error, and one hook.
 *
 * The hook makes the n-th allocation fail once, so that tests can walk every
 * failure path of a function.  It and the count are the only state.
 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

/* Both are statistics of one process: relaxed, they order nothing. */
static _Atomic uint64_t made;
static _Atomic long fail_in;

void ln_alloc_fail_after(long n)
{
	atomic_store(&fail_in, ln_max(n, 0L));
}

uint64_t ln_alloc_count(void)
{
	return atomic_load_explicit(&made, memory_order_relaxed);
}

/* True when this allocation is the one that a test wants to fail. */
static bool must_fail(void)
{
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
	if (atomic_load_explicit(&fail_in, memory_order_relaxed) <= 0)
		return false;
	return atomic_fetch_sub(&fail_in, 1) == 1;
}

static void *check(void *p, size_t bytes)
{
	if (!p) {
		errno = ENOMEM;
		ln_error(LUNE_ERR_NOMEM, "out of memory: %zu bytes", bytes);
	}
	return p;
}

void *ln_malloc(size_t bytes)
{
	/* A zero size still gives a pointer: NULL means failure only. */
	bytes = ln_max(bytes, (size_t)1);
	return check(must_fail() ? NULL : malloc(bytes), bytes);
}

void *ln_calloc(size_t count, size_t bytes)
{
	count = ln_max(count, (size_t)1);
	bytes = ln_max(bytes, (size_t)1);
	if (count > SIZE_MAX / bytes)
		return check(NULL, SIZE_MAX);
	return check(must_fail() ? NULL : calloc(count, bytes), count * bytes);
}

void *ln_realloc_array(void *old, size_t count, size_t bytes)
{
	count = ln_max(count, (size_t)1);
	bytes = ln_max(bytes, (size_t)1);
	if (count > SIZE_MAX / bytes)
		return check(NULL, SIZE_MAX);
	bytes *= count;
	return check(must_fail() ? NULL : realloc(old, bytes), bytes);
}

void *ln_alloc_aligned(size_t align, size_t bytes)
{
	void *p = NULL;

	bytes = ln_max(bytes, (size_t)1);
	if (must_fail() || posix_memalign(&p, align, bytes))
		return check(NULL, bytes);
	return memset(p, 0, bytes);
}

char *ln_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = ln_malloc(n);

	if (p)
		memcpy(p, s, n);
	return p;
}

char *ln_asprintf(const char *fmt, ...)
{
	va_list ap, again;
	char *p = NULL;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n >= 0)
		p = ln_malloc((size_t)n + 1);
	else
		ln_error_errno(LUNE_ERR_SYSTEM, "formatting a string");
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

void ln_free(void *p)
{
	free(p);
}
