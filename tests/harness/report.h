/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks.c knows of its processes, and how report.c tells it.
 */
#ifndef LUNE_TESTS_REPORT_H
#define LUNE_TESTS_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum slot_state { SLOT_UNUSED, SLOT_RUNS, SLOT_ENDED };

/* One process of a run, in memory shared by all of them. */
struct slot {
	/* enum slot_state; written by the parent, a futex for the others. */
	_Atomic uint32_t state;
	_Atomic uint32_t incarnation; /* a futex, too */
	_Atomic int pid;
	_Atomic bool killed;  /* SIGKILL is what it should die of */
	_Atomic bool stopped; /* it was sent SIGSTOP and no SIGCONT */
	_Atomic bool restart; /* somebody asks the parent to restart it */
	_Atomic bool failed;
	char message[1024]; /* of the first failure */
};

/* Name of a rank in messages: "rank 3" or "control". */
const char *report_name(int rank, char *buf, size_t bytes);
/* Print the threads of a process and where they wait. */
void report_threads(int rank, int pid);
/* Print the last lines of a rank's captured output. */
void report_output(int rank, FILE *output);

#endif
