/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put latency, one way: rank 0 puts with a signal, rank 1 answers the same
 * way; half of the round trip.  The waiting side sees the bytes, so this is
 * delivery, not injection.
 */
#include <stdlib.h>

#include "osu.h"

/* Rounds are numbered over all sizes: a signal word is never reset. */
static uint64_t rounds;

static int put_round(struct osu_bench *b, size_t bytes)
{
	struct lune_op op = { .signal = { .rmem = b->peer, .offset = 0,
					  .value = rounds,
					  .how = LUNE_SIGNAL_SET } };

	if (b->opts.validate)
		osu_fill(osu_send_slot(b, 0), bytes, (unsigned)rounds);
	return lune_put(b->peer, osu_recv_offset(b, 0), osu_send_slot(b, 0),
			bytes, &op);
}

static int wait_round(struct osu_bench *b, size_t bytes, uint64_t *errors)
{
	struct lune_signal s = { .mem = b->mem, .offset = 0,
				 .compare = LUNE_GE, .value = rounds };
	int rc = lune_signal_wait(&s, LUNE_TIMEOUT_DEFAULT);

	if (!rc && b->opts.validate)
		*errors += osu_check(b->local + osu_recv_offset(b, 0), bytes,
				     (unsigned)rounds);
	return rc;
}

static int run(struct osu_bench *b, size_t bytes, int n, struct osu_result *out)
{
	double *us = calloc((size_t)n, sizeof(*us)), t0;
	int rc = us ? LUNE_OK : LUNE_ERR_NOMEM;

	for (int i = -b->opts.warmup; i < n && !rc; i++) {
		rounds++;
		t0 = osu_now_us();
		if (b->rank == 0)
			rc = put_round(b, bytes);
		if (!rc)
			rc = wait_round(b, bytes, &out->errors);
		if (!rc && b->rank == 1)
			rc = put_round(b, bytes);
		if (i >= 0 && us)
			us[i] = (osu_now_us() - t0) / 2;
	}
	if (!rc)
		rc = lune_rmem_flush(b->peer, LUNE_TIMEOUT_DEFAULT);
	if (!rc)
		osu_samples(us, n, out);
	free(us);
	return rc;
}

int main(int argc, char **argv)
{
	struct osu_bench b = { .name = "lune_put_latency",
			       .what = "put + signal latency, one way",
			       .unit = "Latency (us)", .ranks = 2,
			       .latency = true, .run = run };

	return osu_main(argc, argv, &b);
}
