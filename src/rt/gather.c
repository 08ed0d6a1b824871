/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allgather of small blobs over messages: Bruck's algorithm (Bruck et al.
 * 1997).  In the round of distance d a rank sends the first min(d, n - d)
 * blocks that it has to rank - d and gets as many from rank + d, so after
 * ceil(log2 n) rounds it has all, beginning with its own:
 *
 *	rank 1 of 4:  1 | 2 | 3 0        rotated at the end:  0 1 2 3
 */
#include "rt/rt.h"

struct gather {
	lune_comm *comm;
	struct ln_tag tag;
	uint8_t *blocks; /* own first */
	size_t bytes;	 /* of one */
	uint64_t deadline;
};

/* `bytes` bytes to one rank and from another, in messages that fit. */
static int exchange(struct gather *g, int to, int from, size_t have,
		    size_t bytes)
{
	struct ln_tag tag = g->tag;
	size_t at, n;
	int rc = LUNE_OK;

	for (at = 0; !rc && at < bytes; at += n, tag.step++) {
		n = ln_min(bytes - at, (size_t)LN_MSG_MAX);
		rc = ln_inbox_send(g->comm, to, &tag, g->blocks + at,
				   (uint32_t)n);
	}
	tag.step = g->tag.step;
	for (at = 0; !rc && at < bytes; at += n, tag.step++) {
		struct ln_recv r = { .tag = tag, .from = from,
				     .buf = g->blocks + have + at };

		n = ln_min(bytes - at, (size_t)LN_MSG_MAX);
		r.cap = (uint32_t)n;
		rc = ln_inbox_recv(g->comm, &r, g->deadline);
	}
	g->tag.step = tag.step;
	return rc;
}

static int rounds(struct gather *g)
{
	int n = g->comm->size, rank = g->comm->rank, rc = LUNE_OK;

	for (int d = 1; !rc && d < n; d *= 2)
		rc = exchange(g, (rank + n - d) % n, (rank + d) % n,
			      (size_t)d * g->bytes,
			      (size_t)ln_min(d, n - d) * g->bytes);
	return rc;
}

int ln_comm_allgather(lune_comm *comm, const void *send, size_t bytes,
		      void *recv, uint64_t deadline)
{
	struct gather g = { .comm = comm, .bytes = bytes,
			    .deadline = deadline };
	uint64_t agreed[2] = { 'G', bytes };
	size_t n = (size_t)comm->size, first = n - (size_t)comm->rank;
	int rc;

	if (bytes > LN_GATHER_MAX)
		return ln_error(LUNE_ERR_LIMIT, "allgather of %zu bytes",
				bytes);
	rc = ln_failure_enter(comm, &g.tag.seq);
	if (rc)
		return rc;
	g.tag.sig = (uint32_t)ln_hash64(agreed, sizeof(agreed));
	g.blocks = ln_malloc(ln_max(n * bytes, (size_t)1));
	if (!g.blocks)
		return ln_failure_break(comm, LUNE_ERR_NOMEM, comm->rank);
	if (bytes)
		memcpy(g.blocks, send, bytes);
	rc = rounds(&g);
	if (!rc && bytes) {
		memcpy((char *)recv + (size_t)comm->rank * bytes, g.blocks,
		       first * bytes);
		memcpy(recv, g.blocks + first * bytes,
		       (size_t)comm->rank * bytes);
	}
	ln_free(g.blocks);
	return rc;
}
