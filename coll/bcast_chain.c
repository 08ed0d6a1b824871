/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large broadcast: a chain, cut into blocks, straight into the destination.
 *
 *   root ==put==> second ==put==> third ...     block b is passed on as soon
 *   <--tickets--  <--tickets--                  as it is here
 *
 * Each rank but the root registers its buffer for the time of the call, and
 * sends the tickets of the buffer and of its flags to the one before it.  That
 * one puts block after block, each setting the block's flag to the sequence
 * number of the call.  A flag per block, because puts may overtake each other.
 *
 * The chain begins with the root and is sorted by node, so that each node
 * boundary is crossed once.  Time (B + n - 2)(alpha + beta m / B) for B blocks.
 */
#include "coll/coll.h"

#define BLOCK_BYTES (512u << 10) /* more where there are not enough flags */
#define IN_FLIGHT 4
#define TICKET_ROOM LUNE_TICKET_MAX
/* To let go of memory that a member may be in the middle of writing. */
#define RELEASE_MS 500 /* a stopped peer shall not hold up the error */

struct offer { /* from a rank to the one before it in the chain */
	uint32_t buf_bytes, flags_bytes;
	uint8_t buf[TICKET_ROOM], flags[TICKET_ROOM];
};

struct chain {
	struct ln_coll *c;
	const struct ln_bcast *b;
	int prev, next; /* ranks; -1: none */
	lune_mem *mem;
	lune_rmem *there, *flags;
	uint64_t blocks, block_bytes;
	lune_req *reqs[IN_FLIGHT];
};

static int left_ms(const struct ln_coll *c)
{
	int ms = ln_deadline_left_ms(c->deadline);

	return ms < 0 ? LUNE_FOREVER : ms;
}

/* ---- the order ---------------------------------------------------------- */

/* Find our neighbours: visit node after node, beginning with the root's. */
static int chain_order(struct chain *h)
{
	lune_comm *comm = h->c->comm;
	int n = lune_comm_size(comm), last = -1;
	bool *seen = ln_calloc((size_t)n, sizeof(*seen));

	if (!seen)
		return LUNE_ERR_NOMEM;
	h->prev = h->next = -1;
	for (int i = 0; i < n; i++) {
		int head = (h->b->root + i) % n;

		/* A node is visited whole when its first rank is met. */
		for (int j = 0; !seen[head] || j; j++) {
			int r = (head + j) % n;

			if (j == n)
				break;
			if (seen[r] || !ln_coll_same_node(comm, head, r))
				continue;
			seen[r] = true;
			if (r == comm->rank)
				h->prev = last;
			if (last == comm->rank)
				h->next = r;
			last = r;
		}
	}
	ln_free(seen);
	return LUNE_OK;
}

/* ---- offers ------------------------------------------------------------- */

static int make_offer(struct chain *h)
{
	lune_comm *comm = h->c->comm;
	struct ln_tag tag = { h->c->seq, h->c->sig, 1 };
	struct offer o;
	struct ln_coll_state *s;
	size_t n, m;
	int rc;

	rc = ln_coll_state(comm, &s);
	if (!rc)
		rc = lune_mem_register(comm->ctx, h->b->buf, h->b->bytes, NULL,
				       &h->mem);
	if (rc)
		return rc;
	memset(&o, 0, sizeof(o));
	rc = lune_mem_ticket(h->mem, o.buf, sizeof(o.buf), &n);
	if (!rc)
		rc = lune_mem_ticket(s->words, o.flags, sizeof(o.flags), &m);
	if (rc)
		return rc;
	o.buf_bytes = (uint32_t)n;
	o.flags_bytes = (uint32_t)m;
	return ln_inbox_send(comm, h->prev, &tag, &o, sizeof(o));
}

static int take_offer(struct chain *h)
{
	struct offer o;
	struct ln_recv r = { .tag = { h->c->seq, h->c->sig, 1 },
			     .from = h->next, .buf = &o, .cap = sizeof(o) };
	lune_ctx *ctx = h->c->comm->ctx;
	int rc = ln_inbox_recv(h->c->comm, &r, h->c->deadline);

	if (rc)
		return rc;
	if (r.bytes != sizeof(o) || o.buf_bytes > sizeof(o.buf) ||
	    o.flags_bytes > sizeof(o.flags))
		return ln_error(LUNE_ERR_PROTO, "a broadcast's offer");
	rc = lune_rmem_attach(ctx, o.buf, o.buf_bytes, &h->there);
	if (!rc)
		rc = lune_rmem_attach(ctx, o.flags, o.flags_bytes, &h->flags);
	return rc;
}

/* ---- blocks ------------------------------------------------------------- */

struct arrival {
	const lune_mem *words;
	uint64_t block, seq;
};

static bool arrived(void *arg)
{
	const struct arrival *a = arg;

	return lune_signal_read(a->words, a->block * sizeof(uint64_t)) ==
	       a->seq;
}

static int await_block(struct chain *h, uint64_t block)
{
	lune_comm *comm = h->c->comm;
	struct ln_coll_state *s = comm->coll;
	struct arrival a = { s->words, block, h->c->seq };
	struct ln_wait w = { .comm = comm, .rank = h->prev, .ready = arrived,
			     .arg = &a };
	int rc;

	if (arrived(&a))
		return LUNE_OK;
	rc = ln_failure_wait(&w, h->c->deadline);
	if (rc || arrived(&a))
		return rc;
	if (atomic_load(&comm->broken))
		return ln_failure_broken(comm);
	return ln_error(LUNE_ERR_PEER, "rank %d, which passes the broadcast "
			"on to us, is gone", h->prev);
}

/* The next one has let go of its buffer: it has heard of a failure. */
static int gave_up(const struct chain *h)
{
	return ln_error(LUNE_ERR_PEER, "rank %d has given the broadcast up",
			h->next);
}

static int pass_block(struct chain *h, uint64_t block)
{
	uint64_t at = block * h->block_bytes;
	uint64_t n = ln_min(h->block_bytes, h->b->bytes - at);
	lune_req **req = &h->reqs[block % IN_FLIGHT];
	struct lune_op op = {
		.req = req,
		.signal = { .rmem = h->flags,
			    .offset = block * sizeof(uint64_t),
			    .value = h->c->seq, .how = LUNE_SIGNAL_SET },
	};
	int rc = lune_req_wait(req, left_ms(h->c), NULL);

	if (!rc)
		rc = lune_put(h->there, at, h->b->buf + at, n, &op);
	return rc == LUNE_ERR_STALE ? gave_up(h) : rc;
}

static int chain_blocks(struct chain *h)
{
	int rc = LUNE_OK;

	for (uint64_t i = 0; i < h->blocks && !rc; i++) {
		if (h->prev >= 0)
			rc = await_block(h, i);
		if (!rc && h->next >= 0)
			rc = pass_block(h, i);
	}
	for (int i = 0; i < IN_FLIGHT && !rc; i++)
		rc = lune_req_wait(&h->reqs[i], left_ms(h->c), NULL);
	return rc == LUNE_ERR_STALE ? gave_up(h) : rc;
}

static void chain_fini(struct chain *h)
{
	for (int i = 0; i < IN_FLIGHT; i++) {
		if (h->reqs[i])
			lune_req_cancel(h->reqs[i]);
		(void)lune_req_wait(&h->reqs[i], RELEASE_MS, NULL);
	}
	lune_rmem_detach(h->there);
	lune_rmem_detach(h->flags);
	/*
	 * Nobody shall write the caller's buffer once we return.  The one
	 * exception: a peer that was stopped (SIGSTOP) between looking at the
	 * generation and its copy by CMA, and is continued later.
	 */
	if (h->mem && lune_mem_release(h->mem, RELEASE_MS)) {
		ln_warn("the buffer of a broadcast that failed may still be "
			"written: %s", lune_last_error());
		/* It is ours now, so that the context may be closed. */
		atomic_fetch_add(&h->c->comm->ctx->own_regions, 1);
	}
}

int ln_bcast_chain(struct ln_coll *c, const struct ln_bcast *b)
{
	struct chain h = { .c = c, .b = b, .prev = -1, .next = -1 };
	char why[256];
	int rc;

	/* Never more blocks than flags. */
	h.block_bytes = ln_max((uint64_t)BLOCK_BYTES,
			       (b->bytes / LN_COLL_FLAGS + 4096) / 4096 * 4096);
	h.blocks = (b->bytes + h.block_bytes - 1) / h.block_bytes;
	rc = chain_order(&h);
	if (!rc && h.prev >= 0)
		rc = make_offer(&h);
	if (!rc && h.next >= 0)
		rc = take_offer(&h);
	if (!rc)
		rc = chain_blocks(&h);
	if (rc) {
		/* Others may wait for those behind us: tell them all. */
		bool next_dead = h.next >= 0 && ln_comm_dead(c->comm, h.next);

		rc = ln_failure_break(c->comm, rc,
				      next_dead ? h.next : h.prev);
	}
	snprintf(why, sizeof(why), "%s", lune_last_error());
	chain_fini(&h);
	if (rc)
		ln_error_set(why);
	return rc;
}
