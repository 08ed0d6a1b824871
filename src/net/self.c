/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport to oneself: memcpy.  Everything is done when post returns,
 * except messages, whose callback is the poller's: they are queued and handed
 * over by progress.
 */
#include <pthread.h>
#include <utlist.h>

#include <lune/mem.h>

#include "net/link.h"

struct self {
	pthread_mutex_t lock; /* guards msgs */
	struct ln_op *msgs;
	_Atomic bool any;
};

static int self_probe(struct ln_net *net, char *why, size_t cap)
{
	(void)net;
	(void)why;
	(void)cap;
	return LUNE_OK;
}

static int self_open(struct ln_net *net, struct ln_card *card)
{
	struct self *self = ln_calloc(1, sizeof(*self));

	(void)card;
	if (!self)
		return LUNE_ERR_NOMEM;
	pthread_mutex_init(&self->lock, NULL);
	net->tp[LN_TP_SELF] = self;
	return LUNE_OK;
}

static void self_close(struct ln_net *net)
{
	struct self *self = net->tp[LN_TP_SELF];
	struct ln_op *op;

	while ((op = self->msgs)) {
		DL_DELETE(self->msgs, op);
		ln_op_finish(op, LUNE_ERR_CANCELED, 0, 0);
	}
	pthread_mutex_destroy(&self->lock);
	ln_free(self);
	net->tp[LN_TP_SELF] = NULL;
}

static bool self_reaches(struct ln_net *net, const struct ln_card *card)
{
	return ln_uuid_equal(&net->card.uuid, &card->uuid);
}

/* A pointer: rma copies by itself and looks at the generation. */
static int self_import(struct ln_rmem *r)
{
	struct ln_net *net = r->peer->net;
	struct ln_access a = { r->key, 0, r->bytes, 0 };
	struct ln_region *region;
	char *addr;

	if (ln_mem_pin(net->mem, &a, &region, &addr))
		return LUNE_OK; /* each op will say what is wrong */
	r->gen = &ln_mem_directory(net->mem)->gen[(uint32_t)r->key];
	atomic_store_explicit(&r->map, addr, memory_order_release);
	ln_mem_unpin(region);
	return LUNE_OK;
}

static int seg_copy(struct ln_op *op, const struct ln_seg *g)
{
	bool put = op->kind == LN_OP_PUT;
	struct ln_access a = { g->rmem->key, g->offset, g->bytes,
			       put ? LUNE_MEM_WRITE : LUNE_MEM_READ };
	struct ln_region *r;
	char *addr;
	int rc = ln_mem_pin(op->peer->net->mem, &a, &r, &addr);

	if (rc)
		return rc;
	if (put)
		memmove(addr, g->local, g->bytes);
	else
		memmove(g->local, addr, g->bytes);
	ln_mem_unpin(r);
	return LUNE_OK;
}

static int word_do(struct ln_op *op)
{
	struct ln_access a = { op->sig_rmem->key, op->sig_offset, 8,
			       LUNE_MEM_ATOMIC };
	struct ln_region *r;
	uint64_t old = 0;
	char *addr;
	int rc = ln_mem_pin(op->peer->net->mem, &a, &r, &addr);

	if (rc)
		return rc;
	if ((uintptr_t)addr & 7)
		rc = ln_error(LUNE_ERR_INVAL, "a word is not aligned");
	else if (op->kind == LN_OP_PUT)
		ln_word_signal(addr, op->sig_how, op->sig_value);
	else
		old = ln_word_atomic(addr, op->sig_how, op->sig_value,
				     op->compare);
	ln_mem_unpin(r);
	if (!rc && op->kind == LN_OP_ATOMIC && op->result)
		*op->result = old;
	return rc;
}

static void msg_queue(struct self *self, struct ln_op *op)
{
	/* Once it is on the list the poller may have finished with it. */
	struct ln_net *net = op->peer->net;

	pthread_mutex_lock(&self->lock);
	DL_APPEND(self->msgs, op);
	atomic_store(&self->any, true);
	pthread_mutex_unlock(&self->lock);
	ln_engine_wake(net);
}

static int self_post(struct ln_op *op)
{
	uint64_t bytes = 0, i = 0;
	int rc = LUNE_OK;

	if (op->kind == LN_OP_MSG) {
		msg_queue(op->peer->net->tp[LN_TP_SELF], op);
		return LUNE_OK;
	}
	for (i = 0; i < op->nsegs; i++) {
		rc = seg_copy(op, &op->segs[i]);
		if (rc)
			break;
		bytes += op->segs[i].bytes;
	}
	if (!rc && op->sig_rmem && op->kind != LN_OP_GET)
		rc = word_do(op);
	ln_op_finish(op, rc, bytes, rc && i < op->nsegs ? i : 0);
	return LUNE_OK;
}

static int self_progress(struct ln_net *net)
{
	struct self *self = net->tp[LN_TP_SELF];
	struct ln_op *list, *op;
	int n = 0;

	if (!atomic_load_explicit(&self->any, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&self->lock);
	list = self->msgs;
	self->msgs = NULL;
	atomic_store(&self->any, false);
	pthread_mutex_unlock(&self->lock);
	while ((op = list)) {
		DL_DELETE(list, op);
		if (net->cb.message)
			net->cb.message(net->cb.arg, op->peer, op->chan,
					op->args, op->body, op->body_bytes);
		ln_op_finish(op, LUNE_OK, op->body_bytes, 0);
		n++;
	}
	return n;
}

const struct ln_net_ops ln_net_self = {
	.name = "self",
	.index = LN_TP_SELF,
	.probe = self_probe,
	.open = self_open,
	.close = self_close,
	.reaches = self_reaches,
	.import = self_import,
	.post = self_post,
	.progress = self_progress,
};
