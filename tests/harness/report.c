/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a failed run: who failed and why, who hung and where, and the
 * last lines that each rank wrote.
 */
#include <dirent.h>
#include <string.h>

#include "tests/harness/run.h"

#define TAIL_BYTES 6000

const char *report_name(int rank, char *buf, size_t bytes)
{
	if (rank == RANKS_CONTROL)
		snprintf(buf, bytes, "control");
	else
		snprintf(buf, bytes, "rank %d", rank);
	return buf;
}

/* The first line of /proc/PID/task/TID/NAME, "" when it cannot be read. */
static void proc_line(int pid, const char *tid, const char *name, char *out,
		      int bytes)
{
	char path[300];
	FILE *f;

	out[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%.32s/%s", pid, tid, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(out, bytes, f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	fclose(f);
}

void report_threads(int rank, int pid)
{
	char path[64], who[32], comm[64], wchan[128], call[128];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d)
		return;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		proc_line(pid, e->d_name, "comm", comm, sizeof(comm));
		proc_line(pid, e->d_name, "wchan", wchan, sizeof(wchan));
		proc_line(pid, e->d_name, "syscall", call, sizeof(call));
		call[strcspn(call, " ")] = '\0';
		fprintf(stderr, "[%s] thread %s (%s) in %s, system call %s\n",
			report_name(rank, who, sizeof(who)), e->d_name, comm,
			wchan, call);
	}
	closedir(d);
}

void report_output(int rank, FILE *output)
{
	char text[TAIL_BYTES + 1], who[32], *line, *next;
	long size, from;
	size_t n;

	if (!output || fseek(output, 0, SEEK_END) < 0)
		return;
	size = ftell(output);
	from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
	if (size <= 0 || fseek(output, from, SEEK_SET) < 0)
		return;
	n = fread(text, 1, TAIL_BYTES, output);
	text[n] = '\0';
	report_name(rank, who, sizeof(who));
	/* A cut first line says nothing. */
	line = from ? strchr(text, '\n') : text;
	for (line = line ? line : text; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		fprintf(stderr, "[%s] %s\n", who, line);
	}
}
