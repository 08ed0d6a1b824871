/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put bandwidth, rank 0 to rank 1: `window` puts into distinct slots, then a
 * flush (delivery, not injection), counted as OSU's osu_put_bw counts.
 */
#include "osu.h"

static int window(struct osu_bench *b, size_t bytes)
{
	int rc = LUNE_OK;

	for (int w = 0; w < b->opts.window && !rc; w++)
		rc = lune_put(b->peer, osu_recv_offset(b, w),
			      osu_send_slot(b, w), bytes, NULL);
	return rc ? rc : lune_rmem_flush(b->peer, LUNE_TIMEOUT_DEFAULT);
}

static int sender(struct osu_bench *b, size_t bytes, int n,
		  struct osu_result *out)
{
	double t0 = 0;
	int rc = LUNE_OK;

	for (int w = 0; w < b->opts.window && b->opts.validate; w++)
		osu_fill(osu_send_slot(b, w), bytes, (unsigned)w);
	for (int i = -b->opts.warmup; i < n && !rc; i++) {
		if (i == 0)
			t0 = osu_now_us();
		rc = window(b, bytes);
	}
	out->value = (double)bytes * b->opts.window * n / (osu_now_us() - t0);
	return rc;
}

static int run(struct osu_bench *b, size_t bytes, int n, struct osu_result *out)
{
	int per = n / 10 > 0 ? n / 10 : 1; /* a window is many operations */
	int rc = LUNE_OK;

	if (b->rank == 0)
		rc = sender(b, bytes, per, out);
	if (!rc)
		rc = lune_barrier(b->world, LUNE_TIMEOUT_DEFAULT);
	for (int w = 0; w < b->opts.window && b->rank && b->opts.validate; w++)
		out->errors += osu_check(b->local + osu_recv_offset(b, w),
					 bytes, (unsigned)w);
	if (b->opts.validate && !rc) {
		uint64_t both[2];

		rc = lune_allgather(b->world, &out->errors,
				    sizeof(out->errors), both,
				    LUNE_TIMEOUT_DEFAULT);
		out->errors = both[0] + both[1];
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct osu_bench b = { .name = "lune_put_bw",
			       .what = "put bandwidth, rank 0 to rank 1",
			       .unit = "Bandwidth (MB/s)", .ranks = 2,
			       .run = run };

	return osu_main(argc, argv, &b);
}
