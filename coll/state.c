/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What coll keeps in a communicator: words that the other members write.
 *
 *	[0 .. LN_COLL_FLAGS)   blocks of a broadcast that have arrived
 *	then one cache line for each round of a barrier
 *
 * Made when first needed, gone with the communicator.  The program does not
 * know of the memory, so the context does not count it as left open.
 */
#include "coll/coll.h"

#define WORDS (LN_COLL_FLAGS + 8 * LN_BARRIER_ROUNDS)

int ln_coll_state(lune_comm *comm, struct ln_coll_state **out)
{
	struct ln_coll_state *s = comm->coll;
	int rc;

	if (!s) {
		s = ln_calloc(1, sizeof(*s));
		if (!s)
			return LUNE_ERR_NOMEM;
		rc = lune_mem_alloc(comm->ctx, WORDS * sizeof(uint64_t), NULL,
				    &s->words);
		if (rc) {
			ln_free(s);
			return rc;
		}
		atomic_fetch_add(&comm->ctx->own_regions, 1);
		comm->coll = s;
	}
	*out = s;
	return LUNE_OK;
}

static void comm_close(lune_comm *comm)
{
	struct ln_coll_state *s = comm->coll;

	if (!s)
		return;
	comm->coll = NULL;
	ln_barrier_fini(comm, s);
	/* What cannot be let go now goes with the context. */
	if (lune_mem_release(s->words, 0))
		ln_debug("a communicator closes: %s", lune_last_error());
	else
		atomic_fetch_sub(&comm->ctx->own_regions, 1);
	ln_free(s);
}

const struct ln_layer ln_layer_coll = { .comm_close = comm_close };
