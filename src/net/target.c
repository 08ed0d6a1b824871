/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of operations that come as frames: checks key, rights and bounds
 * of each descriptor (mem pins the region), lands puts, answers gets.
 *
 *   put     payload straight to its place; the op is complete when the pieces
 *           that landed make up its total, on whatever streams they came:
 *           then the signal, then the acknowledgement.
 *   get     a job, of which any stream that can send takes the next slice.
 *
 * A descriptor that is refused drops the rest of its piece; the op goes on
 * landing so that the count comes out, and ends with the first error.
 *
 * Puts and atomics: the poller.  Jobs: under the peer's lock.
 */
#include <utlist.h>

#include <lune/mem.h>
#include <lune/rma.h>

#include "net/link.h"

uint64_t ln_word_atomic(char *addr, int how, uint64_t operand, uint64_t compare)
{
	_Atomic uint64_t *w = (_Atomic uint64_t *)addr;

	switch (how) {
	case LUNE_ATOMIC_FETCH_ADD:
		return atomic_fetch_add(w, operand);
	case LUNE_ATOMIC_SWAP:
		return atomic_exchange(w, operand);
	case LUNE_ATOMIC_CAS:
		atomic_compare_exchange_strong(w, &compare, operand);
		return compare;
	}
	return 0;
}

void ln_word_signal(char *addr, int how, uint64_t value)
{
	_Atomic uint64_t *w = (_Atomic uint64_t *)addr;

	if (how == LUNE_SIGNAL_SET)
		atomic_store_explicit(w, value, memory_order_release);
	else
		atomic_fetch_add_explicit(w, value, memory_order_release);
}

static int pin(struct ln_net *net, const struct ln_access *a,
	       struct ln_region **r, char **addr)
{
	int rc = ln_mem_pin(net->mem, a, r, addr);

	if (rc == LUNE_ERR_STALE)
		ln_count(net->counters, refused_stale, 1);
	else if (rc)
		ln_count(net->counters, refused_access, 1);
	return rc;
}

/* An aligned word; INVAL when it is not. */
static int pin_word(struct ln_net *net, uint64_t key, uint64_t offset,
		    struct ln_region **r, char **addr)
{
	struct ln_access a = { key, offset, 8, LUNE_MEM_ATOMIC };
	int rc = pin(net, &a, r, addr);

	if (!rc && ((uintptr_t)*addr & 7)) {
		ln_mem_unpin(*r);
		return ln_error(LUNE_ERR_INVAL, "a word is not aligned");
	}
	return rc;
}

/* ---- puts ---------------------------------------------------------------- */

/* Place one descriptor; consecutive ones of a region share a pin. */
static int place(struct ln_net *net, struct ln_sink *k, const struct ln_desc *d)
{
	struct ln_access a = { d->key, d->offset, d->bytes, LUNE_MEM_WRITE };
	struct ln_region *r;
	char *addr;
	int rc = pin(net, &a, &r, &addr);

	if (rc)
		return rc;
	if (k->npins && k->pins[k->npins - 1] == r)
		ln_mem_unpin(r);
	else
		k->pins[k->npins++] = r;
	if (d->bytes) {
		k->iov[k->n].iov_base = addr;
		k->iov[k->n++].iov_len = d->bytes;
	}
	return LUNE_OK;
}

int ln_target_begin(struct ln_stream *s, const struct ln_frame *f,
		    const uint8_t *meta)
{
	struct ln_sink *k = &s->sink;
	uint64_t sum = 0;
	struct ln_desc d;

	for (uint32_t i = 0; i < f->count; i++) {
		ln_desc_decode(meta + i * LN_DESC_BYTES, &d);
		if (d.bytes > f->bytes - sum) {
			ln_sink_unpin(k);
			return ln_error(LUNE_ERR_PROTO,
					"descriptors exceed the payload");
		}
		sum += d.bytes;
		if (k->code)
			continue;
		k->code = place(s->net, k, &d);
		k->index = k->code ? f->index + i : 0;
		k->landed += k->code ? 0 : d.bytes;
	}
	if (sum != f->bytes || ((f->flags & LN_FRAME_SKIP) && f->count)) {
		ln_sink_unpin(k);
		return ln_error(LUNE_ERR_PROTO,
				"descriptors do not match the payload");
	}
	k->drop = sum - k->landed;
	if (f->flags & LN_FRAME_SIGNAL)
		return ln_sigdesc_decode(meta + f->count * LN_DESC_BYTES,
					 &k->sig);
	return LUNE_OK;
}

static int signal_do(struct ln_net *net, const struct ln_sigdesc *d)
{
	struct ln_region *r;
	char *addr;
	int rc = pin_word(net, d->key, d->offset, &r, &addr);

	if (rc)
		return rc;
	ln_word_signal(addr, d->how, d->value);
	ln_mem_unpin(r);
	ln_net_event(net);
	return LUNE_OK;
}

static struct ln_part *part_find(struct ln_peer_link *l, uint64_t op)
{
	struct ln_part *unused = NULL;

	for (int i = 0; i < LN_PARTS_MAX; i++) {
		struct ln_part *t = &l->parts[i];

		if (t->used && t->op == op)
			return t;
		if (!t->used && !unused)
			unused = t;
	}
	if (unused)
		*unused = (struct ln_part){ .used = true, .op = op };
	return unused;
}

/* The whole put is here: signal, then answer. */
static int put_complete(struct ln_stream *s, const struct ln_part *t)
{
	struct ln_sink *k = &s->sink;
	struct ln_frame f = { .type = LN_FRAME_STATUS, .op = t->op,
			      .total = t->good, .index = (uint32_t)t->index };
	int code = t->code;

	if (!code && (k->f.flags & LN_FRAME_SIGNAL)) {
		code = signal_do(s->net, &k->sig);
		f.index = 0;
	}
	if (!code) {
		ln_link_ack(s->peer, t->op);
		return LUNE_OK;
	}
	f.flags = (uint16_t)-code;
	return ln_link_reply(s->peer, &f);
}

static bool part_add(struct ln_part *t, const struct ln_sink *k)
{
	bool skip = k->f.flags & LN_FRAME_SKIP;
	int code = skip ? LUNE_ERR_CANCELED : k->code;
	uint64_t n = skip ? k->f.a : k->f.bytes;

	if (t->landed > k->f.total || n > k->f.total - t->landed)
		return false;
	t->landed += n;
	t->good += skip ? 0 : k->landed;
	if (code && (!t->code || k->index < t->index)) {
		t->code = code;
		t->index = k->index;
	}
	return true;
}

int ln_target_end(struct ln_stream *s)
{
	struct ln_sink *k = &s->sink;
	struct ln_part whole = { .op = k->f.op }, *t = &whole;
	int rc;

	ln_sink_unpin(k);
	ln_count(s->net->counters, tcp_received_bytes, k->f.bytes);
	if (k->f.bytes < k->f.total)
		t = part_find(s->peer->link, k->f.op);
	if (!t)
		return ln_error(LUNE_ERR_PROTO,
				"more puts in pieces than allowed");
	if (!part_add(t, k))
		return ln_error(LUNE_ERR_PROTO,
				"a put of more bytes than it said");
	if (t->landed < k->f.total)
		return LUNE_OK;
	rc = put_complete(s, t);
	t->used = false;
	return rc;
}

/* ---- atomics ------------------------------------------------------------- */

int ln_target_atomic(struct ln_peer *p, const struct ln_frame *f,
		     const uint8_t *meta)
{
	struct ln_frame out = { .type = LN_FRAME_STATUS, .op = f->op };
	struct ln_region *r;
	struct ln_desc d;
	char *addr;
	int rc;

	ln_desc_decode(meta, &d);
	if (f->flags > LUNE_ATOMIC_SWAP || d.bytes != 8)
		return ln_error(LUNE_ERR_PROTO, "an atomic of no known kind");
	rc = pin_word(p->net, d.key, d.offset, &r, &addr);
	if (!rc) {
		out.a = ln_word_atomic(addr, f->flags, f->a, f->b);
		out.total = 8;
		ln_mem_unpin(r);
		ln_net_event(p->net);
	}
	out.flags = (uint16_t)-rc;
	return ln_link_reply(p, &out);
}

/* ---- gets ---------------------------------------------------------------- */

static struct ln_job *job_take(struct ln_peer_link *l)
{
	struct ln_job *j = l->job_free;

	if (j) {
		LL_DELETE(l->job_free, j);
		return j;
	}
	if (l->njobs == LN_JOBS_MAX) {
		ln_error(LUNE_ERR_PROTO, "more gets at once than allowed");
		return NULL;
	}
	j = ln_malloc(sizeof(*j));
	if (j)
		l->njobs++;
	return j;
}

int ln_target_get(struct ln_peer *p, const struct ln_frame *f,
		  const uint8_t *meta)
{
	struct ln_peer_link *l = p->link;
	struct ln_job *j;

	pthread_mutex_lock(&p->lock);
	j = job_take(l);
	if (j) {
		memset(j, 0, offsetof(struct ln_job, desc));
		j->op = f->op;
		j->index = f->index;
		j->count = f->count;
		j->total = f->total;
		for (uint32_t i = 0; i < f->count; i++)
			ln_desc_decode(meta + i * LN_DESC_BYTES, &j->desc[i]);
		DL_APPEND(l->jobq, j);
		ln_wire_kick(p);
	}
	ln_link_unlock(p);
	return j ? LUNE_OK : LUNE_ERR_PROTO;
}

/* All its bytes are out, or will never be: say how it went. */
static void job_end(struct ln_peer_link *l, struct ln_job *j)
{
	struct ln_frame f = { .type = LN_FRAME_STATUS, .op = j->op, .b = 1,
			      .total = j->sent,
			      .flags = (uint16_t)-j->code };

	f.index = (uint32_t)j->fail_index;
	if (ln_stream_queue(l->streams[0], &f, NULL, 0))
		ln_stream_break(l->streams[0], "it takes no answers");
	l->must_flush = true;
	LL_PREPEND(l->job_free, j);
}

static void piece_unpin(struct ln_net *net, struct ln_piece *k,
			struct ln_job *j)
{
	for (int i = 0; i < k->npins; i++) {
		/* Bytes that left after the release are not to be trusted. */
		if (!ln_mem_valid(net->mem, k->pins[i]->key) && !j->code) {
			j->code = LUNE_ERR_STALE;
			j->fail_index = j->index;
		}
		ln_mem_unpin(k->pins[i]);
	}
	k->npins = 0;
}

void ln_job_piece_sent(struct ln_stream *s, struct ln_job *j)
{
	piece_unpin(s->net, s->piece, j);
	j->pieces--;
	if (!j->pieces && j->at == j->count)
		job_end(s->peer->link, j);
}

static int job_pin(struct ln_net *net, struct ln_piece *k,
		   const struct ln_access *a)
{
	struct ln_region *r;
	char *addr;
	int rc = pin(net, a, &r, &addr);

	if (rc)
		return rc;
	if (k->npins && k->pins[k->npins - 1] == r)
		ln_mem_unpin(r);
	else
		k->pins[k->npins++] = r;
	if (a->bytes) {
		k->iov[k->n].iov_base = addr;
		k->iov[k->n++].iov_len = a->bytes;
	}
	return LUNE_OK;
}

/* The next slice of a job; on an error the job ends where it is. */
static void job_cut(struct ln_net *net, struct ln_piece *k, struct ln_job *j,
		    struct ln_frame *f)
{
	uint64_t slice = net->conf->tcp_slice;

	k->n = 1;
	k->npins = 0;
	f->index = j->index + j->at;
	f->a = j->at_byte;
	while (j->at < j->count && f->bytes < slice && !j->code) {
		const struct ln_desc *d = &j->desc[j->at];
		struct ln_access a = { d->key, d->offset + j->at_byte,
				       ln_min(d->bytes - j->at_byte,
					      slice - f->bytes),
				       LUNE_MEM_READ };

		j->code = d->offset + j->at_byte < d->offset
				  ? LUNE_ERR_BOUNDS
				  : job_pin(net, k, &a);
		if (j->code) {
			j->fail_index = j->index + j->at;
			break;
		}
		f->bytes += a.bytes;
		j->at_byte += a.bytes;
		if (j->at_byte < d->bytes)
			break;
		j->at++;
		j->at_byte = 0;
	}
	if (j->code)
		j->at = j->count;
	j->sent += f->bytes;
}

bool ln_job_next(struct ln_stream *s)
{
	struct ln_peer_link *l = s->peer->link;
	struct ln_job *j = l->jobq;
	struct ln_frame f = { .type = LN_FRAME_DATA, .op = j->op,
			      .total = j->total };
	struct ln_piece *k = ln_wire_piece(s);

	if (!k) {
		ln_stream_break(s, "no memory");
		return false;
	}
	if (j->code)
		j->at = j->count;
	else
		job_cut(s->net, k, j, &f);
	if (j->at == j->count)
		DL_DELETE(l->jobq, j);
	j->pieces++;
	k->op = NULL;
	k->job = j;
	ln_count(s->net->counters, tcp_sent_bytes, f.bytes);
	if (f.bytes && ln_wire_piece_go(s, &f, 0)) {
		ln_stream_break(s, "no memory");
	}
	if (!k->busy) {
		k->job = NULL;
		ln_job_piece_sent(s, j);
	}
	return true;
}

void ln_target_fini(struct ln_peer *p)
{
	struct ln_peer_link *l = p->link;
	struct ln_job *j, *tmp;

	DL_FOREACH_SAFE(l->jobq, j, tmp)
		ln_free(j);
	LL_FOREACH_SAFE(l->job_free, j, tmp)
		ln_free(j);
	l->jobq = l->job_free = NULL;
	l->njobs = 0;
}
