/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: one lune_mem per rank, all tickets exchanged in one allgather.
 * After that a window is an array of rmems; nothing about it is collective.
 */
#include "rma/rma.h"

struct lune_win {
	lune_ctx *ctx;
	int n;
	lune_rmem *rmems[]; /* NULL: that rank shares nothing */
};

/* What a rank gives: fixed size, so that one allgather does. */
struct slot {
	uint8_t bytes[2]; /* of the ticket, little-endian; 0: none */
	uint8_t ticket[LUNE_TICKET_MAX];
};

static int fill_slot(const lune_mem *mem, struct slot *s)
{
	size_t bytes = 0;
	int rc;

	memset(s, 0, sizeof(*s));
	if (!mem)
		return LUNE_OK;
	rc = lune_mem_ticket(mem, s->ticket, sizeof(s->ticket), &bytes);
	s->bytes[0] = (uint8_t)bytes;
	s->bytes[1] = (uint8_t)(bytes >> 8);
	return rc;
}

static int attach_all(lune_win *win, const struct slot *slots)
{
	for (int i = 0; i < win->n; i++) {
		size_t bytes = slots[i].bytes[0] | slots[i].bytes[1] << 8;
		int rc;

		if (!bytes)
			continue;
		if (bytes > LUNE_TICKET_MAX)
			return ln_error(LUNE_ERR_PROTO,
					"rank %d sent a ticket of %zu bytes", i,
					bytes);
		rc = lune_rmem_attach(win->ctx, slots[i].ticket, bytes,
				      &win->rmems[i]);
		if (rc)
			return ln_error_prefix(rc, "window, rank %d", i);
	}
	return LUNE_OK;
}

static int exchange(lune_comm *comm, const lune_mem *mem, uint64_t deadline,
		    struct slot *slots)
{
	struct slot mine;
	int bad = fill_slot(mem, &mine), rc;

	/* Take part all the same: the others wait for us. */
	if (bad)
		memset(&mine, 0, sizeof(mine));
	rc = ln_comm_allgather(comm, &mine, sizeof(mine), slots, deadline);
	return bad ? bad : rc;
}

int lune_win_open(lune_comm *comm, lune_mem *mem, int timeout_ms,
		  lune_win **out)
{
	struct slot *slots;
	lune_win *win;
	int n, rc;

	if (!comm || !out || (mem && mem->ctx != comm->ctx))
		return ln_error(LUNE_ERR_INVAL,
				"lune_win_open: NULL or another context");
	LN_CTX_CHECK(comm->ctx);
	n = lune_comm_size(comm);
	slots = ln_calloc((size_t)n, sizeof(*slots));
	win = ln_calloc(1, sizeof(*win) + (size_t)n * sizeof(win->rmems[0]));
	rc = LUNE_ERR_NOMEM;
	if (!slots || !win)
		goto fail;
	win->ctx = comm->ctx;
	win->n = n;
	atomic_fetch_add(&win->ctx->objects, 1);
	rc = exchange(comm, mem,
		      ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout),
		      slots);
	if (!rc)
		rc = attach_all(win, slots);
	ln_free(slots);
	if (rc)
		lune_win_close(win);
	else
		*out = win;
	return rc;
fail:
	ln_free(slots);
	ln_free(win);
	return rc;
}

lune_rmem *lune_win_rmem(const lune_win *win, int rank)
{
	return win && rank >= 0 && rank < win->n ? win->rmems[rank] : NULL;
}

void lune_win_close(lune_win *win)
{
	if (!win || atomic_load(&win->ctx->forked))
		return;
	for (int i = 0; i < win->n; i++)
		lune_rmem_detach(win->rmems[i]);
	atomic_fetch_sub(&win->ctx->objects, 1);
	ln_free(win);
}
