/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences about ranks, and cards.
 */
#include <stdarg.h>

#include "boot/internal.h"

struct text {
	char *p;
	size_t len, cap;
	bool full;
};

static void LN_PRINTF(2, 3) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->full)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->p + t->len, t->cap - t->len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= t->cap - t->len) {
		t->full = true;
		t->p[t->len] = '\0';
	} else {
		t->len += (size_t)n;
	}
}

/* One past the end of the run of missing ranks that begins at i. */
static int run_end(const bool *there, int n, int i)
{
	while (i < n && !there[i])
		i++;
	return i;
}

static int next_missing(const bool *there, int n, int i)
{
	while (i < n && there[i])
		i++;
	return i;
}

int ln_ranks_missing(const bool *there, int n, char *out, size_t cap)
{
	static const char more[] = " and more";
	struct text t = { .p = out, .cap = cap - sizeof(more) };
	int count = 0, end;

	for (int i = 0; i < n; i++)
		count += !there[i];
	out[0] = '\0';
	add(&t, "%s", count == 1 ? "rank" : "ranks");
	for (int i = next_missing(there, n, 0); i < n;
	     i = next_missing(there, n, end)) {
		const char *sep = " ";

		end = run_end(there, n, i);
		if (i != next_missing(there, n, 0))
			sep = next_missing(there, n, end) < n ? ", " : " and ";
		if (end - i == 1)
			add(&t, "%s%d", sep, i);
		else
			add(&t, "%s%d..%d", sep, i, end - 1);
	}
	if (t.full)
		memcpy(out + t.len, more, sizeof(more));
	return count;
}

void ln_ranks_sentence(const struct ln_boot *b, const bool *there,
		       const char *where, char *out, size_t cap)
{
	uint64_t ms = (ln_now_ns() - b->opened) / 1000000;
	char who[256];

	ln_ranks_missing(there, b->info.size, who, sizeof(who));
	snprintf(out, cap, "%s of %d did not join within %llu.%llu s (%s)", who,
		 b->info.size, (unsigned long long)ms / 1000,
		 (unsigned long long)ms % 1000 / 100, where);
}

int ln_ranks_error(int code, const struct ln_boot *b, const bool *there,
		   const char *where)
{
	char text[640];

	ln_ranks_sentence(b, there, where, text, sizeof(text));
	return ln_error(code, "%s", text);
}

int ln_ranks_card(struct ln_boot_card *to, const void *p, size_t len)
{
	if (!len || len > LN_CARD_MAX)
		return ln_error(LUNE_ERR_PROTO, "a card has %zu bytes", len);
	to->bytes = ln_malloc(len);
	if (!to->bytes)
		return LUNE_ERR_NOMEM;
	memcpy(to->bytes, p, len);
	to->len = len;
	return LUNE_OK;
}
