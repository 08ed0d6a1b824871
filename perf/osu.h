/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmark programs share: the options and the output of the OSU
 * micro-benchmarks, plus repeats with medians, cold or hot buffers and JSON.
 */
#ifndef PERF_OSU_H
#define PERF_OSU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lune/lune.h>

#define OSU_REPEATS_MAX 101

struct osu_opts {
	size_t min, max;   /* message sizes, bytes */
	int iterations;	   /* per size; 0: by size */
	int warmup;	   /* iterations not counted */
	int window;	   /* operations in flight (bandwidth) */
	int repeats;	   /* the median of so many is printed */
	bool validate, full, json, cold;
};

/*
 * One measurement as rank 0 sees it.  Latency programs fill samples (one a
 * iteration, microseconds); bandwidth programs the total.
 */
struct osu_result {
	size_t bytes;
	double value;	   /* us, or MB/s */
	double min, max, p50, p99, p999;
	double memcpy_ratio; /* bandwidth over memcpy of the size; 0: none */
	uint64_t errors;   /* of -c */
};

struct osu_bench {
	const char *name;  /* "lune_put_bw" */
	const char *what;  /* headline */
	const char *unit;  /* "Bandwidth (MB/s)" or "Latency (us)" */
	int ranks;	   /* needed, exactly */
	bool latency;
	void *arg;
	/*
	 * Run opts->iterations of `bytes` and fill out->value (and the
	 * percentiles for latency).  Called on every rank; rank 0's counts.
	 */
	int (*run)(struct osu_bench *b, size_t bytes, int iterations,
		   struct osu_result *out);
	/* Set before run. */
	struct osu_opts opts;
	lune_ctx *ctx;
	lune_comm *world;
	int rank;
	lune_mem *mem;	   /* 2 x (max bytes x window) + a page of words */
	lune_win *win;
	lune_rmem *peer;   /* the other rank's mem */
	char *local;
	size_t slot_bytes; /* bytes from slot to slot of the window */
};

/* Parse, join, allocate, run every size, print, leave: main's result. */
int osu_main(int argc, char **argv, struct osu_bench *b);

/* In bench->mem: words at 0, then `window` slots to send, then to receive. */
#define OSU_WORDS 4096
char *osu_send_slot(const struct osu_bench *b, int slot);
size_t osu_recv_offset(const struct osu_bench *b, int slot);

double osu_now_us(void);
/* Sort samples, fill value (mean) and percentiles. */
void osu_samples(double *us, int n, struct osu_result *out);
/* The byte that -c expects at position i of iteration `round`. */
void osu_fill(char *p, size_t bytes, unsigned round);
uint64_t osu_check(const char *p, size_t bytes, unsigned round);
/* Print lune_last_error behind the program's name; returns code. */
int osu_error(const struct osu_bench *b, int code);

#endif
