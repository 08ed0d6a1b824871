/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls: arguments, sequence, and the choice of a broadcast. */
#include "coll/coll.h"

uint32_t ln_coll_sig(const char *name, int root, uint64_t bytes)
{
	struct {
		char name[16];
		uint64_t root, bytes;
	} what;

	memset(&what, 0, sizeof(what));
	snprintf(what.name, sizeof(what.name), "%s", name);
	what.root = (uint64_t)root;
	what.bytes = bytes;
	return ln_checksum32(&what, sizeof(what));
}

int ln_coll_begin(struct ln_coll *c, lune_comm *comm, uint32_t sig,
		  int timeout_ms)
{
	if (!comm)
		return ln_error(LUNE_ERR_INVAL, "no communicator");
	LN_CTX_CHECK(comm->ctx);
	c->comm = comm;
	c->sig = sig;
	c->deadline = ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout);
	return ln_failure_enter(comm, &c->seq);
}

bool ln_coll_same_node(const lune_comm *comm, int a, int b)
{
	const struct ln_peer *x = ln_comm_peer(comm, a);
	const struct ln_peer *y = ln_comm_peer(comm, b);

	return x && y && x->card.node[0] == y->card.node[0] &&
	       x->card.node[1] == y->card.node[1];
}

int lune_barrier(lune_comm *comm, int timeout_ms)
{
	struct ln_coll c;
	int rc = ln_coll_begin(&c, comm, ln_coll_sig("barrier", 0, 0),
			       timeout_ms);

	return rc ? rc : ln_barrier(&c);
}

/* More than fits one gather: slice by slice through a buffer. */
static int allgather_slices(lune_comm *comm, const char *send, size_t bytes,
			    char *recv, uint64_t deadline)
{
	size_t n = (size_t)lune_comm_size(comm);
	char *slices = ln_malloc(n * LN_GATHER_MAX);
	int rc = LUNE_OK;

	if (!slices)
		return LUNE_ERR_NOMEM;
	for (size_t at = 0; at < bytes && !rc; at += LN_GATHER_MAX) {
		size_t k = ln_min(bytes - at, (size_t)LN_GATHER_MAX);

		rc = ln_comm_allgather(comm, send + at, k, slices, deadline);
		for (size_t r = 0; r < n && !rc; r++)
			memcpy(recv + r * bytes + at, slices + r * k, k);
	}
	ln_free(slices);
	return rc;
}

int lune_allgather(lune_comm *comm, const void *send, size_t bytes, void *recv,
		   int timeout_ms)
{
	uint64_t deadline;
	size_t all;

	if (!comm || (bytes && (!send || !recv)))
		return ln_error(LUNE_ERR_INVAL, "no communicator or buffer");
	LN_CTX_CHECK(comm->ctx);
	if (__builtin_mul_overflow(bytes, (size_t)lune_comm_size(comm), &all))
		return ln_error(LUNE_ERR_INVAL, "%zu bytes of each rank",
				bytes);
	deadline = ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout);
	if (bytes <= LN_GATHER_MAX)
		return ln_comm_allgather(comm, send, bytes, recv, deadline);
	return allgather_slices(comm, send, bytes, recv, deadline);
}

int lune_bcast(lune_comm *comm, int root, void *buf, size_t bytes,
	       int timeout_ms)
{
	struct ln_bcast b = { root, buf, bytes };
	struct ln_coll c;
	int rc;

	if (comm && (root < 0 || root >= lune_comm_size(comm)))
		return ln_error(LUNE_ERR_INVAL, "root %d of %d ranks", root,
				lune_comm_size(comm));
	if (bytes && !buf)
		return ln_error(LUNE_ERR_INVAL, "no buffer");
	rc = ln_coll_begin(&c, comm, ln_coll_sig("bcast", root, bytes),
			   timeout_ms);
	if (rc)
		return rc;
	return bytes <= LN_BCAST_SMALL ? ln_bcast_tree(&c, &b) :
					 ln_bcast_chain(&c, &b);
}
