/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dup, split and shrink: one agreement, then everybody computes the same new
 * communicator by itself.  Its id is a hash of the parent's, the number of the
 * agreement and the group, so nothing more has to be exchanged.
 */
#include <stdlib.h>

#include "rt/rt.h"

enum what { WHAT_DUP, WHAT_SPLIT, WHAT_SHRINK };

struct place {
	int rank; /* in the parent */
	int key;
};

static int by_key(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank - y->rank;
}

struct making {
	lune_comm *parent;
	struct ln_comm_id id;
	struct place *places;
	int n;
};

static int make(const struct making *m, lune_comm **out)
{
	struct ln_comm_how how = { .id = m->id, .size = m->n };
	lune_ctx *ctx = m->parent->ctx;
	int rc;

	how.peers = ln_calloc((size_t)m->n, sizeof(*how.peers));
	if (!how.peers)
		return LUNE_ERR_NOMEM;
	for (int r = 0; r < m->n; r++) {
		how.peers[r] = ln_comm_peer(m->parent, m->places[r].rank);
		if (m->places[r].rank == m->parent->rank)
			how.rank = r;
	}
	rc = ln_comm_open(ctx, &how, out);
	ln_free(how.peers);
	if (!rc)
		atomic_fetch_add(&ctx->objects, 1);
	return rc;
}

/* ---- dup and split ------------------------------------------------------ */

static int check_votes(lune_comm *comm, const struct ln_decision *d, int what)
{
	char text[300];

	for (int r = 0; r < comm->size; r++) {
		ln_comm_rank_text(comm, r, text, sizeof(text));
		if (d->dead[r])
			return ln_error(LUNE_ERR_PEER, "%s is gone", text);
		if (d->votes[r].what != what)
			return ln_error(LUNE_ERR_INVAL,
					"%s called %s, this rank %s", text,
					what == WHAT_DUP ? "split" : "dup",
					what == WHAT_DUP ? "dup" : "split");
	}
	return LUNE_OK;
}

static int make_group(lune_comm *comm, const struct ln_decision *d, int color,
		      lune_comm **out)
{
	uint64_t name[2] = { d->seq, (uint64_t)(int64_t)color };
	struct making m = { .parent = comm };
	int rc;

	m.places = ln_calloc((size_t)comm->size, sizeof(*m.places));
	if (!m.places)
		return LUNE_ERR_NOMEM;
	for (int r = 0; r < comm->size; r++)
		if (d->votes[r].color == color)
			m.places[m.n++] = (struct place){ r,
							  d->votes[r].key };
	qsort(m.places, (size_t)m.n, sizeof(*m.places), by_key);
	m.id = ln_comm_derive(&comm->id, "split", name, sizeof(name));
	rc = make(&m, out);
	ln_free(m.places);
	return rc;
}

static int split(lune_comm *comm, const struct ln_vote *vote, uint64_t deadline,
		 lune_comm **out)
{
	struct ln_decision d;
	int rc;

	if (comm->elastic)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"an elastic communicator can only be shrunk");
	if (atomic_load(&comm->broken))
		return ln_error(LUNE_ERR_PEER, "an earlier collective failed "
				"(%s); go on with lune_comm_shrink",
				comm->broken_why);
	rc = ln_agree(comm, LN_AGREE_SPLIT, vote, deadline, &d);
	if (rc)
		return rc;
	rc = check_votes(comm, &d, vote->what);
	if (!rc && vote->color < 0)
		*out = NULL;
	else if (!rc)
		rc = make_group(comm, &d, vote->color, out);
	ln_free(d.votes);
	return rc;
}

int lune_comm_dup(lune_comm *comm, int timeout_ms, lune_comm **out)
{
	struct ln_vote vote = { .what = WHAT_DUP };

	if (!comm || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_comm_dup: NULL");
	LN_CTX_CHECK(comm->ctx);
	return split(comm, &vote,
		     ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout),
		     out);
}

int lune_comm_split(lune_comm *comm, const struct lune_split *how,
		    int timeout_ms, lune_comm **out)
{
	struct ln_vote vote = { .what = WHAT_SPLIT };

	if (!comm || !how || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_comm_split: NULL");
	LN_CTX_CHECK(comm->ctx);
	if (how->color < LUNE_COMM_NO_COLOR)
		return ln_error(LUNE_ERR_INVAL, "color %d: must be 0 or more, "
				"or LUNE_COMM_NO_COLOR", how->color);
	vote.color = how->color;
	vote.key = how->key;
	return split(comm, &vote,
		     ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout),
		     out);
}

/* ---- shrink ------------------------------------------------------------- */

static bool rank_is_dead(void *arg)
{
	const struct ln_peer *p = arg;

	return atomic_load(&p->state) == LN_PEER_DEAD;
}

/* Whom the others call dead is dead here, too. */
static int bury(lune_comm *comm, const struct ln_decision *d, uint64_t deadline)
{
	struct ln_peer *p;
	int rc;

	if (d->dead[comm->rank])
		return ln_error(LUNE_ERR_PEER, "the other members have taken "
				"this rank for dead");
	for (int r = 0; r < comm->size; r++)
		if (d->dead[r] && !ln_comm_dead(comm, r))
			ln_peer_kill(ln_comm_peer(comm, r), LUNE_ERR_PEER,
				     "the other members lost it");
	for (int r = 0; r < comm->size; r++) {
		if (!d->dead[r])
			continue;
		p = ln_comm_peer(comm, r);
		rc = ln_net_wait(comm->ctx->net, rank_is_dead, p, deadline);
		if (rc)
			return rc;
	}
	return LUNE_OK;
}

static int make_living(lune_comm *comm, const struct ln_decision *d,
		       lune_comm **out)
{
	struct making m = { .parent = comm };
	uint64_t name[2] = { d->seq,
			     ln_hash64(d->dead, (size_t)comm->size) };
	int rc;

	m.places = ln_calloc((size_t)comm->size, sizeof(*m.places));
	if (!m.places)
		return LUNE_ERR_NOMEM;
	for (int r = 0; r < comm->size; r++)
		if (!d->dead[r])
			m.places[m.n++] = (struct place){ r, r };
	m.id = ln_comm_derive(&comm->id, "shrink", name, sizeof(name));
	rc = make(&m, out);
	ln_free(m.places);
	return rc;
}

int ln_comm_living(lune_comm *comm, uint64_t agree_until, uint64_t deadline,
		   lune_comm **out)
{
	struct ln_vote vote = { .what = WHAT_SHRINK };
	struct ln_decision d;
	int rc = ln_agree(comm, LN_AGREE_SHRINK, &vote, agree_until, &d);

	if (rc)
		return rc;
	rc = bury(comm, &d, deadline);
	if (!rc)
		rc = make_living(comm, &d, out);
	ln_free(d.votes);
	return rc;
}

int lune_comm_shrink(lune_comm *comm, int timeout_ms, lune_comm **out)
{
	uint64_t deadline;

	if (!comm || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_comm_shrink: NULL");
	LN_CTX_CHECK(comm->ctx);
	deadline = ln_deadline(timeout_ms, (int)comm->ctx->conf.timeout);
	if (comm->elastic)
		return ln_elastic_shrink(comm, deadline, out);
	return ln_comm_living(comm, deadline, deadline, out);
}
