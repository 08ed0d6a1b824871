/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lune-ckpt: checkpoints from one rank to many.  See README.md of tools/.
 *
 *   source.c   SRC -> manifest (files, sizes, blocks) and block reads
 *   dest.c     DEST.partial-* -> writes -> verified -> DEST (atomic)
 *   lane.c     the pipeline: rank 0 -> writer 1 -> writer 2 -> ...
 *   agree.c    every rank learns of any rank's failure, with its sentence
 *   report.c   progress bar and summary
 *
 * All functions return LUNE_OK or a negative code whose sentence has been
 * recorded with ckpt_error(); the first failure of the job is the one shown.
 */
#ifndef CKPT_H
#define CKPT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <lune/lune.h>

#define CKPT_BLOCK_DEFAULT (4u << 20)
#define CKPT_BLOCK_MIN (64u << 10)
#define CKPT_BLOCK_MAX (64u << 20)
#define CKPT_FILES_MAX 100000
#define CKPT_PATH_MAX 4096
#define CKPT_SLOTS 8 /* blocks in flight to one writer */

/* Exit codes, documented in lune-ckpt.1. */
enum ckpt_exit {
	CKPT_EXIT_OK = 0,
	CKPT_EXIT_FAILED = 1,	 /* the job failed; the message says why */
	CKPT_EXIT_USAGE = 2,	 /* wrong arguments */
	CKPT_EXIT_CORRUPT = 3,	 /* verification failed */
	CKPT_EXIT_INTERRUPT = 130 /* SIGINT or SIGTERM */
};

struct ckpt_args {
	const char *source, *to;
	uint64_t block;
	int timeout_ms;
	bool verify, force, sync, quiet, json;
};

struct ckpt_file {
	char *path; /* relative, '/' separated, no "." or ".." */
	uint64_t bytes;
	uint32_t mode;
	uint64_t first; /* index of its first block */
};

struct ckpt_manifest {
	bool directory;
	uint64_t block, total, nblocks;
	size_t nfiles;
	struct ckpt_file *files;
	uint64_t tensors; /* in safetensors files, for the summary */
};

struct ckpt_block {
	size_t file;
	uint64_t offset, bytes;
};

struct ckpt_source;
struct ckpt_dest;

/* Parts of a writer's time. */
enum { CKPT_TAKING, CKPT_PASSING, CKPT_WRITING, CKPT_SPENT };

struct ckpt_job {
	struct ckpt_args args;
	lune_ctx *ctx;
	lune_comm *world, *lane;
	int rank, size;
	int source_error; /* rank 0: lane code that was the source's */
	struct ckpt_manifest manifest;
	uint64_t *hashes; /* XXH3 of each block, as read at rank 0 */
	struct ckpt_source *source;
	struct ckpt_dest *dest; /* writers only */
	char path[CKPT_PATH_MAX]; /* DEST of this rank */
	int writers;		  /* copies made */
	double bound_s, elapsed_s;
	double spent[CKPT_SPENT]; /* seconds in each part, the slowest rank's */
	char bound_text[160];
};

extern volatile sig_atomic_t ckpt_interrupted;

/* ---- error sentence of this rank (agree.c) ------------------------------ */

int ckpt_error(int code, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Record lune_last_error() behind a prefix. */
int ckpt_lune_error(int code, const char *doing);
const char *ckpt_sentence(void);
/* Tell every other rank that this one gives up. */
void ckpt_announce(struct ckpt_job *job, int code);
/* LUNE_OK, or that we were interrupted or another rank gave up. */
int ckpt_check(struct ckpt_job *job);
/*
 * Everybody tells its code; all return the first bad one, with its rank and
 * sentence.  The step's name goes into the sentence.
 */
int ckpt_agree(struct ckpt_job *job, int code, const char *step);

/* ---- source.c ----------------------------------------------------------- */

/* Scan SRC, check safetensors headers, open.  Rank 0 only. */
int ckpt_source_open(const struct ckpt_args *args, struct ckpt_manifest *m,
		     struct ckpt_source **out);
int ckpt_source_read(struct ckpt_source *s, const struct ckpt_manifest *m,
		     uint64_t index, void *out);
/* The files are still what they were when scanned. */
int ckpt_source_unchanged(struct ckpt_source *s, const struct ckpt_manifest *m);
void ckpt_source_close(struct ckpt_source *s);

/* ---- manifest.c --------------------------------------------------------- */

int ckpt_manifest_pack(const struct ckpt_manifest *m, uint8_t **out,
		       uint64_t *bytes);
/* Checks everything: it came over the network and names files. */
int ckpt_manifest_unpack(const uint8_t *p, uint64_t bytes,
			 struct ckpt_manifest *out);
void ckpt_manifest_fini(struct ckpt_manifest *m);
/* Compute total, nblocks and first from the files. */
int ckpt_manifest_finish(struct ckpt_manifest *m);
void ckpt_manifest_block(const struct ckpt_manifest *m, uint64_t index,
			 struct ckpt_block *out);
/* XXH3-128 over the block hashes, as 32 hex digits. */
void ckpt_root_hash(const uint64_t *hashes, uint64_t n, char out[33]);
uint64_t ckpt_hash(const void *p, uint64_t bytes);

/* ---- dest.c ------------------------------------------------------------- */

/* Expand {rank} and {host}. */
int ckpt_dest_path(const char *to, int rank, const char *host, char *out,
		   size_t cap);
int ckpt_dest_open(const struct ckpt_args *args, const char *path,
		   const struct ckpt_manifest *m, struct ckpt_dest **out);
int ckpt_dest_write(struct ckpt_dest *d, const struct ckpt_manifest *m,
		    uint64_t index, const void *p);
/* Everything to disk (unless no sync), modes set; still the partial name. */
int ckpt_dest_finish(struct ckpt_dest *d, const struct ckpt_manifest *m);
int ckpt_dest_commit(struct ckpt_dest *d); /* the final name appears */
/* Removes what is not committed. */
void ckpt_dest_close(struct ckpt_dest *d);
/* Re-read a copy and compare each block. */
int ckpt_verify(const char *path, const struct ckpt_manifest *m,
		const uint64_t *hashes);

/* ---- lane.c ------------------------------------------------------------- */

/* Who writes, and the communicator of the writers in pipeline order. */
int ckpt_lane_open(struct ckpt_job *job, bool *writer);
int ckpt_lane_run(struct ckpt_job *job);

/* ---- report.c ----------------------------------------------------------- */

double ckpt_now(void);
void ckpt_progress(const struct ckpt_job *job, uint64_t done, double since);
void ckpt_summary(const struct ckpt_job *job);
void ckpt_size_text(uint64_t bytes, char *out, size_t cap);

/* ---- safetensors.c ------------------------------------------------------ */

/*
 * Validate the header of a safetensors file: its length against the file,
 * JSON depth, and for every tensor the dtype, the shape against the bytes, and
 * offsets that cover the data without overlap or hole.
 * head: the first head_bytes of the file, the whole header included.
 */
#define CKPT_SAFETENSORS_HEADER_MAX (100u << 20)
int ckpt_safetensors_check(const char *name, const uint8_t *head,
			   uint64_t head_bytes, uint64_t file_bytes,
			   uint64_t *tensors);

#endif
