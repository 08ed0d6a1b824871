/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tagged messages between members: what collectives are made of here.  Sending
 * never waits; what arrives lies in the communicator's inbox until somebody
 * waits for exactly that (sender, seq, step).
 *
 *	args[2] = seq << 32 | step      args[3] = kind << 56 | sig
 *
 * Members must call the same collectives in the same order; sig is a hash of
 * what they have to agree on.  A message with the seq that we wait for and
 * another sig means that its sender called something else.
 *
 * Limits: INBOX_MAX bytes may wait; a member that sends more than that ahead
 * breaks the communicator.  Small notes are reused, not freed.
 */
#include <utlist.h>

#include "rt/rt.h"

#define INBOX_MAX (256u << 20)
#define SMALL 256
#define SPARE_MAX 256

struct ln_note {
	struct ln_note *prev, *next;
	struct ln_tag tag;
	int from;
	uint32_t bytes;
	uint8_t body[];
};

/* ---- notes; the lock is held -------------------------------------------- */

static struct ln_note *note_take(struct ln_inbox *b, uint32_t bytes)
{
	struct ln_note *n = b->spare;

	if (bytes > SMALL || !n)
		return ln_malloc(sizeof(*n) + ln_max(bytes, (uint32_t)SMALL));
	b->spare = n->next;
	b->nspare--;
	return n;
}

static void note_drop(struct ln_inbox *b, struct ln_note *n)
{
	b->bytes -= n->bytes;
	if (n->bytes > SMALL || b->nspare == SPARE_MAX) {
		ln_free(n);
		return;
	}
	n->next = b->spare;
	b->spare = n;
	b->nspare++;
}

static struct ln_note *note_find(struct ln_inbox *b, const struct ln_recv *r)
{
	struct ln_note *n;

	DL_FOREACH(b->notes, n)
		if (n->from == r->from && n->tag.seq == r->tag.seq &&
		    n->tag.step == r->tag.step && n->tag.sig == r->tag.sig)
			return n;
	return NULL;
}

/* A member that does something else in this step; -1: none. */
static int odd_one(struct ln_inbox *b, const struct ln_recv *r)
{
	struct ln_note *n;

	DL_FOREACH(b->notes, n)
		if (n->tag.seq == r->tag.seq && n->tag.sig != r->tag.sig)
			return n->from;
	return -1;
}

/* ---- arriving ----------------------------------------------------------- */

static int put_locked(struct ln_inbox *b, const struct ln_note *head,
		      const void *body)
{
	struct ln_note *n;

	if (b->bytes + head->bytes > INBOX_MAX)
		return ln_error(LUNE_ERR_LIMIT, "%zu bytes of messages wait to "
				"be taken", b->bytes);
	n = note_take(b, head->bytes);
	if (!n)
		return LUNE_ERR_NOMEM;
	*n = *head;
	if (head->bytes)
		memcpy(n->body, body, head->bytes);
	DL_APPEND(b->notes, n);
	b->bytes += head->bytes;
	return LUNE_OK;
}

int ln_inbox_put(lune_comm *comm, int from, const uint64_t args[LN_MSG_ARGS],
		 const void *body, uint32_t bytes)
{
	struct ln_note head = {
		.tag = { .seq = (uint32_t)(args[2] >> 32),
			 .step = (uint32_t)args[2],
			 .sig = (uint32_t)args[3] },
		.from = from,
		.bytes = bytes,
	};
	int rc;

	pthread_mutex_lock(&comm->inbox.lock);
	rc = put_locked(&comm->inbox, &head, body);
	pthread_mutex_unlock(&comm->inbox.lock);
	if (rc)
		ln_failure_break(comm, rc, comm->rank);
	return rc;
}

/* ---- sending and waiting ------------------------------------------------ */

int ln_inbox_send(lune_comm *comm, int to, const struct ln_tag *tag,
		  const void *body, uint32_t bytes)
{
	struct ln_msg m = {
		.chan = LN_CHAN_RT,
		.arg2 = (uint64_t)tag->seq << 32 | tag->step,
		.arg3 = (uint64_t)LN_RT_TAGGED << 56 | tag->sig,
		.body = body,
		.bytes = bytes,
	};
	int rc = ln_send(comm, to, &m);

	/* It cannot have left: it needs this to finish. */
	return rc ? ln_failure_break(comm, rc, to) : LUNE_OK;
}

struct receiving {
	lune_comm *comm;
	struct ln_recv *r;
	struct ln_note *found;
	int odd;
};

static bool arrived(void *arg)
{
	struct receiving *v = arg;
	struct ln_inbox *b = &v->comm->inbox;

	/* Asked again after it was true. */
	if (v->found)
		return true;
	pthread_mutex_lock(&b->lock);
	v->found = note_find(b, v->r);
	v->odd = v->found ? -1 : odd_one(b, v->r);
	if (v->found)
		DL_DELETE(b->notes, v->found);
	pthread_mutex_unlock(&b->lock);
	return v->found || v->odd >= 0;
}

static int take(struct receiving *v)
{
	struct ln_recv *r = v->r;
	struct ln_note *n = v->found;
	int rc = LUNE_OK;

	if (n->bytes > r->cap)
		rc = ln_error(LUNE_ERR_PROTO, "%u bytes came, %u were expected",
			      n->bytes, r->cap);
	else if (n->bytes)
		memcpy(r->buf, n->body, n->bytes);
	r->bytes = n->bytes;
	pthread_mutex_lock(&v->comm->inbox.lock);
	note_drop(&v->comm->inbox, n);
	pthread_mutex_unlock(&v->comm->inbox.lock);
	return rc ? ln_failure_break(v->comm, rc, r->from) : LUNE_OK;
}

int ln_inbox_recv(lune_comm *comm, struct ln_recv *r, uint64_t deadline)
{
	struct receiving v = { .comm = comm, .r = r, .odd = -1 };
	struct ln_wait w = { .comm = comm, .rank = r->from, .ready = arrived,
			     .arg = &v };
	char text[300];
	int rc = ln_failure_wait(&w, deadline);

	if (v.found)
		return take(&v);
	ln_comm_rank_text(comm, v.odd >= 0 ? v.odd : r->from, text,
			  sizeof(text));
	if (rc)
		ln_error(rc, "nothing came from %s in time", text);
	else if (v.odd >= 0)
		rc = ln_error(LUNE_ERR_INVAL, "%s called another collective, "
			      "or with another size or root", text);
	else if (atomic_load(&comm->broken))
		return ln_failure_broken(comm);
	else
		rc = ln_error(LUNE_ERR_PEER, "%s is gone", text);
	return ln_failure_break(comm, rc, v.odd >= 0 ? v.odd : r->from);
}

void ln_inbox_fini(struct ln_inbox *b)
{
	struct ln_note *n, *next;

	DL_FOREACH_SAFE(b->notes, n, next)
		ln_free(n);
	for (n = b->spare; n; n = next) {
		next = n->next;
		ln_free(n);
	}
	pthread_mutex_destroy(&b->lock);
}
