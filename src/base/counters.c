/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the counters of a context by row.  The fields are counted into with
 * ln_count() where things happen; nothing here is on a data path.
 */
#include "base/base.h"

static const struct {
	const char *name, *help;
	size_t offset;
} rows[] = {
#define X(name, help) { #name, help, offsetof(struct ln_counters, name) },
#include "counters.def"
#undef X
};

bool ln_counters_row(const struct ln_counters *c, int i, const char **name,
		     const char **help, uint64_t *value)
{
	const _Atomic uint64_t *at;

	if (i < 0 || (size_t)i >= LN_ARRAY_SIZE(rows))
		return false;
	at = (const _Atomic uint64_t *)((const char *)c + rows[i].offset);
	*name = rows[i].name;
	*help = rows[i].help;
	*value = atomic_load_explicit(at, memory_order_relaxed);
	return true;
}
