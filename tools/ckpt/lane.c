/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane: the writers in a chain, each block going down it.
 *
 *   rank 0        writer 1        writer 2
 *   read ->[slots]--put-->[slots]--put-->[slots]
 *   hash     |      ^ credit |      ^ credit |
 *   write    v      |  check v      |  check v
 *           DEST            DEST            DEST
 *
 * Every member owns CKPT_SLOTS slots of one block and a page of words in one
 * lune_mem.  Block b lives in slot b mod CKPT_SLOTS, together with a header
 * (its hash) put by the same operation, whose signal adds 1 to the FILLED word
 * behind the bytes.  A member that has written a block and passed it on adds 1
 * to its predecessor's CREDIT word.
 *
 * Invariants: a slot is written by the predecessor only after the credit for
 * its last block came; a block is passed on only after its hash was checked.
 *
 * The order of the chain is by node, so each node boundary is crossed once.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"

#define WORDS_BYTES 4096
#define WORD_FILLED 0
#define WORD_CREDIT 8
#define WORD_PROBE 16
#define HEADER_BYTES 64
#define WAIT_SLICE_MS 100
#define PROBE_BLOCKS 4

struct header {
	uint64_t index, hash, bytes;
};

struct lane {
	struct ckpt_job *job;
	lune_mem *mem;
	lune_win *win;
	lune_rmem *next, *prev;
	char *base;
	uint64_t slot_bytes;
	int rank, size;
	lune_req *sent[CKPT_SLOTS];
	uint64_t retired; /* blocks passed on, written and credited */
	double started;
};

/* ---- who writes --------------------------------------------------------- */

static int peer_node(struct ckpt_job *job, int rank,
		     struct lune_peer_info *info)
{
	int rc;

	info->size = sizeof(*info);
	rc = lune_comm_peer(job->world, rank, info);
	return rc ? ckpt_lune_error(rc, "looking at the ranks") : LUNE_OK;
}

/* The position of our node in the order of first ranks, and our leader. */
static int node_of(struct ckpt_job *job, int *leader)
{
	struct lune_peer_info mine, other;
	int rc = peer_node(job, job->rank, &mine);

	for (int r = 0; r < job->size && !rc; r++) {
		rc = peer_node(job, r, &other);
		if (!rc && !strcmp(other.node, mine.node)) {
			*leader = r;
			return LUNE_OK;
		}
	}
	return rc ? rc : ckpt_error(LUNE_ERR_INVAL, "this rank has no node");
}

int ckpt_lane_open(struct ckpt_job *job, bool *writer)
{
	bool own = job->args.to && strstr(job->args.to, "{rank}");
	struct lune_split how;
	int leader, rc;

	rc = node_of(job, &leader);
	if (rc)
		return rc;
	*writer = own || leader == job->rank;
	how.color = *writer || job->rank == 0 ? 0 : LUNE_COMM_NO_COLOR;
	how.key = leader;
	rc = lune_comm_split(job->world, &how, job->args.timeout_ms,
			     &job->lane);
	return rc ? ckpt_lune_error(rc, "grouping the writers") : LUNE_OK;
}

/* ---- waiting that hears of failures ------------------------------------- */

static int wait_word(struct lane *l, uint64_t word, uint64_t at_least)
{
	struct lune_signal s = { .mem = l->mem, .offset = word,
				 .compare = LUNE_GE, .value = at_least };
	double until = ckpt_now() + l->job->args.timeout_ms / 1e3;
	int rc;

	for (;;) {
		rc = lune_signal_wait(&s, WAIT_SLICE_MS);
		if (rc == LUNE_OK)
			return LUNE_OK;
		if (rc != LUNE_ERR_TIMEOUT)
			return ckpt_lune_error(rc, "waiting for a block");
		rc = ckpt_check(l->job);
		if (rc)
			return rc;
		for (int r = 0; r < l->size; r++)
			if (!lune_comm_alive(l->job->lane, r))
				return ckpt_error(LUNE_ERR_PEER,
						  "writer %d of the chain is "
						  "gone", r);
		if (ckpt_now() > until)
			return ckpt_error(LUNE_ERR_TIMEOUT,
					  "no block moved for %d s (--timeout)",
					  l->job->args.timeout_ms / 1000);
	}
}

static int wait_sent(struct lane *l, unsigned slot)
{
	int rc;

	do {
		rc = lune_req_wait(&l->sent[slot], WAIT_SLICE_MS, NULL);
		if (rc == LUNE_ERR_TIMEOUT && l->sent[slot]) {
			int bad = ckpt_check(l->job);

			if (bad)
				return bad;
		}
	} while (rc == LUNE_ERR_TIMEOUT && l->sent[slot]);
	return rc ? ckpt_lune_error(rc, "passing a block on") : LUNE_OK;
}

/* ---- set-up ------------------------------------------------------------- */

static int lane_init(struct lane *l, struct ckpt_job *job)
{
	int rc;

	memset(l, 0, sizeof(*l));
	l->job = job;
	l->rank = lune_comm_rank(job->lane);
	l->size = lune_comm_size(job->lane);
	l->slot_bytes = HEADER_BYTES + job->manifest.block;
	rc = lune_mem_alloc(job->ctx, WORDS_BYTES + CKPT_SLOTS * l->slot_bytes,
			    NULL, &l->mem);
	if (rc)
		return ckpt_lune_error(rc, "allocating block buffers");
	l->base = lune_mem_addr(l->mem);
	rc = lune_win_open(job->lane, l->mem, job->args.timeout_ms, &l->win);
	if (rc)
		return ckpt_lune_error(rc, "exchanging buffers");
	if (l->rank > 0)
		l->prev = lune_win_rmem(l->win, l->rank - 1);
	if (l->rank + 1 < l->size)
		l->next = lune_win_rmem(l->win, l->rank + 1);
	return LUNE_OK;
}

static void lane_fini(struct lane *l)
{
	for (unsigned i = 0; i < CKPT_SLOTS; i++) {
		if (l->sent[i])
			lune_req_cancel(l->sent[i]);
		(void)lune_req_wait(&l->sent[i], 2000, NULL);
	}
	if (l->win)
		lune_win_close(l->win);
	if (l->mem)
		(void)lune_mem_release(l->mem, 2000);
}

static char *slot_of(const struct lane *l, uint64_t index)
{
	return l->base + WORDS_BYTES + (index % CKPT_SLOTS) * l->slot_bytes;
}

/* ---- the bound ---------------------------------------------------------- */

/* Rate of our hop to the next writer, bytes per second; 0: none. */
static int probe_hop(struct lane *l, double *rate)
{
	uint64_t bytes = l->job->manifest.block;
	double best = 0;
	int rc = LUNE_OK;

	for (int i = 0; i < PROBE_BLOCKS && !rc && l->next; i++) {
		lune_req *req;
		double t0 = ckpt_now();

		rc = lune_put(l->next, WORDS_BYTES + HEADER_BYTES,
			      l->base + WORDS_BYTES + HEADER_BYTES, bytes,
			      &(struct lune_op){ .req = &req });
		if (!rc)
			rc = lune_req_wait(&req, l->job->args.timeout_ms, NULL);
		if (!rc && i > 0) /* the first one connects */
			best = (double)bytes / (ckpt_now() - t0) > best ?
				       (double)bytes / (ckpt_now() - t0) : best;
	}
	*rate = best;
	return rc ? ckpt_lune_error(rc, "probing the next writer") : LUNE_OK;
}

/*
 * The bound: no writer can have everything before m bytes crossed the slowest
 * hop (m/bw, all hops at once), and hops inside one machine share its
 * processors: their copies add up.  Every hop is probed while its neighbours
 * are silent: even ones first, then odd ones.
 */
static int lane_bound(struct lane *l)
{
	double rates[2] = { 0, 0 }, *all;
	double slowest = 0, total = (double)l->job->manifest.total;
	int rc = LUNE_OK, worst = 0;

	for (int turn = 0; turn < 2 && !rc; turn++) {
		if (l->rank % 2 == turn)
			rc = probe_hop(l, &rates[0]);
		if (!rc)
			rc = lune_barrier(l->job->lane,
					  l->job->args.timeout_ms);
	}
	if (rc)
		return *ckpt_sentence() ? rc : ckpt_lune_error(rc, "probing");
	all = calloc((size_t)l->size, sizeof(*all));
	if (!all)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	rc = lune_allgather(l->job->lane, rates, sizeof(*all), all,
			    l->job->args.timeout_ms);
	for (int r = 0; r + 1 < l->size && !rc; r++) {
		double t = all[r] > 0 ? total / all[r] : 0;

		if (t > slowest) {
			slowest = t;
			worst = r;
		}
	}
	l->job->bound_s = slowest;
	snprintf(l->job->bound_text, sizeof(l->job->bound_text),
		 "m/bw of the slowest hop, writer %d to %d, alone at %.2f GB/s",
		 worst, worst + 1,
		 all[worst] > 0 ? all[worst] / 1e9 : 0.0);
	free(all);
	return rc ? ckpt_lune_error(rc, "probing") : LUNE_OK;
}

/* ---- the pipeline ------------------------------------------------------- */

/* Give the oldest slots back: passed on, so the predecessor may refill. */
static int retire_to(struct lane *l, uint64_t upto)
{
	uint64_t blocks = l->job->manifest.nblocks;
	int rc = LUNE_OK;

	while (l->retired < upto && !rc) {
		rc = wait_sent(l, l->retired % CKPT_SLOTS);
		if (rc)
			return rc;
		/* Nobody waits for the last ones: their receiver may have
		 * let go of its words already. */
		if (l->prev && l->retired + CKPT_SLOTS < blocks)
			rc = lune_signal_add(l->prev, WORD_CREDIT, 1, NULL);
		if (rc)
			return ckpt_lune_error(rc, "giving a block back");
		l->retired++;
	}
	return rc;
}

/* Bring block b into its slot: from the source, or from the predecessor. */
static int take_block(struct lane *l, uint64_t b, const struct ckpt_block *blk)
{
	struct header *h = (struct header *)slot_of(l, b);
	char *data = (char *)h + HEADER_BYTES;
	struct ckpt_job *job = l->job;
	int rc;

	if (l->rank == 0) {
		rc = ckpt_source_read(job->source, &job->manifest, b, data);
		if (rc)
			return rc;
		h->index = b;
		h->bytes = blk->bytes;
		h->hash = ckpt_hash(data, blk->bytes);
		job->hashes[b] = h->hash;
		return LUNE_OK;
	}
	/* While nothing has come, use the time to give slots back. */
	while (lune_signal_read(l->mem, WORD_FILLED) <= b && l->retired < b) {
		rc = retire_to(l, l->retired + 1);
		if (rc)
			return rc;
	}
	rc = wait_word(l, WORD_FILLED, b + 1);
	if (rc)
		return rc;
	job->hashes[b] = ckpt_hash(data, blk->bytes);
	if (h->index != b || h->bytes != blk->bytes ||
	    h->hash != job->hashes[b])
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "block %llu from writer %d does not match "
				  "its hash", (unsigned long long)b,
				  l->rank - 1);
	return LUNE_OK;
}

static int pass_block(struct lane *l, uint64_t b, const struct ckpt_block *blk)
{
	char *slot = slot_of(l, b);
	struct lune_op op = {
		.req = &l->sent[b % CKPT_SLOTS],
		.signal = { .rmem = l->next, .offset = WORD_FILLED, .value = 1,
			    .how = LUNE_SIGNAL_ADD },
	};
	int rc;

	if (!l->next)
		return LUNE_OK;
	if (b >= CKPT_SLOTS) {
		rc = wait_word(l, WORD_CREDIT, b - CKPT_SLOTS + 1);
		if (rc)
			return rc;
	}
	rc = lune_put(l->next, (uint64_t)(slot - l->base), slot,
		      HEADER_BYTES + blk->bytes, &op);
	return rc ? ckpt_lune_error(rc, "passing a block on") : LUNE_OK;
}

static int move_block(struct lane *l, uint64_t b)
{
	struct ckpt_job *job = l->job;
	struct ckpt_block blk;
	double t[4];
	int rc = LUNE_OK;

	ckpt_manifest_block(&job->manifest, b, &blk);
	t[0] = ckpt_now();
	if (b >= CKPT_SLOTS)
		rc = retire_to(l, b - CKPT_SLOTS + 1);
	t[1] = ckpt_now();
	if (!rc)
		rc = take_block(l, b, &blk);
	t[2] = ckpt_now();
	if (!rc)
		rc = pass_block(l, b, &blk);
	t[3] = ckpt_now();
	if (!rc && job->dest)
		rc = ckpt_dest_write(job->dest, &job->manifest, b,
				     slot_of(l, b) + HEADER_BYTES);
	job->spent[CKPT_TAKING] += t[2] - t[1];
	job->spent[CKPT_PASSING] += t[1] - t[0] + t[3] - t[2];
	job->spent[CKPT_WRITING] += ckpt_now() - t[3];
	return rc;
}

/* Of each part, the time of the rank that took longest. */
static int slowest_parts(struct lane *l)
{
	double *all = calloc((size_t)l->size * CKPT_SPENT, sizeof(*all));
	double *spent = l->job->spent;
	int rc;

	if (!all)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	rc = lune_allgather(l->job->lane, spent, CKPT_SPENT * sizeof(*all),
			    all, l->job->args.timeout_ms);
	for (int i = 0; !rc && i < l->size * CKPT_SPENT; i++)
		if (all[i] > spent[i % CKPT_SPENT])
			spent[i % CKPT_SPENT] = all[i];
	free(all);
	return rc ? ckpt_lune_error(rc, "summing up") : LUNE_OK;
}

static int lane_blocks(struct lane *l)
{
	struct ckpt_job *job = l->job;
	uint64_t n = job->manifest.nblocks, done = 0;
	struct ckpt_block blk;
	int rc = LUNE_OK;

	for (uint64_t b = 0; b < n && !rc; b++) {
		rc = move_block(l, b);
		if (!rc && b % 16 == 0)
			rc = ckpt_check(job);
		if (rc)
			break;
		ckpt_manifest_block(&job->manifest, b, &blk);
		done += blk.bytes;
		ckpt_progress(job, done, l->started);
	}
	return rc ? rc : retire_to(l, n);
}

int ckpt_lane_run(struct ckpt_job *job)
{
	struct lane l;
	int rc = lane_init(&l, job);

	if (!rc)
		rc = lane_bound(&l);
	if (!rc)
		rc = lune_barrier(job->lane, job->args.timeout_ms) ?
			     ckpt_lune_error(LUNE_ERR_PEER, "starting") :
			     LUNE_OK;
	l.started = ckpt_now();
	if (!rc)
		rc = lane_blocks(&l);
	if (!rc && job->source)
		rc = ckpt_source_unchanged(job->source, &job->manifest);
	job->elapsed_s = ckpt_now() - l.started;
	if (!rc)
		rc = slowest_parts(&l);
	if (rc) /* before we let go of the buffers others are writing to */
		ckpt_announce(job, rc);
	lane_fini(&l);
	return rc;
}
