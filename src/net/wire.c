/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initiator of operations carried as frames, over whatever streams a peer
 * has.
 *
 *	ln_wire_post -> sendq (puts)  getq (gets)  msgq (messages, atomics)
 *	                   |              \_________/
 *	         pulled, a slice at a time     |
 *	              data streams          control
 *
 * A stream that can send pulls the next piece, so slices spread over streams
 * by how fast these are.  Small frames are copied and gathered into one send;
 * a large piece goes out from the user's memory.
 *
 * An op on the wire has a slot; its id is (slot's generation << 32 | slot).
 * The target answers with the id: ACK for puts and messages, STATUS for all
 * else.  A slot whose op is NULL was reported already (LUNE_OP_LOCAL,
 * cancel) and only counts as posted until the answer comes.
 *
 * All of it under the peer's lock; ops that end go to link->finish and are
 * reported by ln_link_unlock.
 */
#include <utlist.h>

#include "net/link.h"

#define SLOT_NONE UINT32_MAX

/* ---- slots --------------------------------------------------------------- */

static int slots_grow(struct ln_peer_link *l)
{
	uint32_t n = l->nslots ? l->nslots * 2 : 64;
	struct ln_slot *p = ln_realloc_array(l->slots, n, sizeof(*p));

	if (!p)
		return LUNE_ERR_NOMEM;
	l->slots = p;
	for (uint32_t i = n; i-- > l->nslots;) {
		p[i] = (struct ln_slot){ .gen = 1, .next = l->slot_free };
		l->slot_free = i + 1;
	}
	l->nslots = n;
	return LUNE_OK;
}

/* slot_free is an index plus one, 0: none. */
int ln_wire_slot_take(struct ln_peer_link *l, struct ln_op *op)
{
	struct ln_slot *s;
	uint32_t i;

	if (l->inflight >= LN_WINDOW_MAX)
		return LUNE_ERR_AGAIN;
	if (!l->slot_free && slots_grow(l))
		return LUNE_ERR_NOMEM;
	i = l->slot_free - 1;
	s = &l->slots[i];
	l->slot_free = s->next;
	s->op = op;
	s->used = true;
	s->multi = false;
	l->inflight++;
	op->id = (uint64_t)s->gen << 32 | i;
	op->spare[LN_SPARE_FLAGS] |= LN_SPARE_STARTED;
	return LUNE_OK;
}

struct ln_slot *ln_wire_slot(struct ln_peer_link *l, uint64_t id)
{
	uint32_t i = (uint32_t)id;

	if (i >= l->nslots || !l->slots[i].used ||
	    l->slots[i].gen != id >> 32)
		return NULL;
	return &l->slots[i];
}

void ln_wire_slot_free(struct ln_peer_link *l, struct ln_slot *s)
{
	if (s->multi)
		l->multi--;
	s->used = false;
	s->op = NULL;
	s->gen++;
	s->next = l->slot_free;
	l->slot_free = (uint32_t)(s - l->slots) + 1;
	l->inflight--;
}

/* ---- ends ---------------------------------------------------------------- */

void ln_op_report(struct ln_op *op)
{
	struct ln_net *net = op->peer->net;

	op->done(op);
	ln_net_event(net);
}

void ln_peer_finished(struct ln_peer *p)
{
	/* Pairs with op_wait: one of us sees the other's count. */
	atomic_fetch_add(&p->finished, 1);
	if (atomic_load(&p->link->npending))
		ln_peer_pump(p);
}

void ln_op_finish(struct ln_op *op, int code, uint64_t bytes, uint64_t index)
{
	struct ln_peer *p = op->peer;

	op->code = code;
	op->bytes = bytes;
	op->index = index;
	op->done(op);
	ln_peer_finished(p);
	ln_net_event(p->net);
}

void ln_wire_done(struct ln_peer_link *l, struct ln_op *op, int code)
{
	op->code = code;
	DL_APPEND(l->finish, op);
}

/* Reporting may post again, to this peer too: the list is taken first. */
void ln_link_unlock(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_op *list = l->finish, *op;
	uint32_t delivered = l->delivered;

	l->finish = NULL;
	l->delivered = 0;
	pthread_mutex_unlock(&p->lock);
	while ((op = list)) {
		DL_DELETE(list, op);
		if (op->spare[LN_SPARE_FLAGS] & LN_SPARE_COUNTED)
			ln_op_report(op);
		else
			ln_op_finish(op, op->code, op->bytes, op->index);
	}
	if (!delivered)
		return;
	while (delivered--)
		ln_peer_finished(p);
	ln_net_event(p->net);
}

/* ---- posting ------------------------------------------------------------- */

static struct ln_op **queue_of(struct ln_peer_link *l, const struct ln_op *op)
{
	if (op->kind == LN_OP_PUT)
		return &l->sendq;
	return op->kind == LN_OP_GET ? &l->getq : &l->msgq;
}

/* Send on every stream that is not waiting for its socket. */
void ln_wire_kick(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	for (int i = l->nstreams - 1; i >= 0; i--)
		if (l->streams[i] && !l->streams[i]->want_out)
			ln_stream_flush(l->streams[i]);
}

int ln_wire_post(struct ln_op *op)
{
	struct ln_peer *p = op->peer;
	struct ln_peer_link *l = p->link;
	uint64_t total = 0;

	for (uint32_t i = 0; i < op->nsegs; i++)
		total += op->segs[i].bytes;
	memset(op->spare, 0, sizeof(op->spare));
	op->spare[LN_SPARE_TOTAL] = total;
	op->spare[LN_SPARE_FLAGS] = LN_SPARE_QUEUED;
	op->at_seg = op->at_byte = op->outstanding = 0;
	op->index = op->bytes = 0;
	op->code = LUNE_OK;
	pthread_mutex_lock(&p->lock);
	if (!l->streams[0]) {
		pthread_mutex_unlock(&p->lock);
		return LUNE_ERR_PEER;
	}
	DL_APPEND(*queue_of(l, op), op);
	ln_wire_kick(p);
	ln_link_unlock(p);
	return LUNE_OK;
}

/* ---- pulling ------------------------------------------------------------- */

struct ln_piece *ln_wire_piece(struct ln_stream *s)
{
	if (!s->piece)
		s->piece = ln_calloc(1, sizeof(*s->piece));
	return s->piece;
}

int ln_wire_piece_go(struct ln_stream *s, const struct ln_frame *f, size_t meta)
{
	struct ln_piece *k = s->piece;

	k->bytes = f->bytes;
	k->at = 0;
	if (f->bytes <= LN_COPY_MAX) {
		/* Descriptors and payload follow the frame alike. */
		k->iov[0].iov_base = k->head + LN_FRAME_BYTES;
		k->iov[0].iov_len = meta;
		return ln_stream_queue(s, f, k->iov, k->n);
	}
	ln_frame_encode(f, k->head);
	k->iov[0].iov_base = k->head;
	k->iov[0].iov_len = LN_FRAME_BYTES + meta;
	k->left = k->iov[0].iov_len + f->bytes;
	k->busy = true;
	s->before = ln_stream_queued(s);
	return LUNE_OK;
}

/*
 * Gather frames until there is a sendful, or a large piece.  Each *_next
 * returns false when it has nothing that may go now.
 */
void ln_wire_pull(struct ln_stream *s)
{
	struct ln_peer_link *l = s->peer->link;
	bool control = s->index == 0;
	bool data = !control || l->nstreams <= 1;
	bool more = true;

	while (more && !s->broken && !(s->piece && s->piece->busy) &&
	       ln_stream_queued(s) < LN_OUT_FILL) {
		more = false;
		if (control && l->msgq)
			more = ln_wire_msg_next(s);
		if (!more && control && l->getq)
			more = ln_wire_get_next(s);
		l->turn = !l->turn;
		if (!more && data && l->jobq && l->turn)
			more = ln_job_next(s);
		if (!more && data && l->sendq)
			more = ln_wire_put_next(s);
		if (!more && data && l->jobq && !l->turn)
			more = ln_job_next(s);
	}
}

void ln_wire_piece_sent(struct ln_stream *s)
{
	struct ln_piece *k = s->piece;
	struct ln_op *op = k->op;
	struct ln_job *job = k->job;

	k->busy = false;
	k->op = NULL;
	k->job = NULL;
	ln_free(k->copy);
	k->copy = NULL;
	if (job)
		ln_job_piece_sent(s, job);
	if (op)
		ln_wire_put_sent(s->peer->link, op);
}

/* ---- death --------------------------------------------------------------- */

static void fail_queue(struct ln_peer_link *l, struct ln_op **q, int code)
{
	struct ln_op *op, *tmp;

	DL_FOREACH_SAFE(*q, op, tmp) {
		DL_DELETE(*q, op);
		op->spare[LN_SPARE_FLAGS] &= ~(uint64_t)LN_SPARE_QUEUED;
		if (!(op->spare[LN_SPARE_FLAGS] & LN_SPARE_STARTED))
			ln_wire_done(l, op, code);
	}
}

/* Lock held; streams are gone. */
void ln_wire_fail(struct ln_peer *p, int code)
{
	struct ln_peer_link *l = p->link;

	fail_queue(l, &l->sendq, code);
	fail_queue(l, &l->getq, code);
	fail_queue(l, &l->msgq, code);
	for (uint32_t i = 0; i < l->nslots; i++) {
		struct ln_slot *s = &l->slots[i];

		if (!s->used)
			continue;
		if (s->op) {
			ln_wire_done(l, s->op, code);
		} else {
			l->delivered++;
			atomic_store(&p->lost_error, code);
		}
		ln_wire_slot_free(l, s);
	}
}

void ln_wire_fini(struct ln_peer *p)
{
	ln_target_fini(p);
	ln_free(p->link->slots);
	p->link->slots = NULL;
}

/* ---- cancel and release -------------------------------------------------- */

/* Let the pieces of a canceled op go on without its memory; lock held. */
static bool piece_detach(struct ln_stream *s, bool zero)
{
	struct ln_piece *k = s->piece;
	size_t n = 0, at = 0;
	uint8_t *copy;
	int first = k->at ? k->at : 1;

	for (int i = first; i < k->n; i++)
		n += k->iov[i].iov_len;
	copy = n ? ln_calloc(1, n) : NULL;
	if (n && !copy)
		return false;
	for (int i = first; i < k->n; i++) {
		if (!zero && k->iov[i].iov_len)
			memcpy(copy + at, k->iov[i].iov_base,
			       k->iov[i].iov_len);
		at += k->iov[i].iov_len;
	}
	k->copy = copy;
	k->iov[first] = (struct iovec){ copy, n };
	k->n = first + 1;
	return true;
}

static bool op_detach(struct ln_peer_link *l, struct ln_op *op)
{
	for (int i = 0; i < l->nstreams; i++) {
		struct ln_stream *s = l->streams[i];

		if (!s)
			continue;
		if (s->sink.left && s->sink.op == op)
			ln_sink_drop(s);
		if (!s->piece || !s->piece->busy || s->piece->op != op)
			continue;
		if (!piece_detach(s, false))
			return false;
		s->piece->op = NULL;
	}
	return true;
}

/* A put that was partly sent: tell the target what will not come. */
static void send_skip(struct ln_peer_link *l, struct ln_op *op)
{
	struct ln_frame f = {
		.type = LN_FRAME_PUT,
		.flags = LN_FRAME_SKIP,
		.op = op->id,
		.total = op->spare[LN_SPARE_TOTAL],
		.a = op->spare[LN_SPARE_TOTAL] - op->spare[LN_SPARE_SENT],
	};

	ln_stream_queue(l->streams[0], &f, NULL, 0);
}

static void op_cancel(struct ln_peer_link *l, struct ln_op *op)
{
	bool started = op->spare[LN_SPARE_FLAGS] & LN_SPARE_STARTED;
	bool queued = op->spare[LN_SPARE_FLAGS] & LN_SPARE_QUEUED;
	struct ln_slot *slot = started ? ln_wire_slot(l, op->id) : NULL;

	if (!op_detach(l, op))
		return;
	if (queued)
		DL_DELETE(*queue_of(l, op), op);
	if (slot && op->kind == LN_OP_GET) {
		/* What still comes has an unknown id and is dropped. */
		ln_wire_slot_free(l, slot);
	} else if (slot) {
		if (queued && op->kind == LN_OP_PUT)
			send_skip(l, op);
		slot->op = NULL;
		op->spare[LN_SPARE_FLAGS] |= LN_SPARE_COUNTED;
	}
	op->bytes = 0;
	ln_wire_done(l, op, LUNE_ERR_CANCELED);
}

static void cancel_queue(struct ln_peer_link *l, struct ln_op *q)
{
	struct ln_op *op, *tmp;

	DL_FOREACH_SAFE(q, op, tmp) {
		if (atomic_load(&op->canceled))
			op_cancel(l, op);
	}
}

/* Answers that are going out of released memory; lock held. */
static void sweep_piece(struct ln_stream *s)
{
	struct ln_piece *k = s->piece;
	bool stale = false;

	if (!k || !k->busy || !k->job)
		return;
	for (int i = 0; i < k->npins; i++)
		stale |= !ln_mem_valid(s->net->mem, k->pins[i]->key);
	if (!stale || !piece_detach(s, true))
		return;
	k->job->code = LUNE_ERR_STALE;
	for (int i = 0; i < k->npins; i++)
		ln_mem_unpin(k->pins[i]);
	k->npins = 0;
}

void ln_wire_sweep(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;

	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < l->nstreams; i++) {
		if (!l->streams[i])
			continue;
		ln_sink_check(l->streams[i]);
		sweep_piece(l->streams[i]);
	}
	/* Queued ops that have no slot yet, then those that have. */
	cancel_queue(l, l->sendq);
	cancel_queue(l, l->getq);
	cancel_queue(l, l->msgq);
	for (uint32_t i = 0; i < l->nslots; i++)
		if (l->slots[i].used && l->slots[i].op &&
		    atomic_load(&l->slots[i].op->canceled))
			op_cancel(l, l->slots[i].op);
	if (l->streams[0])
		ln_wire_kick(p);
	ln_link_unlock(p);
}
