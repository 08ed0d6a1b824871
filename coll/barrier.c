/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier: dissemination.  In round k a rank tells the one 2^k further and
 * waits for the one 2^k before; after ceil(log2 n) rounds it has heard, over
 * others, from all.
 *
 * The first barriers of a communicator go by messages.  Where all members are
 * on one node, barrier number SETUP exchanges the tickets of words (state.c),
 * and from then on a round is a store into the other's mapped word:
 *
 *	word[k] of rank + 2^k  <-  number of this barrier
 *
 * Numbers only grow, so a word needs no reset; a member that is one barrier
 * ahead has written a larger one.  If a single member cannot map, all go on
 * with messages.
 */
#include "coll/coll.h"

#define SETUP 3

static int rounds_by_message(struct ln_coll *c)
{
	int n = lune_comm_size(c->comm), me = c->comm->rank;
	int rc = LUNE_OK;
	uint32_t k = 0;

	for (int step = 1; step < n && !rc; step *= 2, k++) {
		struct ln_recv r = { .tag = { c->seq, c->sig, k },
				     .from = (me - step + n) % n };

		rc = ln_inbox_send(c->comm, (me + step) % n, &r.tag, NULL, 0);
		if (!rc)
			rc = ln_inbox_recv(c->comm, &r, c->deadline);
	}
	return rc;
}

/* ---- by mapped words ---------------------------------------------------- */

static uint64_t word_at(int round)
{
	return (LN_COLL_FLAGS + 8 * (uint64_t)round) * sizeof(uint64_t);
}

struct arrival {
	const lune_mem *words;
	uint64_t offset, number;
};

static bool arrived(void *arg)
{
	const struct arrival *a = arg;

	return lune_signal_read(a->words, a->offset) >= a->number;
}

static int await(struct ln_coll *c, struct arrival *a, int from)
{
	struct ln_wait w = { .comm = c->comm, .rank = from, .ready = arrived,
			     .arg = a };
	char text[300];
	int rc;

	if (arrived(a))
		return LUNE_OK;
	rc = ln_failure_wait(&w, c->deadline);
	if (!rc && arrived(a))
		return LUNE_OK;
	if (!rc && atomic_load(&c->comm->broken))
		return ln_failure_broken(c->comm);
	ln_comm_rank_text(c->comm, from, text, sizeof(text));
	rc = rc ? ln_error(rc, "nothing came from %s in time", text)
		: ln_error(LUNE_ERR_PEER, "%s is gone", text);
	return ln_failure_break(c->comm, rc, from);
}

static int rounds_by_word(struct ln_coll *c, struct ln_coll_state *s)
{
	struct arrival a = { .words = s->words, .number = s->barriers };
	int n = lune_comm_size(c->comm), me = c->comm->rank, rc = LUNE_OK;

	for (int k = 0, step = 1; step < n && !rc; step *= 2, k++) {
		rc = lune_signal_set(s->ahead[k], word_at(k), s->barriers,
				     NULL);
		if (rc)
			return ln_failure_break(c->comm, rc, (me + step) % n);
		a.offset = word_at(k);
		rc = await(c, &a, (me - step + n) % n);
	}
	return rc;
}

/* ---- setting up --------------------------------------------------------- */

struct offer {
	uint32_t bytes; /* 0: none */
	uint8_t ticket[LUNE_TICKET_MAX];
};

static bool one_node(const lune_comm *comm)
{
	for (int r = 0; r < comm->size; r++)
		if (!ln_coll_same_node(comm, comm->rank, r))
			return false;
	return true;
}

/* Attach those that we write to; true if all of them are mapped. */
static bool attach(struct ln_coll *c, struct ln_coll_state *s,
		   const struct offer *offers)
{
	int n = lune_comm_size(c->comm), me = c->comm->rank, left;
	const struct offer *o;

	for (int k = 0, step = 1; step < n; step *= 2, k++) {
		o = &offers[(me + step) % n];
		if (!o->bytes || o->bytes > sizeof(o->ticket) ||
		    lune_rmem_attach(c->comm->ctx, o->ticket, o->bytes,
				     &s->ahead[k]))
			return false;
		/* Not the program's. */
		atomic_fetch_sub(&c->comm->ctx->objects, 1);
		left = ln_deadline_left_ms(c->deadline);
		if (!lune_rmem_pointer(s->ahead[k],
				       left < 0 ? LUNE_FOREVER : left))
			return false;
	}
	return true;
}

/* Collective, and a barrier, too. */
static int set_up(struct ln_coll *c, struct ln_coll_state *s)
{
	int n = lune_comm_size(c->comm), rc;
	struct offer mine = { 0 }, *offers;
	uint8_t ok, *oks;
	size_t bytes;

	if (!lune_mem_ticket(s->words, mine.ticket, sizeof(mine.ticket),
			     &bytes))
		mine.bytes = (uint32_t)bytes;
	offers = ln_calloc((size_t)n, sizeof(*offers) + 1);
	if (!offers)
		return ln_failure_break(c->comm, LUNE_ERR_NOMEM,
					c->comm->rank);
	oks = (uint8_t *)(offers + n);
	rc = ln_comm_allgather(c->comm, &mine, sizeof(mine), offers,
			       c->deadline);
	ok = !rc && attach(c, s, offers);
	if (!rc)
		rc = ln_comm_allgather(c->comm, &ok, 1, oks, c->deadline);
	s->by_word = !rc && !memchr(oks, 0, (size_t)n);
	ln_free(offers);
	return rc;
}

void ln_barrier_fini(lune_comm *comm, struct ln_coll_state *s)
{
	for (int k = 0; k < LN_BARRIER_ROUNDS; k++) {
		if (!s->ahead[k])
			continue;
		atomic_fetch_add(&comm->ctx->objects, 1);
		lune_rmem_detach(s->ahead[k]);
	}
}

int ln_barrier(struct ln_coll *c)
{
	struct ln_coll_state *s;
	int rc = ln_coll_state(c->comm, &s);

	if (rc)
		return ln_failure_break(c->comm, rc, c->comm->rank);
	s->barriers++;
	if (s->by_word)
		return rounds_by_word(c, s);
	rc = rounds_by_message(c);
	if (!rc && s->barriers == SETUP && lune_comm_size(c->comm) > 1 &&
	    one_node(c->comm))
		rc = set_up(c, s);
	return rc;
}
