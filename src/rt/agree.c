/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement of the living: everybody gives a vote and gets the same table of
 * votes and the same list of the dead, while members keep dying.
 *
 *	leader: lowest rank that it     others
 *	believes to be alive
 *	     QUERY(seq) ------------->  entered? answer, else when entering
 *	     <------------- VOTE(vote, who I think is dead)
 *	     all living voted: decide
 *	     DECISION(dead, votes) -->  done
 *
 * When the leader dies the next one asks again.  Who has decided answers a
 * QUERY with the DECISION instead; and who waits for a leader that may have
 * heard the decision of the one before, and gone on, ASKs for it.  So a
 * decision that reached any survivor is the decision of all.  A member listens
 * to the highest leader that asked it and to no lower one after that: a leader
 * decides only when every member that it believes to be alive has promised
 * that.
 *
 * Invariants
 *  1. seq counts the decided agreements of a kind.  To decide seq + 1 all the
 *     living must have decided seq, so two instances per kind are enough.
 *  2. A member that gave up (deadline) joins the same instance when it calls
 *     again.
 *  3. All memory is allocated with the communicator: handlers cannot fail.
 *     A message that could not be sent is sent again (RETRY_MS).
 *
 * Limits: the leader talks to all members.  Where the network splits, each
 * side takes the other for dead.
 */
#include <stdlib.h>

#include "rt/rt.h"

#define RETRY_MS 500
#define PART_BYTES 60000
#define VOTE_BYTES 12

struct instance {
	bool used, entered, decided;
	uint64_t seq;
	int leader;	  /* the highest that asked; -1: none yet */
	uint32_t parts;	  /* of the decision that have come */
	uint8_t *asked;	  /* QUERYs to answer when entering */
	uint8_t *voted;
	uint8_t *suspect; /* dead in somebody's eyes */
	uint8_t *votes;	  /* packed, VOTE_BYTES each */
	/* DECISION: a bitmap of the dead, then the votes. */
	uint8_t *blob;
};

struct ln_agree {
	pthread_mutex_t lock; /* a leaf: nothing is sent under it */
	int n;
	size_t map_bytes, blob_bytes;
	uint64_t done[LN_AGREE_KINDS];
	struct instance inst[LN_AGREE_KINDS][2];
	uint8_t *memory;
};

/* ---- memory ------------------------------------------------------------- */

static uint8_t *cut(uint8_t **at, size_t bytes)
{
	uint8_t *p = *at;

	*at += bytes;
	return p;
}

static void instance_cut(const struct ln_agree *a, struct instance *in,
			 uint8_t **at)
{
	size_t n = (size_t)a->n;

	in->asked = cut(at, n);
	in->voted = cut(at, n);
	in->suspect = cut(at, n);
	in->votes = cut(at, n * VOTE_BYTES);
	in->blob = cut(at, a->blob_bytes);
}

int ln_agree_open(lune_comm *comm)
{
	struct ln_agree *a = ln_calloc(1, sizeof(*a));
	size_t n = (size_t)comm->size, each;
	uint8_t *at;

	if (!a)
		return LUNE_ERR_NOMEM;
	a->n = comm->size;
	a->map_bytes = (n + 7) / 8;
	a->blob_bytes = a->map_bytes + n * VOTE_BYTES;
	each = n * (3 + VOTE_BYTES) + a->blob_bytes;
	a->memory = ln_calloc(LN_AGREE_KINDS * 2, each);
	if (!a->memory) {
		ln_free(a);
		return LUNE_ERR_NOMEM;
	}
	pthread_mutex_init(&a->lock, NULL);
	at = a->memory;
	for (int k = 0; k < LN_AGREE_KINDS; k++)
		for (int i = 0; i < 2; i++)
			instance_cut(a, &a->inst[k][i], &at);
	comm->agree = a;
	return LUNE_OK;
}

void ln_agree_close(lune_comm *comm)
{
	struct ln_agree *a = comm->agree;

	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	ln_free(a->memory);
	ln_free(a);
	comm->agree = NULL;
}

bool ln_agree_used(const lune_comm *comm)
{
	const struct ln_agree *a = comm->agree;

	for (int k = 0; a && a->n > 1 && k < LN_AGREE_KINDS; k++)
		if (a->done[k])
			return true;
	return false;
}

/* The instance of seq, or NULL when that is long over.  Lock held. */
static struct instance *instance(struct ln_agree *a, int kind, uint64_t seq)
{
	struct instance *in = &a->inst[kind][seq % 2];

	if (in->used && in->seq == seq)
		return in;
	if (in->used && in->seq > seq)
		return NULL;
	memset(in->asked, 0, (size_t)a->n);
	memset(in->voted, 0, (size_t)a->n);
	memset(in->suspect, 0, (size_t)a->n);
	memset(in->votes, 0, (size_t)a->n * VOTE_BYTES);
	memset(in->blob, 0, a->blob_bytes);
	in->used = true;
	in->entered = in->decided = false;
	in->seq = seq;
	in->leader = -1;
	in->parts = 0;
	return in;
}

/* ---- messages ----------------------------------------------------------- */

struct what {
	enum ln_agree_kind kind;
	uint64_t seq;
};

static uint64_t arg3(enum ln_rt_kind rt, int kind, uint32_t part)
{
	return (uint64_t)rt << 56 | (uint64_t)kind << 48 | part;
}

/* QUERY or ASK */
static void send_bare(lune_comm *comm, const struct what *w, int to,
		      enum ln_rt_kind rt)
{
	struct ln_msg m = { .chan = LN_CHAN_RT, .arg2 = w->seq,
			    .arg3 = arg3(rt, w->kind, 0) };

	(void)ln_send(comm, to, &m);
}

/* Our vote (the caller read it under the lock) and whom we think dead. */
static void send_vote(lune_comm *comm, const struct what *w, int to,
		      const uint8_t vote[VOTE_BYTES])
{
	uint8_t body[VOTE_BYTES + LN_SLOTS_MAX / 8] = { 0 };
	struct ln_msg m = { .chan = LN_CHAN_RT, .arg2 = w->seq,
			    .arg3 = arg3(LN_RT_VOTE, w->kind, 0),
			    .body = body };

	memcpy(body, vote, VOTE_BYTES);
	for (int r = 0; r < comm->size; r++)
		if (ln_comm_dead(comm, r))
			body[VOTE_BYTES + r / 8] |= (uint8_t)(1 << r % 8);
	m.bytes = (uint32_t)(VOTE_BYTES + comm->agree->map_bytes);
	(void)ln_send(comm, to, &m);
}

/* The blob of a decided instance does not change any more. */
static void send_decision(lune_comm *comm, const struct what *w, int to,
			  const uint8_t *blob)
{
	size_t bytes = comm->agree->blob_bytes;
	struct ln_msg m = { .chan = LN_CHAN_RT, .arg2 = w->seq };

	for (size_t at = 0; at < bytes; at += PART_BYTES) {
		m.arg3 = arg3(LN_RT_DECISION, w->kind,
			      (uint32_t)(at / PART_BYTES));
		m.body = blob + at;
		m.bytes = (uint32_t)ln_min(bytes - at, (size_t)PART_BYTES);
		(void)ln_send(comm, to, &m);
	}
}

static void got_query(lune_comm *comm, int from, const struct what *w)
{
	struct ln_agree *a = comm->agree;
	bool decided = false, vote = false;
	uint8_t mine[VOTE_BYTES];
	struct instance *in;

	pthread_mutex_lock(&a->lock);
	in = instance(a, w->kind, w->seq);
	if (in && in->decided) {
		decided = true;
	} else if (in && from >= in->leader) {
		in->leader = from;
		vote = in->entered;
		if (!vote)
			in->asked[from] = true;
		else
			memcpy(mine, in->votes + comm->rank * VOTE_BYTES,
			       VOTE_BYTES);
	}
	pthread_mutex_unlock(&a->lock);
	if (decided)
		send_decision(comm, w, from, in->blob);
	else if (vote)
		send_vote(comm, w, from, mine);
}

static void got_ask(lune_comm *comm, int from, const struct what *w)
{
	struct ln_agree *a = comm->agree;
	struct instance *in;
	bool decided;

	pthread_mutex_lock(&a->lock);
	in = instance(a, w->kind, w->seq);
	decided = in && in->decided;
	pthread_mutex_unlock(&a->lock);
	if (decided)
		send_decision(comm, w, from, in->blob);
}

static void got_vote(lune_comm *comm, int from, const struct what *w,
		     const uint8_t *body)
{
	struct ln_agree *a = comm->agree;
	struct instance *in;

	pthread_mutex_lock(&a->lock);
	in = instance(a, w->kind, w->seq);
	if (in && !in->decided) {
		in->voted[from] = 1;
		memcpy(in->votes + from * VOTE_BYTES, body, VOTE_BYTES);
		for (int r = 0; r < a->n; r++)
			if (body[VOTE_BYTES + r / 8] >> r % 8 & 1)
				in->suspect[r] = 1;
	}
	pthread_mutex_unlock(&a->lock);
}

static void got_decision(lune_comm *comm, int from, const struct what *w,
			 const struct ln_msg *m)
{
	struct ln_agree *a = comm->agree;
	uint32_t nparts = (uint32_t)((a->blob_bytes + PART_BYTES - 1) /
				     PART_BYTES);
	uint32_t part = (uint32_t)m->arg3;
	size_t at = (size_t)part * PART_BYTES;
	struct instance *in;

	if (part >= nparts ||
	    m->bytes != ln_min(a->blob_bytes - at, (size_t)PART_BYTES))
		return;
	pthread_mutex_lock(&a->lock);
	in = instance(a, w->kind, w->seq);
	/* While we lead, it is somebody's answer to our question. */
	if (in && !in->decided &&
	    (from >= in->leader || in->leader == comm->rank)) {
		memcpy(in->blob + at, m->body, m->bytes);
		in->parts |= 1u << part;
		in->decided = in->parts == (1u << nparts) - 1;
	}
	pthread_mutex_unlock(&a->lock);
}

void ln_agree_message(lune_comm *comm, int from,
		      const uint64_t args[LN_MSG_ARGS], const void *body,
		      uint32_t bytes)
{
	struct what w = { (enum ln_agree_kind)(args[3] >> 48 & 0xff), args[2] };
	struct ln_msg m = { .arg3 = args[3], .body = body, .bytes = bytes };

	if ((unsigned)w.kind >= LN_AGREE_KINDS)
		return;
	switch (args[3] >> 56) {
	case LN_RT_QUERY:
		got_query(comm, from, &w);
		break;
	case LN_RT_ASK:
		got_ask(comm, from, &w);
		break;
	case LN_RT_VOTE:
		if (bytes == VOTE_BYTES + comm->agree->map_bytes)
			got_vote(comm, from, &w, body);
		break;
	default:
		got_decision(comm, from, &w, &m);
	}
	ln_net_event(comm->ctx->net);
}

/* ---- taking part -------------------------------------------------------- */

struct part {
	lune_comm *comm;
	struct what w;
	struct instance *in;
};

static bool is_decided(void *arg)
{
	struct part *p = arg;
	bool yes;

	pthread_mutex_lock(&p->comm->agree->lock);
	yes = p->in->decided;
	pthread_mutex_unlock(&p->comm->agree->lock);
	return yes;
}

static bool has_voted(const struct part *p, int r)
{
	return r == p->comm->rank || p->in->voted[r];
}

static bool is_missing(const struct part *p, int r)
{
	bool voted;

	pthread_mutex_lock(&p->comm->agree->lock);
	voted = has_voted(p, r);
	pthread_mutex_unlock(&p->comm->agree->lock);
	return !voted && !ln_comm_dead(p->comm, r);
}

static bool all_voted(void *arg)
{
	struct part *p = arg;
	bool all = true;

	pthread_mutex_lock(&p->comm->agree->lock);
	for (int r = 0; all && !p->in->decided && r < p->comm->size; r++)
		all = has_voted(p, r) || ln_comm_dead(p->comm, r);
	pthread_mutex_unlock(&p->comm->agree->lock);
	return all;
}

static void decide(struct part *p)
{
	struct ln_agree *a = p->comm->agree;
	struct instance *in = p->in;
	bool mine;

	pthread_mutex_lock(&a->lock);
	mine = !in->decided;
	for (int r = 0; mine && r < a->n; r++)
		if (r != p->comm->rank &&
		    (in->suspect[r] || !in->voted[r] ||
		     ln_comm_dead(p->comm, r)))
			in->blob[r / 8] |= (uint8_t)(1 << r % 8);
	if (mine)
		memcpy(in->blob + a->map_bytes, in->votes,
		       (size_t)a->n * VOTE_BYTES);
	in->decided = true;
	pthread_mutex_unlock(&a->lock);
	/* Also to those that it calls dead: they may want to know. */
	for (int r = 0; r < a->n; r++)
		if (r != p->comm->rank && !ln_comm_dead(p->comm, r))
			send_decision(p->comm, &p->w, r, in->blob);
}

static void missing_text(struct part *p, char *out, size_t cap)
{
	size_t at = 0;

	*out = '\0';
	for (int r = 0; r < p->comm->size && at + 16 < cap; r++) {
		if (!is_missing(p, r))
			continue;
		at += (size_t)snprintf(out + at, cap - at, "%s%d",
				       at ? ", " : "", r);
	}
}

/* We are the lowest that lives: ask all, decide. */
static int lead(struct part *p, uint64_t deadline)
{
	struct ln_agree *a = p->comm->agree;
	struct ln_wait w = { .comm = p->comm, .rank = -1, .ready = all_voted,
			     .arg = p, .unbreakable = true };
	char text[160];
	int rc;

	pthread_mutex_lock(&a->lock);
	p->in->leader = p->comm->rank;
	pthread_mutex_unlock(&a->lock);
	for (;;) {
		for (int r = 0; r < p->comm->size; r++)
			if (is_missing(p, r))
				send_bare(p->comm, &p->w, r,
					  LN_RT_QUERY);
		rc = ln_failure_wait(&w, ln_min(deadline, ln_now_ns() +
						RETRY_MS * 1000000u));
		if (!rc)
			break;
		if (rc != LUNE_ERR_TIMEOUT)
			return rc;
		if (!ln_deadline_passed(deadline))
			continue;
		missing_text(p, text, sizeof(text));
		return ln_error(rc, "ranks that did not take part in time: %s",
				text);
	}
	decide(p);
	return LUNE_OK;
}

static int follow(struct part *p, int leader, uint64_t deadline)
{
	struct ln_wait w = { .comm = p->comm, .rank = leader,
			     .ready = is_decided, .arg = p,
			     .unbreakable = true };
	char text[300];
	int rc;

	/* Not the first leader: it may be through already. */
	if (leader)
		send_bare(p->comm, &p->w, leader, LN_RT_ASK);
	for (;;) {
		rc = ln_failure_wait(&w, ln_min(deadline, ln_now_ns() +
						RETRY_MS * 1000000u));
		if (rc != LUNE_ERR_TIMEOUT)
			return rc;
		if (ln_deadline_passed(deadline))
			break;
		send_bare(p->comm, &p->w, leader, LN_RT_ASK);
	}
	ln_comm_rank_text(p->comm, leader, text, sizeof(text));
	return ln_error(rc, "%s, who collects the votes, did not decide in "
			"time", text);
}

static void enter(struct part *p, const struct ln_vote *mine)
{
	struct ln_agree *a = p->comm->agree;
	uint8_t vote[VOTE_BYTES];
	struct ln_pack k = { vote, 0, sizeof(vote), false };

	ln_pack_u32(&k, (uint32_t)mine->what);
	ln_pack_u32(&k, (uint32_t)mine->color);
	ln_pack_u32(&k, (uint32_t)mine->key);
	pthread_mutex_lock(&a->lock);
	p->w.seq = a->done[p->w.kind];
	p->in = instance(a, p->w.kind, p->w.seq);
	p->in->entered = true;
	memcpy(p->in->votes + p->comm->rank * VOTE_BYTES, vote, sizeof(vote));
	pthread_mutex_unlock(&a->lock);
	/* From here on handlers answer; asked[] changes no more. */
	for (int r = 0; r < a->n; r++)
		if (p->in->asked[r])
			send_vote(p->comm, &p->w, r, vote);
}

static int lowest_alive(const lune_comm *comm)
{
	int r = 0;

	while (r < comm->rank && ln_comm_dead(comm, r))
		r++;
	return r;
}

static int decode(struct part *p, struct ln_decision *out)
{
	struct ln_agree *a = p->comm->agree;
	struct ln_unpack u = { p->in->blob, a->map_bytes, a->blob_bytes,
			       false };
	uint8_t *memory = ln_calloc((size_t)a->n, 1 + sizeof(*out->votes));

	if (!memory)
		return LUNE_ERR_NOMEM;
	out->votes = (void *)memory;
	out->dead = memory + (size_t)a->n * sizeof(*out->votes);
	out->seq = p->w.seq;
	for (int r = 0; r < a->n; r++) {
		out->dead[r] = p->in->blob[r / 8] >> r % 8 & 1;
		out->votes[r].what = (int32_t)ln_unpack_u32(&u);
		out->votes[r].color = (int32_t)ln_unpack_u32(&u);
		out->votes[r].key = (int32_t)ln_unpack_u32(&u);
	}
	return LUNE_OK;
}

int ln_agree(lune_comm *comm, enum ln_agree_kind kind,
	     const struct ln_vote *mine, uint64_t deadline,
	     struct ln_decision *out)
{
	struct part p = { .comm = comm, .w = { .kind = kind } };
	int leader, rc;

	enter(&p, mine);
	while (!is_decided(&p)) {
		leader = lowest_alive(comm);
		rc = leader == comm->rank ? lead(&p, deadline)
					  : follow(&p, leader, deadline);
		if (rc)
			return rc;
	}
	rc = decode(&p, out);
	/* Counted even so: the others go on from here. */
	comm->agree->done[kind]++;
	return rc;
}
