/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations over shm.  Data goes by the mode of its region; all that is
 * mapped or reached by CMA is done here, in the caller's thread, without a
 * lock.  What has no mode (messages, words that are not mapped, CMA that was
 * forbidden meanwhile) goes as frames over the control connection.
 *
 * The target does not see these accesses, so bounds, rights and the
 * generation are checked here, the generation again after the copy: a region
 * that was released in between is reported as stale.
 */
#include <lune/mem.h>
#include <lune/rma.h>

#include "net/shm.h"
#include "net/shm_copy.h"

static int stale(void)
{
	return ln_error(LUNE_ERR_STALE, "the region was released");
}

static bool current(const struct ln_rmem *r)
{
	return atomic_load_explicit(r->gen, memory_order_acquire) ==
	       r->gen_want;
}

/* The target cannot check what is done to its memory here: we do. */
static int check(const struct ln_rmem *r, uint64_t offset, uint64_t bytes,
		 uint32_t rights)
{
	if (!current(r))
		return stale();
	if ((r->rights & rights) != rights)
		return ln_error(LUNE_ERR_ACCESS,
				"the ticket grants rights %x, %x are needed",
				r->rights, rights);
	if (offset > r->bytes || bytes > r->bytes - offset)
		return ln_error(LUNE_ERR_BOUNDS,
				"offset %llu + %llu bytes in a region of %llu",
				(unsigned long long)offset,
				(unsigned long long)bytes,
				(unsigned long long)r->bytes);
	return LUNE_OK;
}

/* Segments that are good, up to the first that is not (its code). */
static uint32_t check_all(const struct ln_op *op, int *code)
{
	uint32_t rights = op->kind == LN_OP_PUT ? LUNE_MEM_WRITE :
						  LUNE_MEM_READ;
	uint32_t i;

	*code = LUNE_OK;
	for (i = 0; i < op->nsegs && !*code; i++)
		*code = check(op->segs[i].rmem, op->segs[i].offset,
			      op->segs[i].bytes, rights);
	return *code ? i - 1 : i;
}

static int map_copy(struct ln_op *op, uint32_t i, uint64_t *bytes)
{
	struct ln_seg *s = &op->segs[i];
	char *there = atomic_load(&s->rmem->map) + s->offset;

	if (s->bytes && op->kind == LN_OP_PUT)
		ln_shm_copy(there, s->local, s->bytes);
	else if (s->bytes)
		memcpy(s->local, there, s->bytes);
	atomic_thread_fence(memory_order_seq_cst);
	if (!current(s->rmem))
		return stale();
	*bytes += s->bytes;
	ln_count(op->peer->net->counters, map_bytes, s->bytes);
	return LUNE_OK;
}

static int copy_all(struct ln_op *op, uint64_t *bytes, uint64_t *index)
{
	uint32_t i = 0, good, all = op->nsegs;
	int bad, rc = LUNE_OK;

	good = check_all(op, &bad);
	op->nsegs = good;
	while (i < good && !rc) {
		if (op->segs[i].rmem->mode == SHM_MAP) {
			rc = map_copy(op, i, bytes);
			i += !rc;
		} else {
			rc = shm_cma_copy(op, &i, bytes);
		}
	}
	op->nsegs = all;
	if (!rc)
		rc = bad;
	*index = rc ? i : 0;
	return rc;
}

/* A signal or an atomic on a mapped word. */
static int word_run(struct ln_op *op)
{
	struct ln_rmem *r = op->sig_rmem;
	char *addr = atomic_load(&r->map) + op->sig_offset;
	struct ln_doorbell *bell;
	uint64_t old;
	int rc = check(r, op->sig_offset, 8, LUNE_MEM_ATOMIC);

	if (rc)
		return rc;
	if ((uintptr_t)addr % 8)
		return ln_error(LUNE_ERR_INVAL, "the word is not aligned");
	if (op->kind == LN_OP_ATOMIC) {
		old = ln_word_atomic(addr, op->sig_how, op->sig_value,
				     op->compare);
		if (op->result)
			*op->result = old;
	} else {
		ln_word_signal(addr, op->sig_how, op->sig_value);
	}
	if (!current(r))
		return stale();
	bell = atomic_load_explicit(&op->peer->bell, memory_order_acquire);
	if (bell)
		ln_doorbell_ring(bell, op->peer->bell_fd);
	return LUNE_OK;
}

static bool is_ours(const struct ln_rmem *r)
{
	return atomic_load(&r->route) == &ln_net_shm;
}

/* How the segments can go: the worst mode among them; SHM_NONE: not by us. */
static int data_mode(const struct ln_op *op)
{
	int worst = SHM_MAP;

	for (uint32_t i = 0; i < op->nsegs; i++) {
		const struct ln_rmem *r = op->segs[i].rmem;
		int mode = is_ours(r) ? r->mode : SHM_NONE;

		if (mode == SHM_NONE)
			return SHM_NONE;
		if (mode == SHM_CMA && !atomic_load(&shm_rmem_peer(r)->cma))
			return SHM_NONE;
		if (mode > worst)
			worst = mode;
	}
	return worst;
}

static int run_here(struct ln_op *op, bool word_mapped)
{
	uint64_t bytes = 0, index = 0;
	int rc = copy_all(op, &bytes, &index);

	/* CMA was forbidden meanwhile: all of it again, another way. */
	if (rc == LUNE_ERR_UNSUPPORTED)
		return ln_wire_post(op);
	if (!rc && op->sig_rmem && !word_mapped) {
		/* The data is there; a frame brings the signal. */
		op->nsegs = 0;
		return ln_wire_post(op);
	}
	if (!rc && op->sig_rmem)
		rc = word_run(op);
	ln_op_finish(op, rc, bytes, index);
	return LUNE_OK;
}

/* Through which peer's ring an op goes; NULL: through none. */
static struct shm_peer *ring_peer(const struct ln_op *op)
{
	for (uint32_t i = 0; i < op->nsegs; i++)
		if (is_ours(op->segs[i].rmem) &&
		    op->segs[i].rmem->mode == SHM_RING)
			return shm_rmem_peer(op->segs[i].rmem);
	return NULL;
}

int shm_op_post(struct ln_op *op)
{
	bool word_mapped = op->sig_rmem && is_ours(op->sig_rmem) &&
			   op->sig_rmem->mode == SHM_MAP;
	int mode;

	if (op->kind == LN_OP_MSG ||
	    (op->kind == LN_OP_ATOMIC && !word_mapped))
		return ln_wire_post(op);
	if (op->kind == LN_OP_ATOMIC) {
		ln_op_finish(op, word_run(op), 8, 0);
		return LUNE_OK;
	}
	mode = op->nsegs || word_mapped ? data_mode(op) : SHM_NONE;
	if (mode == SHM_NONE)
		return ln_wire_post(op);
	if (mode != SHM_RING)
		return run_here(op, word_mapped);
	return shm_ring_post(ring_peer(op), op);
}

void shm_op_cancel(struct ln_op *op)
{
	struct shm_peer *sp = ring_peer(op);

	if (sp)
		shm_ring_cancel(sp, op);
}
