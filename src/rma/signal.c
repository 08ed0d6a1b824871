/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for signals.  A word is changed by the process itself (a frame that
 * arrived, a peer in the same context) or by a peer that maps it; the first
 * rings the context (ln_net_event), the second its doorbell.  ln_net_wait
 * sleeps on both.
 */
#include <lune/signal.h>

#include "rma/rma.h"

#define WAITANY_MAX 4096

static _Atomic uint64_t *word_of(const lune_mem *mem, uint64_t offset)
{
	return (void *)(mem->region->addr + offset);
}

static int check_word(const lune_mem *mem, uint64_t offset)
{
	const struct ln_region *r;

	if (!mem)
		return ln_error(LUNE_ERR_INVAL, "a signal without memory");
	LN_CTX_CHECK(mem->ctx);
	r = mem->region;
	if (offset > r->bytes || r->bytes - offset < 8)
		return ln_error(LUNE_ERR_BOUNDS,
				"a signal at offset %llu of %zu bytes",
				(unsigned long long)offset, r->bytes);
	if ((offset | ((uintptr_t)r->addr + offset)) & 7)
		return ln_error(LUNE_ERR_INVAL,
				"a signal at offset %llu is not 8-aligned",
				(unsigned long long)offset);
	return LUNE_OK;
}

uint64_t lune_signal_read(const lune_mem *mem, uint64_t offset)
{
	/* Pairs with the release of whoever sets the word. */
	return atomic_load_explicit(word_of(mem, offset),
				    memory_order_acquire);
}

int lune_signal_write(lune_mem *mem, uint64_t offset, uint64_t value)
{
	int rc = check_word(mem, offset);

	if (rc)
		return rc;
	atomic_store_explicit(word_of(mem, offset), value,
			      memory_order_release);
	ln_net_event(mem->ctx->net);
	return LUNE_OK;
}

static bool satisfied(const struct lune_signal *s)
{
	uint64_t v = lune_signal_read(s->mem, s->offset);

	switch (s->compare) {
	case LUNE_EQ: return v == s->value;
	case LUNE_NE: return v != s->value;
	case LUNE_GE: return v >= s->value;
	case LUNE_GT: return v > s->value;
	case LUNE_LE: return v <= s->value;
	default: return v < s->value;
	}
}

static int check(const struct lune_signal *s)
{
	if (!s || (unsigned)s->compare > LUNE_LT)
		return ln_error(LUNE_ERR_INVAL, "no signal to wait for");
	return check_word(s->mem, s->offset);
}

int lune_signal_test(const struct lune_signal *s)
{
	int rc = check(s);

	if (rc)
		return rc;
	if (satisfied(s))
		return LUNE_OK;
	rc = ln_net_progress(s->mem->ctx->net);
	if (rc < 0)
		return rc;
	return satisfied(s) ? LUNE_OK : LUNE_ERR_AGAIN;
}

static bool ready(void *arg)
{
	return satisfied(arg);
}

int lune_signal_wait(const struct lune_signal *s, int timeout_ms)
{
	lune_ctx *ctx;
	int rc = check(s);

	if (rc)
		return rc;
	if (satisfied(s))
		return LUNE_OK;
	ctx = s->mem->ctx;
	rc = ln_net_wait(ctx->net, ready, (void *)(uintptr_t)s,
			 ln_deadline(timeout_ms, (int)ctx->conf.timeout));
	if (rc == LUNE_ERR_TIMEOUT)
		return ln_error(rc, "the signal at offset %llu is %llu",
				(unsigned long long)s->offset,
				(unsigned long long)lune_signal_read(
					s->mem, s->offset));
	return rc;
}

struct any {
	const struct lune_signal *s;
	size_t count, found;
};

static bool any_ready(void *arg)
{
	struct any *a = arg;

	for (a->found = 0; a->found < a->count; a->found++)
		if (satisfied(&a->s[a->found]))
			return true;
	return false;
}

int lune_signal_waitany(const struct lune_signal *s, size_t count,
			int timeout_ms, size_t *index)
{
	struct any a = { s, count, 0 };
	lune_ctx *ctx;
	int rc;

	if (!s || !index || !count || count > WAITANY_MAX)
		return ln_error(LUNE_ERR_INVAL, "waiting for %zu signals",
				count);
	for (size_t i = 0; i < count; i++) {
		rc = check(&s[i]);
		if (!rc && s[i].mem->ctx != s[0].mem->ctx)
			rc = ln_error(LUNE_ERR_INVAL,
				      "signals of two contexts");
		if (rc)
			return ln_error_prefix(rc, "signal %zu", i);
	}
	ctx = s[0].mem->ctx;
	rc = ln_net_wait(ctx->net, any_ready, &a,
			 ln_deadline(timeout_ms, (int)ctx->conf.timeout));
	if (!rc)
		*index = a.found;
	return rc;
}
