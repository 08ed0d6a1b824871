/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lune-ckpt bcast, step by step.  Every step ends in ckpt_agree, so that all
 * ranks go on together or stop together, each knowing the cause:
 *
 *   join -> manifest -> destinations -> blocks -> finish -> commit -> verify
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bcast.h"

static int share_manifest(struct ckpt_job *job)
{
	uint64_t bytes = 0;
	uint8_t *buf = NULL;
	int rc = LUNE_OK;

	if (job->rank == 0) {
		rc = ckpt_source_open(&job->args, &job->manifest,
				      &job->source);
		if (!rc)
			rc = ckpt_manifest_pack(&job->manifest, &buf, &bytes);
	}
	rc = ckpt_agree(job, rc, "reading the source");
	if (rc)
		goto out;
	rc = lune_bcast(job->world, 0, &bytes, sizeof(bytes),
			job->args.timeout_ms);
	if (!rc && job->rank) {
		buf = malloc(bytes);
		rc = buf ? LUNE_OK : LUNE_ERR_NOMEM;
	}
	if (!rc)
		rc = lune_bcast(job->world, 0, buf, bytes,
				job->args.timeout_ms);
	if (rc)
		ckpt_lune_error(rc, "sharing the manifest");
	else if (job->rank)
		rc = ckpt_manifest_unpack(buf, bytes, &job->manifest);
	if (!rc) {
		job->hashes = calloc(job->manifest.nblocks + 1,
				     sizeof(*job->hashes));
		if (!job->hashes)
			rc = ckpt_error(LUNE_ERR_NOMEM, "no memory for hashes");
	}
	rc = ckpt_agree(job, rc, "sharing the manifest");
out:
	free(buf);
	return rc;
}

/* The destination must not be the source itself. */
static int refuse_same(const struct ckpt_job *job)
{
	char *a = realpath(job->args.source, NULL);
	char *b = realpath(job->path, NULL);
	int rc = LUNE_OK;

	if (a && b && !strcmp(a, b))
		rc = ckpt_error(LUNE_ERR_INVAL, "--to %s is the source itself",
				job->path);
	free(a);
	free(b);
	return rc;
}

static int open_destinations(struct ckpt_job *job)
{
	struct lune_peer_info me = { .size = sizeof(me) };
	bool writer = false;
	int rc = ckpt_lane_open(job, &writer);
	int32_t mine = writer, *all;

	if (!rc && job->args.to) {
		rc = lune_comm_peer(job->world, job->rank, &me);
		if (!rc)
			rc = ckpt_dest_path(job->args.to, job->rank, me.host,
					    job->path, sizeof(job->path));
		if (!rc && job->rank == 0)
			rc = refuse_same(job);
		if (!rc && writer)
			rc = ckpt_dest_open(&job->args, job->path,
					    &job->manifest, &job->dest);
	}
	rc = ckpt_agree(job, rc, "opening the destinations");
	if (rc)
		return rc;
	all = calloc((size_t)job->size, sizeof(*all));
	if (!all)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	rc = lune_allgather(job->world, &mine, sizeof(mine), all,
			    job->args.timeout_ms);
	for (int r = 0; r < job->size && !rc; r++)
		job->writers += all[r];
	free(all);
	return rc ? ckpt_lune_error(rc, "counting the writers") : LUNE_OK;
}

/* Everybody gets rank 0's hashes; writers compare them with what they got. */
static int share_hashes(struct ckpt_job *job)
{
	uint64_t n = job->manifest.nblocks, *theirs;
	int rc;

	theirs = malloc((n + 1) * sizeof(*theirs));
	if (!theirs)
		return ckpt_error(LUNE_ERR_NOMEM, "no memory for hashes");
	memcpy(theirs, job->hashes, n * sizeof(*theirs));
	rc = lune_bcast(job->world, 0, theirs, n * sizeof(*theirs),
			job->args.timeout_ms);
	if (rc)
		ckpt_lune_error(rc, "comparing hashes");
	else if (job->lane && memcmp(theirs, job->hashes, n * sizeof(*theirs)))
		rc = ckpt_error(LUNE_ERR_CORRUPT,
				"the received blocks differ from the source");
	else
		memcpy(job->hashes, theirs, n * sizeof(*theirs));
	free(theirs);
	return rc;
}

static int move_and_commit(struct ckpt_job *job)
{
	int rc = LUNE_OK;

	if (job->lane)
		rc = ckpt_lane_run(job);
	rc = ckpt_agree(job, rc, "moving the blocks");
	if (!rc)
		rc = share_hashes(job);
	if (!rc && job->dest)
		rc = ckpt_dest_finish(job->dest, &job->manifest);
	rc = ckpt_agree(job, rc, "finishing the files");
	if (!rc && job->dest)
		rc = ckpt_dest_commit(job->dest);
	rc = ckpt_agree(job, rc, "naming the copies");
	if (!rc && job->args.verify && job->args.to) {
		rc = ckpt_verify(job->path, &job->manifest, job->hashes);
		rc = ckpt_agree(job, rc, "verifying the copies");
	}
	return rc;
}

static void job_fini(struct ckpt_job *job)
{
	ckpt_dest_close(job->dest);
	ckpt_source_close(job->source);
	ckpt_manifest_fini(&job->manifest);
	free(job->hashes);
	lune_comm_close(job->lane);
	if (job->ctx)
		(void)lune_ctx_close(job->ctx, 2000);
}

static int exit_code(int rc)
{
	if (ckpt_interrupted)
		return CKPT_EXIT_INTERRUPT;
	if (rc == LUNE_ERR_CORRUPT)
		return CKPT_EXIT_CORRUPT;
	return rc ? CKPT_EXIT_FAILED : CKPT_EXIT_OK;
}

int ckpt_bcast(const struct ckpt_args *args)
{
	struct ckpt_job job = { .args = *args };
	int rc = lune_ctx_open(NULL, &job.ctx);

	if (rc) {
		ckpt_lune_error(rc, "joining the job");
		fprintf(stderr, "lune-ckpt: %s\n", ckpt_sentence());
		return CKPT_EXIT_FAILED;
	}
	job.world = lune_ctx_world(job.ctx);
	job.rank = lune_comm_rank(job.world);
	job.size = lune_comm_size(job.world);
	rc = share_manifest(&job);
	if (!rc)
		rc = open_destinations(&job);
	if (!rc)
		rc = move_and_commit(&job);
	if (!rc && job.rank == 0 && !job.args.quiet)
		ckpt_summary(&job);
	if (rc)
		fprintf(stderr, "lune-ckpt: rank %d of %d: %s\n", job.rank,
			job.size, ckpt_sentence());
	job_fini(&job);
	return exit_code(rc);
}
