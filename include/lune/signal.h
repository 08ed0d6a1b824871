/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for signals: 64-bit words in memory of ours (a lune_mem) that peers
 * add to or set with a put.  When a wait is satisfied, every byte of the
 * operation that carried the signal is visible to this thread.
 */
#ifndef LUNE_SIGNAL_H
#define LUNE_SIGNAL_H

#include <lune/decls.h>
#include <lune/mem.h>

LUNE_DECLS_BEGIN

enum lune_compare {
	LUNE_EQ, LUNE_NE, LUNE_GE, LUNE_GT, LUNE_LE, LUNE_LT /* unsigned */
};

struct lune_signal {
	lune_mem *mem;
	uint64_t offset; /* multiple of 8 */
	enum lune_compare compare;
	uint64_t value; /* word `compare` value is what we wait for */
};

/* The word now, with acquire order.  No checks: offset must be in the mem. */
uint64_t lune_signal_read(const lune_mem *mem, uint64_t offset);
/* Store a word of ours (reset); peers see it. */
int lune_signal_write(lune_mem *mem, uint64_t offset, uint64_t value);
/* LUNE_OK, or LUNE_ERR_AGAIN.  Makes progress. */
int lune_signal_test(const struct lune_signal *s);
/* LUNE_ERR_TIMEOUT when the deadline passes. */
int lune_signal_wait(const struct lune_signal *s, int timeout_ms);
/* Wait for any of many (1..4096); *index is the first satisfied. */
int lune_signal_waitany(const struct lune_signal *s, size_t count,
			int timeout_ms, size_t *index);

LUNE_DECLS_END
#endif
