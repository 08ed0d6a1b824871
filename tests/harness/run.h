/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the harness share: the page of a run and its slots.
 */
#ifndef LUNE_TESTS_RUN_H
#define LUNE_TESTS_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/harness/ranks.h"

#define MS 1000000u

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

/* Shared by all processes of a run. */
struct page {
	int n, parent;
	uint64_t deadline, wait_deadline; /* monotonic ns */
	struct slot slot[RANKS_MAX + 1];  /* the last is control's */
	_Atomic uint32_t flag[RANKS_FLAGS];
	_Atomic uint32_t barrier[RANKS_FLAGS];
	_Alignas(4096) uint8_t scratch[RANKS_SCRATCH_BYTES];
};

extern struct page *ranks_page; /* of the run in progress */

/* Who this process is: set by the parent in a fresh child (inside.c). */
void ranks_become(int rank, int incarnation);
struct slot *ranks_slot(int rank);

uint64_t ranks_now_ns(void);
void ranks_wake(_Atomic uint32_t *word);

/* report.c */
/* Name of a rank in messages: "rank 3" or "control". */
const char *report_name(int rank, char *buf, size_t bytes);
/* Print the threads of a process and where they wait. */
void report_threads(int rank, int pid);
/* Print the last lines of a rank's captured output. */
void report_output(int rank, FILE *output);

#endif
