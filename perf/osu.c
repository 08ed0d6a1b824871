/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame of a benchmark: options, world, buffers, sizes, output.  The flags are
 * those of the OSU micro-benchmarks where they have one.  Cold: between two
 * repeats a buffer larger than the last-level cache is read and written.
 */
#include "osu.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLD_BYTES (128u << 20)

enum { OPT_COLD = 256, OPT_HOT, OPT_JSON };

static const struct argp_option options[] = {
	{ "message-size", 'm', "MIN:MAX", 0, "Message sizes (or MAX)", 0 },
	{ "iterations", 'i', "N", 0, "Iterations per size", 0 },
	{ "warmup", 'x', "N", 0, "Iterations before the counted ones", 0 },
	{ "window-size", 'W', "N", 0, "Operations in flight (default 64)", 0 },
	{ "validation", 'c', NULL, 0, "Check every byte", 0 },
	{ "full", 'f', NULL, 0, "Print min, max, p50, p99, p99.9 too", 0 },
	{ "repeats", 'r', "N", 0, "Print the median of N runs (default 3)", 0 },
	{ "cold", OPT_COLD, NULL, 0, "Empty the cache before each run", 0 },
	{ "hot", OPT_HOT, NULL, 0, "Leave the cache warm (default)", 0 },
	{ "json", OPT_JSON, NULL, 0, "One JSON object per size", 0 },
	{ 0 }
};

static bool parse_count(const char *text, long lo, long hi, long *out)
{
	char *end;

	*out = strtol(text, &end, 10);
	return end != text && !*end && *out >= lo && *out <= hi;
}

static bool parse_bytes(const char *text, char stop, size_t *out,
			const char **next)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	if (end == text || *text == '-')
		return false;
	if (*end == 'k' || *end == 'K')
		v <<= 10, end++;
	else if (*end == 'm' || *end == 'M')
		v <<= 20, end++;
	else if (*end == 'g' || *end == 'G')
		v <<= 30, end++;
	*out = v;
	*next = end;
	return *end == stop || !*end;
}

static void parse_sizes(struct osu_opts *o, const char *arg,
			struct argp_state *state)
{
	const char *p;
	bool ok = parse_bytes(arg, ':', &o->max, &p);

	if (ok && *p == ':') {
		o->min = o->max;
		ok = parse_bytes(p + 1, 0, &o->max, &p);
	}
	if (!ok || o->min < 1 || o->max < o->min || o->max > (4ULL << 30))
		argp_error(state, "-m %s: give MIN:MAX, 1 to 4G bytes", arg);
}

static void parse_number(struct osu_opts *o, int key, const char *arg,
			 struct argp_state *state)
{
	long hi = key == 'r' ? OSU_REPEATS_MAX : key == 'W' ? 4096 : 100000000;
	long v;

	if (!parse_count(arg, key == 'x' ? 0 : 1, hi, &v))
		argp_error(state, "-%c %s: not a number from %d to %ld", key,
			   arg, key == 'x' ? 0 : 1, hi);
	if (key == 'i')
		o->iterations = (int)v;
	else if (key == 'x')
		o->warmup = (int)v;
	else if (key == 'W')
		o->window = (int)v;
	else
		o->repeats = (int)v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct osu_opts *o = state->input;

	switch (key) {
	case 'm':
		parse_sizes(o, arg, state);
		return 0;
	case 'i':
	case 'x':
	case 'W':
	case 'r':
		parse_number(o, key, arg, state);
		return 0;
	case 'c':
		o->validate = true;
		return 0;
	case 'f':
		o->full = true;
		return 0;
	case OPT_COLD:
	case OPT_HOT:
		o->cold = key == OPT_COLD;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "what is %s?", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

double osu_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

int osu_error(const struct osu_bench *b, int code)
{
	const char *cause = lune_last_error();

	fprintf(stderr, "%s: rank %d: %s\n", b->name, b->rank,
		*cause ? cause : lune_strerror(code));
	return code;
}

char *osu_send_slot(const struct osu_bench *b, int slot)
{
	return b->local + OSU_WORDS + (size_t)slot * b->slot_bytes;
}

size_t osu_recv_offset(const struct osu_bench *b, int slot)
{
	return OSU_WORDS + (size_t)(b->opts.window + slot) * b->slot_bytes;
}

void osu_fill(char *p, size_t bytes, unsigned round)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (char)(i * 131 + i / 251 + round * 7 + 1);
}

uint64_t osu_check(const char *p, size_t bytes, unsigned round)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < bytes; i++)
		bad += p[i] != (char)(i * 131 + i / 251 + round * 7 + 1);
	return bad;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void osu_samples(double *us, int n, struct osu_result *out)
{
	double sum = 0;

	qsort(us, (size_t)n, sizeof(*us), by_value);
	for (int i = 0; i < n; i++)
		sum += us[i];
	out->value = sum / n;
	out->min = us[0];
	out->max = us[n - 1];
	out->p50 = us[n / 2];
	out->p99 = us[(size_t)((double)n * 0.99)];
	out->p999 = us[(size_t)((double)n * 0.999)];
}

/* MB/s of memcpy between two warm private buffers of the size. */
static double memcpy_mbs(const struct osu_bench *b, size_t bytes)
{
	char *from = osu_send_slot(b, 0);
	char *to = b->local + osu_recv_offset(b, 0);
	int n = bytes > (1u << 20) ? 8 : 64;
	double t;

	memcpy(to, from, bytes);
	t = osu_now_us();
	for (int i = 0; i < n; i++) {
		memcpy(to, from, bytes);
		__asm__ volatile("" ::: "memory");
	}
	t = osu_now_us() - t;
	return (double)bytes * n / (t > 0 ? t : 1e-3);
}

static void make_cold(void)
{
	static volatile char *big;

	if (!big)
		big = malloc(COLD_BYTES);
	for (size_t i = 0; big && i < COLD_BYTES; i += 64)
		big[i]++;
}

static int by_result(const void *a, const void *b)
{
	const struct osu_result *x = a, *y = b;

	return by_value(&x->value, &y->value);
}

static int run_size(struct osu_bench *b, size_t bytes)
{
	struct osu_result all[OSU_REPEATS_MAX];
	struct osu_result *mid = &all[b->opts.repeats / 2];
	uint64_t errors = 0;
	int n = b->opts.iterations, rc;

	if (!n)
		n = bytes <= 8192 ? 1000 : bytes <= (1u << 20) ? 100 : 20;
	for (int r = 0; r < b->opts.repeats; r++) {
		memset(&all[r], 0, sizeof(all[r]));
		if (b->opts.cold)
			make_cold();
		rc = lune_barrier(b->world, LUNE_TIMEOUT_DEFAULT);
		if (!rc)
			rc = b->run(b, bytes, n, &all[r]);
		if (rc)
			return osu_error(b, rc);
		errors += all[r].errors;
	}
	qsort(all, (size_t)b->opts.repeats, sizeof(*all), by_result);
	mid->bytes = bytes;
	mid->errors = errors;
	if (!b->latency && b->rank == 0)
		mid->memcpy_ratio = mid->value / memcpy_mbs(b, bytes);
	if (b->rank)
		return errors ? LUNE_ERR_CORRUPT : LUNE_OK;
	if (b->opts.json) {
		printf("{\"bench\": \"%s\", \"bytes\": %zu, \"%s\": %.3f, "
		       "\"p50\": %.3f, \"p99\": %.3f, \"over_memcpy\": %.3f, "
		       "\"errors\": %llu}\n", b->name, bytes,
		       b->latency ? "us" : "MBps", mid->value, mid->p50,
		       mid->p99, mid->memcpy_ratio,
		       (unsigned long long)errors);
	} else {
		printf("%-12zu %16.2f", bytes, mid->value);
		if (b->latency && b->opts.full)
			printf(" %10.2f %10.2f %10.2f %10.2f %10.2f", mid->min,
			       mid->max, mid->p50, mid->p99, mid->p999);
		if (!b->latency)
			printf(" %12.2f", mid->memcpy_ratio);
		if (b->opts.validate)
			printf(" %10s", errors ? "FAIL" : "Pass");
		printf("\n");
	}
	fflush(stdout);
	return errors ? LUNE_ERR_CORRUPT : LUNE_OK;
}

static void print_header(struct osu_bench *b)
{
	struct lune_peer_info a = { .size = sizeof(a) },
			      p = { .size = sizeof(p) };
	char route[64] = "?";

	(void)lune_rmem_route(b->peer, LUNE_TIMEOUT_DEFAULT, route,
			      sizeof(route));
	(void)lune_comm_peer(b->world, 0, &a);
	(void)lune_comm_peer(b->world, b->opts.window ? b->rank ^ 1 : 0, &p);
	if (b->opts.json)
		return;
	printf("# Lune %s %s\n", PACKAGE_VERSION, b->what);
	printf("# route %s, %s pid %d -> %s pid %d, %s, median of %d\n", route,
	       a.node, a.pid, p.node, p.pid, b->opts.cold ? "cold" : "hot",
	       b->opts.repeats);
	printf("%-12s %16s", "# Size", b->unit);
	if (b->latency && b->opts.full)
		printf(" %10s %10s %10s %10s %10s", "Min", "Max", "P50", "P99",
		       "P99.9");
	if (!b->latency)
		printf(" %12s", "over memcpy");
	if (b->opts.validate)
		printf(" %10s", "Validation");
	printf("\n");
}

static int bench_open(struct osu_bench *b)
{
	size_t bytes;
	int rc = lune_ctx_open(NULL, &b->ctx);

	if (rc)
		return rc;
	b->world = lune_ctx_world(b->ctx);
	b->rank = lune_comm_rank(b->world);
	if (lune_comm_size(b->world) != b->ranks) {
		if (b->rank == 0)
			fprintf(stderr, "%s needs %d ranks, not %d: start it "
				"with mpirun -n %d\n", b->name, b->ranks,
				lune_comm_size(b->world), b->ranks);
		return LUNE_ERR_INVAL;
	}
	/* Slots a page apart at least, and never 4 KiB-aliased. */
	b->slot_bytes = (b->opts.max + 4095) / 4096 * 4096 + 256;
	bytes = OSU_WORDS + 2 * (size_t)b->opts.window * b->slot_bytes;
	rc = lune_mem_alloc(b->ctx, bytes, NULL, &b->mem);
	if (rc)
		return rc;
	b->local = lune_mem_addr(b->mem);
	rc = lune_win_open(b->world, b->mem, LUNE_TIMEOUT_DEFAULT, &b->win);
	if (!rc)
		b->peer = lune_win_rmem(b->win, b->rank ^ 1);
	return rc;
}

static void bench_close(struct osu_bench *b)
{
	lune_win_close(b->win);
	if (b->mem)
		(void)lune_mem_release(b->mem, 5000);
	if (b->ctx)
		(void)lune_ctx_close(b->ctx, 5000);
}

int osu_main(int argc, char **argv, struct osu_bench *b)
{
	struct argp argp = { options, parse, NULL, b->what, NULL, NULL, NULL };
	int rc;

	b->opts = (struct osu_opts){ .min = 1, .max = 4u << 20, .warmup = 10,
				     .window = b->latency ? 1 : 64,
				     .repeats = 3 };
	argp_program_version = PACKAGE_STRING;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &b->opts);
	/* A window of large messages must fit the machine. */
	while (b->opts.window > 1 &&
	       (double)b->opts.window * (double)b->opts.max > 1e9)
		b->opts.window /= 2;
	rc = bench_open(b);
	if (rc) {
		if (rc != LUNE_ERR_INVAL)
			osu_error(b, rc);
		bench_close(b);
		return rc == LUNE_ERR_INVAL ? 2 : 1;
	}
	if (b->rank == 0)
		print_header(b);
	for (size_t n = b->opts.min; n <= b->opts.max && !rc; n *= 2)
		rc = run_size(b, n);
	if (!rc)
		rc = lune_barrier(b->world, LUNE_TIMEOUT_DEFAULT);
	bench_close(b);
	return rc ? 1 : 0;
}
