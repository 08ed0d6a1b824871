/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the initiator sends and what it does with the answers: pieces of puts,
 * requests of gets, messages, atomics; the data of gets, acknowledgements and
 * final statuses.  Under the peer's lock, except where said.
 */
#include <utlist.h>

#include "net/link.h"

/* ---- puts ---------------------------------------------------------------- */

static bool put_is_taken(const struct ln_op *op)
{
	return op->spare[LN_SPARE_SENT] == op->spare[LN_SPARE_TOTAL];
}

/* LOCAL ops are reported once no byte of theirs is waited for. */
void ln_wire_put_sent(struct ln_peer_link *l, struct ln_op *op)
{
	struct ln_slot *slot;

	op->outstanding--;
	if (!(op->flags & LN_OP_LOCAL) || op->outstanding ||
	    (op->spare[LN_SPARE_FLAGS] & LN_SPARE_QUEUED))
		return;
	slot = ln_wire_slot(l, op->id);
	if (!slot)
		return;
	slot->op = NULL;
	op->spare[LN_SPARE_FLAGS] |= LN_SPARE_COUNTED;
	op->bytes = op->spare[LN_SPARE_TOTAL];
	ln_wire_done(l, op, LUNE_OK);
}

static void put_signal(const struct ln_op *op, uint8_t *out)
{
	struct ln_sigdesc d = {
		.key = op->sig_rmem->key,
		.offset = op->sig_offset,
		.value = op->sig_value,
		.how = op->sig_how,
	};

	ln_sigdesc_encode(&d, out);
}

/* Describe the next bytes of the op in piece k; at most a slice. */
static size_t put_cut(struct ln_piece *k, struct ln_op *op, uint64_t slice,
		      struct ln_frame *f)
{
	uint8_t *p = k->head + LN_FRAME_BYTES;
	struct ln_desc d;

	k->n = 1;
	f->index = (uint32_t)op->at_seg;
	while (op->at_seg < op->nsegs && f->count < LN_DESCS_MAX &&
	       f->bytes < slice + (slice == 0)) {
		const struct ln_seg *g = &op->segs[op->at_seg];

		d.key = g->rmem->key;
		d.offset = g->offset + op->at_byte;
		d.bytes = ln_min(g->bytes - op->at_byte, slice - f->bytes);
		ln_desc_encode(&d, p + f->count++ * LN_DESC_BYTES);
		if (d.bytes) {
			k->iov[k->n].iov_base = g->local + op->at_byte;
			k->iov[k->n++].iov_len = d.bytes;
		}
		f->bytes += d.bytes;
		op->at_byte += d.bytes;
		if (op->at_byte < g->bytes)
			break;
		op->at_seg++;
		op->at_byte = 0;
	}
	op->spare[LN_SPARE_SENT] += f->bytes;
	if (op->sig_rmem) {
		f->flags |= LN_FRAME_SIGNAL;
		put_signal(op, p + f->count * LN_DESC_BYTES);
	}
	return ln_frame_meta_bytes(f);
}

/* Take the op at the head on the wire; false: not now. */
static bool put_start(struct ln_peer_link *l, struct ln_op *op, uint64_t slice)
{
	bool multi = op->nsegs > LN_DESCS_MAX ||
		     op->spare[LN_SPARE_TOTAL] > slice;
	int rc;

	if (op->spare[LN_SPARE_FLAGS] & LN_SPARE_STARTED)
		return true;
	if (multi && l->multi >= LN_PARTS_MAX)
		return false;
	rc = ln_wire_slot_take(l, op);
	if (rc == LUNE_OK && multi) {
		ln_wire_slot(l, op->id)->multi = true;
		l->multi++;
	} else if (rc && rc != LUNE_ERR_AGAIN) {
		DL_DELETE(l->sendq, op);
		ln_wire_done(l, op, rc);
	}
	return rc == LUNE_OK;
}

/*
 * Nothing of the op went out: it ends.  Something did: only the peer can, by
 * the end of its connection.
 */
static void op_fail(struct ln_stream *s, struct ln_op **q, struct ln_op *op,
		    int code)
{
	struct ln_peer_link *l = s->peer->link;

	if (op->outstanding || op->spare[LN_SPARE_SENT]) {
		ln_stream_break(s, "no memory");
		return;
	}
	DL_DELETE(*q, op);
	if (op->spare[LN_SPARE_FLAGS] & LN_SPARE_STARTED)
		ln_wire_slot_free(l, ln_wire_slot(l, op->id));
	ln_wire_done(l, op, code);
}

bool ln_wire_put_next(struct ln_stream *s)
{
	struct ln_peer_link *l = s->peer->link;
	struct ln_op *op = l->sendq;
	uint64_t slice = s->net->conf->tcp_slice;
	struct ln_frame f = { .type = LN_FRAME_PUT };
	struct ln_piece *k = ln_wire_piece(s);
	size_t meta;

	if (!k) {
		op_fail(s, &l->sendq, op, LUNE_ERR_NOMEM);
		return false;
	}
	if (!put_start(l, op, slice))
		return false;
	f.op = op->id;
	f.total = op->spare[LN_SPARE_TOTAL];
	meta = put_cut(k, op, slice, &f);
	if (put_is_taken(op)) {
		DL_DELETE(l->sendq, op);
		op->spare[LN_SPARE_FLAGS] &= ~(uint64_t)LN_SPARE_QUEUED;
	}
	k->op = op;
	k->job = NULL;
	op->outstanding++;
	ln_count(s->net->counters, tcp_sent_bytes, f.bytes);
	if (ln_wire_piece_go(s, &f, meta)) {
		/* Half a put cannot be taken back: give the peer up. */
		ln_stream_break(s, "no memory");
		return false;
	}
	if (!k->busy) {
		k->op = NULL;
		ln_wire_put_sent(l, op);
	}
	return true;
}

/* ---- gets ---------------------------------------------------------------- */

static void get_cut(struct ln_op *op, struct ln_frame *f, uint8_t *p)
{
	struct ln_desc d;

	f->index = (uint32_t)op->at_seg;
	while (op->at_seg < op->nsegs && f->count < LN_DESCS_MAX) {
		const struct ln_seg *g = &op->segs[op->at_seg++];

		d.key = g->rmem->key;
		d.offset = g->offset;
		d.bytes = g->bytes;
		ln_desc_encode(&d, p + f->count++ * LN_DESC_BYTES);
		f->total += g->bytes;
	}
}

bool ln_wire_get_next(struct ln_stream *s)
{
	struct ln_peer_link *l = s->peer->link;
	struct ln_op *op = l->getq;
	struct ln_frame f = { .type = LN_FRAME_GET };
	uint8_t descs[LN_DESCS_MAX * LN_DESC_BYTES];
	struct iovec v = { descs, 0 };
	int rc;

	if (l->gets >= LN_JOBS_MAX)
		return false;
	rc = op->spare[LN_SPARE_FLAGS] & LN_SPARE_STARTED
		     ? LUNE_OK
		     : ln_wire_slot_take(l, op);
	if (rc == LUNE_ERR_AGAIN)
		return false;
	if (rc) {
		op_fail(s, &l->getq, op, rc);
		return true;
	}
	get_cut(op, &f, descs);
	f.op = op->id;
	v.iov_len = ln_frame_meta_bytes(&f);
	rc = ln_stream_queue(s, &f, &v, 1);
	if (rc) {
		op_fail(s, &l->getq, op, rc);
		return true;
	}
	l->gets++;
	op->outstanding++;
	if (op->at_seg == op->nsegs) {
		DL_DELETE(l->getq, op);
		op->spare[LN_SPARE_FLAGS] &= ~(uint64_t)LN_SPARE_QUEUED;
	}
	return true;
}

/* All statuses are there and all bytes they promised: it is over. */
static void get_check(struct ln_peer_link *l, struct ln_op *op)
{
	if (op->outstanding || (op->spare[LN_SPARE_FLAGS] & LN_SPARE_QUEUED) ||
	    op->spare[LN_SPARE_GOT] != op->spare[LN_SPARE_EXPECTED])
		return;
	ln_wire_slot_free(l, ln_wire_slot(l, op->id));
	op->bytes = op->spare[LN_SPARE_GOT];
	ln_wire_done(l, op, op->code);
}

static int data_place(struct ln_sink *k, struct ln_op *op)
{
	uint64_t i = k->f.index, at = k->f.a, left = k->f.bytes;

	while (left && i < op->nsegs && k->n < LN_IOV_MAX) {
		const struct ln_seg *g = &op->segs[i++];
		uint64_t n;

		if (at > g->bytes)
			break;
		n = ln_min(g->bytes - at, left);
		if (n) {
			k->iov[k->n].iov_base = g->local + at;
			k->iov[k->n++].iov_len = n;
		}
		left -= n;
		at = 0;
	}
	if (left)
		return ln_error(LUNE_ERR_PROTO,
				"it sent more than was asked for");
	k->op = op;
	return LUNE_OK;
}

/* DATA: straight into the user's memory.  The poller. */
static int data_begin(struct ln_stream *s)
{
	struct ln_peer *p = s->peer;
	struct ln_sink *k = &s->sink;
	struct ln_slot *slot;
	int rc = LUNE_OK;

	pthread_mutex_lock(&p->lock);
	slot = ln_wire_slot(p->link, k->f.op);
	if (!slot || !slot->op) {
		k->drop = k->left; /* canceled */
	} else if (slot->op->kind != LN_OP_GET) {
		rc = ln_error(LUNE_ERR_PROTO, "data for what is not a get");
	} else {
		rc = data_place(k, slot->op);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static int data_end(struct ln_stream *s)
{
	struct ln_peer *p = s->peer;
	struct ln_op *op;

	ln_count(s->net->counters, tcp_received_bytes, s->sink.f.bytes);
	pthread_mutex_lock(&p->lock);
	op = s->sink.op;
	s->sink.op = NULL;
	if (op) {
		op->spare[LN_SPARE_GOT] += s->sink.f.bytes;
		get_check(p->link, op);
	}
	ln_link_unlock(p);
	return LUNE_OK;
}

int ln_wire_begin(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta)
{
	struct ln_sink *k = &s->sink;

	k->f = *f;
	k->left = f->bytes;
	k->drop = 0;
	k->n = k->at = k->npins = 0;
	k->op = NULL;
	k->code = LUNE_OK;
	k->index = k->landed = 0;
	return f->type == LN_FRAME_DATA ? data_begin(s)
					: ln_target_begin(s, f, meta);
}

int ln_wire_end(struct ln_stream *s)
{
	return s->sink.f.type == LN_FRAME_DATA ? data_end(s)
					       : ln_target_end(s);
}

/* ---- messages and atomics ------------------------------------------------ */

static int msg_queue(struct ln_stream *s, struct ln_op *op)
{
	uint8_t args[LN_MSG_ARGS * 8];
	struct iovec v[2] = { { args, sizeof(args) },
			      { (void *)op->body, op->body_bytes } };
	struct ln_frame f = { .type = LN_FRAME_MSG, .flags = op->chan,
			      .op = op->id, .bytes = op->body_bytes };

	ln_words_encode(op->args, LN_MSG_ARGS, args);
	return ln_stream_queue(s, &f, v, 2);
}

static int atomic_queue(struct ln_stream *s, struct ln_op *op)
{
	uint8_t desc[LN_DESC_BYTES];
	struct iovec v = { desc, sizeof(desc) };
	struct ln_desc d = { op->sig_rmem->key, op->sig_offset, 8 };
	struct ln_frame f = { .type = LN_FRAME_ATOMIC, .flags = op->sig_how,
			      .count = 1, .op = op->id, .a = op->sig_value,
			      .b = op->compare };

	ln_desc_encode(&d, desc);
	return ln_stream_queue(s, &f, &v, 1);
}

bool ln_wire_msg_next(struct ln_stream *s)
{
	struct ln_peer_link *l = s->peer->link;
	struct ln_op *op = l->msgq;
	struct ln_slot *slot;
	int rc;

	if (ln_wire_slot_take(l, op) == LUNE_ERR_AGAIN)
		return false;
	slot = ln_wire_slot(l, op->id);
	rc = slot ? op->kind == LN_OP_MSG ? msg_queue(s, op)
					  : atomic_queue(s, op)
		  : LUNE_ERR_NOMEM;
	DL_DELETE(l->msgq, op);
	op->spare[LN_SPARE_FLAGS] &= ~(uint64_t)LN_SPARE_QUEUED;
	if (rc) {
		if (slot)
			ln_wire_slot_free(l, slot);
		ln_wire_done(l, op, rc);
	} else if (op->kind == LN_OP_MSG && (op->flags & LN_OP_LOCAL)) {
		/* Its body was copied. */
		slot->op = NULL;
		op->spare[LN_SPARE_FLAGS] |= LN_SPARE_COUNTED;
		op->bytes = op->body_bytes;
		ln_wire_done(l, op, LUNE_OK);
	}
	return true;
}

/* ---- answers ------------------------------------------------------------- */

static void acked(struct ln_peer_link *l, uint64_t id)
{
	struct ln_slot *slot = ln_wire_slot(l, id);
	struct ln_op *op;

	if (!slot)
		return;
	op = slot->op;
	ln_wire_slot_free(l, slot);
	if (!op) {
		l->delivered++;
		return;
	}
	op->bytes = op->kind == LN_OP_MSG ? op->body_bytes
					  : op->spare[LN_SPARE_TOTAL];
	ln_wire_done(l, op, LUNE_OK);
}

static int status_code(const struct ln_frame *f)
{
	int code = -(int)(f->flags & 0xff);

	/* What only the other side knows as its own trouble is the peer's. */
	return code == LUNE_OK || lune_strcode(code) ? code : LUNE_ERR_PROTO;
}

static void status_of_get(struct ln_peer_link *l, struct ln_op *op,
			  const struct ln_frame *f)
{
	int code = status_code(f);

	op->outstanding--;
	op->spare[LN_SPARE_EXPECTED] += f->total;
	if (code && (!op->code || f->index < op->index)) {
		op->code = code;
		op->index = f->index;
	}
	get_check(l, op);
}

static void status_in(struct ln_peer *p, const struct ln_frame *f)
{
	struct ln_peer_link *l = p->link;
	struct ln_slot *slot = ln_wire_slot(l, f->op);
	struct ln_op *op = slot ? slot->op : NULL;

	if (f->b && l->gets)
		l->gets--;
	if (!slot)
		return;
	if (op && op->kind == LN_OP_GET) {
		if (f->b && op->outstanding)
			status_of_get(l, op, f);
		return;
	}
	ln_wire_slot_free(l, slot);
	if (!op) {
		l->delivered++;
		if (status_code(f) && status_code(f) != LUNE_ERR_CANCELED)
			atomic_store(&p->lost_error, status_code(f));
		return;
	}
	op->bytes = f->total;
	op->index = f->index;
	if (op->kind == LN_OP_ATOMIC && op->result && !status_code(f))
		*op->result = f->a;
	ln_wire_done(l, op, status_code(f));
}

static void acks_in(struct ln_peer_link *l, const uint8_t *body, size_t bytes)
{
	uint64_t id;

	for (size_t i = 0; i < bytes; i += 8) {
		ln_words_decode(body + i, 1, &id);
		acked(l, id);
	}
}

static int message_in(struct ln_peer *p, const struct ln_frame *f,
		      const uint8_t *meta, const void *body)
{
	uint64_t args[LN_MSG_ARGS];

	if (f->flags >= LN_CHAN_MAX)
		return ln_error(LUNE_ERR_PROTO, "a message of channel %u",
				f->flags);
	ln_words_decode(meta, LN_MSG_ARGS, args);
	if (p->net->cb.message)
		p->net->cb.message(p->net->cb.arg, p, f->flags, args, body,
				   (uint32_t)f->bytes);
	ln_link_ack(p, f->op);
	ln_net_event(p->net);
	return LUNE_OK;
}

/* A frame that is complete in the buffer; the poller, no lock. */
int ln_wire_frame(struct ln_stream *s, const struct ln_frame *f,
		  const uint8_t *meta, const void *body)
{
	struct ln_peer *p = s->peer;

	switch (f->type) {
	case LN_FRAME_MSG:
		return message_in(p, f, meta, body);
	case LN_FRAME_GET:
		return ln_target_get(p, f, meta);
	case LN_FRAME_ATOMIC:
		return ln_target_atomic(p, f, meta);
	case LN_FRAME_ACK:
	case LN_FRAME_STATUS:
		pthread_mutex_lock(&p->lock);
		if (f->type == LN_FRAME_ACK)
			acks_in(p->link, body, f->bytes);
		else
			status_in(p, f);
		/* The window moved: more may go. */
		if (p->link->sendq || p->link->getq || p->link->msgq)
			ln_wire_kick(p);
		ln_link_unlock(p);
		return LUNE_OK;
	}
	return ln_error(LUNE_ERR_PROTO, "a frame of type %u is not known",
			f->type);
}
