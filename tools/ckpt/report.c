/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person sees: a bar that redraws itself on a terminal, a line for
 * every 10 % elsewhere (on stderr), and a summary (on stdout).
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ckpt.h"

double ckpt_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

void ckpt_size_text(uint64_t bytes, char *out, size_t cap)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB",
					    "PiB", "EiB" };
	double v = (double)bytes;
	int u = 0;

	while (v >= 1024 && u < 6) {
		v /= 1024;
		u++;
	}
	snprintf(out, cap, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

static void draw_bar(double part, const char *text)
{
	char bar[31];
	int full = (int)(part * 30);

	memset(bar, '.', 30);
	memset(bar, '#', (size_t)full);
	bar[30] = 0;
	fprintf(stderr, "\r[%s] %3.0f %%  %s\033[K%s", bar, part * 100, text,
		part >= 1 ? "\n" : "");
	fflush(stderr);
}

void ckpt_progress(const struct ckpt_job *job, uint64_t done, double since)
{
	static double last_draw;
	static int last_tenth = -1;
	double now = ckpt_now(), part, rate, left;
	uint64_t total = job->manifest.total;
	char text[96], d[32], t[32];
	bool tty = isatty(STDERR_FILENO);

	if (job->args.quiet || job->rank)
		return;
	part = total ? (double)done / (double)total : 1;
	rate = now > since ? (double)done / (now - since) : 0;
	left = rate > 0 ? (double)(total - done) / rate : 0;
	if (tty ? (now - last_draw < 0.1 && part < 1) :
		  (int)(part * 10) == last_tenth)
		return;
	last_draw = now;
	last_tenth = (int)(part * 10);
	ckpt_size_text(done, d, sizeof(d));
	ckpt_size_text(total, t, sizeof(t));
	snprintf(text, sizeof(text), "%s of %s  %.2f GB/s  ETA %.0f s", d, t,
		 rate / 1e9, left);
	if (tty)
		draw_bar(part, text);
	else
		fprintf(stderr, "lune-ckpt: %3.0f %%  %s\n", part * 100, text);
}

static void summary_json(const struct ckpt_job *job, const char *root)
{
	const struct ckpt_manifest *m = &job->manifest;

	printf("{\"bytes\": %llu, \"files\": %zu, \"tensors\": %llu, "
	       "\"blocks\": %llu, \"copies\": %d, \"ranks\": %d, "
	       "\"seconds\": %.6f, \"bytes_per_second\": %.0f, "
	       "\"delivered_bytes_per_second\": %.0f, "
	       "\"bound_seconds\": %.6f, \"root_hash\": \"%s\", "
	       "\"verified\": \"%s\"}\n",
	       (unsigned long long)m->total, m->nfiles,
	       (unsigned long long)m->tensors, (unsigned long long)m->nblocks,
	       job->writers, job->size, job->elapsed_s,
	       (double)m->total / job->elapsed_s,
	       (double)m->total * job->writers / job->elapsed_s, job->bound_s,
	       root, job->args.verify ? "read back by every rank" :
					"received blocks");
}

void ckpt_summary(const struct ckpt_job *job)
{
	const struct ckpt_manifest *m = &job->manifest;
	char total[32], root[33];

	ckpt_root_hash(job->hashes, m->nblocks, root);
	if (job->args.json) {
		summary_json(job, root);
		return;
	}
	ckpt_size_text(m->total, total, sizeof(total));
	printf("lune-ckpt: %s in %zu file%s", total, m->nfiles,
	       m->nfiles == 1 ? "" : "s");
	if (m->tensors)
		printf(" (%llu tensors)", (unsigned long long)m->tensors);
	printf(" to %d cop%s for %d rank%s in %.2f s\n", job->writers,
	       job->writers == 1 ? "y" : "ies", job->size,
	       job->size == 1 ? "" : "s", job->elapsed_s);
	printf("  rate      %.2f GB/s per copy, %.2f GB/s delivered\n",
	       (double)m->total / job->elapsed_s / 1e9,
	       (double)m->total * job->writers / job->elapsed_s / 1e9);
	if (job->bound_s > 0)
		printf("  bound     %.2f s (%s); took %.1f x\n",
		       job->bound_s, job->bound_text,
		       job->elapsed_s / job->bound_s);
	else
		printf("  bound     none: one copy, nothing was passed on\n");
	printf("  slowest   %.2f s getting blocks, %.2f s passing them on, "
	       "%.2f s writing\n", job->spent[CKPT_TAKING],
	       job->spent[CKPT_PASSING], job->spent[CKPT_WRITING]);
	printf("  verified  XXH3 of %llu blocks%s, root %s\n",
	       (unsigned long long)m->nblocks,
	       job->args.verify ? ", read back by every rank" : "", root);
}
