/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From net's message callback to the handler of a channel.
 *
 *	message -> communicator known here? --yes--> handler(channel)
 *	                  | no
 *	          closed lately? --yes--> nobody reads it any more: drop
 *	                  | no
 *	               early list  --ln_comm_open--> handler, in order
 *
 * Members finish making a communicator at different moments, so messages for
 * one that we have not made yet are kept.  The list is bounded: beyond
 * EARLY_MAX bytes or EARLY_COUNT the oldest is dropped with a warning, and a
 * collective that needed it ends by its deadline.
 *
 * Everything here runs under ctx->deliver.
 */
#include <utlist.h>

#include "rt/rt.h"

#define EARLY_MAX (16u << 20)
#define EARLY_COUNT 65536u

struct ln_early {
	struct ln_early *prev, *next;
	struct ln_peer *from; /* a reference */
	int chan;
	uint32_t bytes;
	uint64_t args[LN_MSG_ARGS];
	uint8_t body[];
};

static void forget(lune_ctx *ctx, struct ln_early *e)
{
	DL_DELETE(ctx->early, e);
	ctx->early_bytes -= e->bytes;
	ctx->early_count--;
	ln_peer_unref(e->from);
	ln_free(e);
}

static bool was_closed(const lune_ctx *ctx, const struct ln_comm_id *id)
{
	for (int i = 0; i < LN_CLOSED_MAX; i++)
		if (ln_comm_same(&ctx->closed[i], id))
			return true;
	return false;
}

static void make_room(lune_ctx *ctx, uint32_t bytes)
{
	while (ctx->early && (ctx->early_bytes + bytes > EARLY_MAX ||
			      ctx->early_count >= EARLY_COUNT)) {
		ln_warn("a message for a communicator that does not exist here "
			"yet is dropped: too many wait");
		forget(ctx, ctx->early);
	}
}

static void keep(lune_ctx *ctx, const struct ln_early *msg, const void *body)
{
	struct ln_early *e;

	make_room(ctx, msg->bytes);
	e = ln_malloc(sizeof(*e) + msg->bytes);
	if (!e) {
		ln_warn("a message for a communicator that does not exist here "
			"yet is lost: %s", lune_last_error());
		return;
	}
	*e = *msg;
	ln_peer_ref(e->from);
	if (msg->bytes)
		memcpy(e->body, body, msg->bytes);
	DL_APPEND(ctx->early, e);
	ctx->early_bytes += msg->bytes;
	ctx->early_count++;
}

/* A member of an elastic world may speak before we know that it has joined. */
static bool can_take(const lune_comm *comm, const struct ln_peer *from)
{
	return !comm->elastic || ln_comm_rank_of(comm, from) >= 0;
}

void ln_deliver_message(void *arg, struct ln_peer *from, int chan,
			const uint64_t args[LN_MSG_ARGS], const void *body,
			uint32_t bytes)
{
	struct ln_early msg = { .from = from, .chan = chan, .bytes = bytes };
	struct ln_comm_id id = { args[0], args[1] };
	lune_ctx *ctx = arg;
	lune_comm *comm;

	if (chan < 0 || chan >= LN_CHAN_MAX || !ctx->on_message[chan])
		return;
	pthread_mutex_lock(&ctx->deliver);
	comm = ln_comm_find(ctx, &id);
	if (comm && comm->closed && chan != LN_CHAN_RT) {
		/* Nobody reads it any more. */
	} else if (comm && can_take(comm, from)) {
		ctx->on_message[chan](ctx, from, args, body, bytes);
	} else if (comm || !was_closed(ctx, &id)) {
		memcpy(msg.args, args, sizeof(msg.args));
		keep(ctx, &msg, body);
	}
	pthread_mutex_unlock(&ctx->deliver);
}

void ln_deliver_early(lune_comm *comm)
{
	lune_ctx *ctx = comm->ctx;
	struct ln_early *e, *tmp;

	DL_FOREACH_SAFE(ctx->early, e, tmp) {
		struct ln_comm_id id = { e->args[0], e->args[1] };

		if (!ln_comm_same(&id, &comm->id) || !can_take(comm, e->from))
			continue;
		ctx->on_message[e->chan](ctx, e->from, e->args, e->body,
					 e->bytes);
		forget(ctx, e);
	}
}

void ln_deliver_closed(lune_ctx *ctx, const struct ln_comm_id *id)
{
	struct ln_early *e, *tmp;

	ctx->closed[ctx->closed_at++ % LN_CLOSED_MAX] = *id;
	DL_FOREACH_SAFE(ctx->early, e, tmp) {
		struct ln_comm_id of = { e->args[0], e->args[1] };

		if (ln_comm_same(&of, id))
			forget(ctx, e);
	}
}

void ln_deliver_fini(lune_ctx *ctx)
{
	while (ctx->early)
		forget(ctx, ctx->early);
}

void ln_deliver_rt(struct lune_ctx *ctx, struct ln_peer *from,
		   const uint64_t args[LN_MSG_ARGS], const void *body,
		   uint32_t bytes)
{
	struct ln_comm_id id = { args[0], args[1] };
	lune_comm *comm = ln_comm_find(ctx, &id);
	int rank = comm ? ln_comm_rank_of(comm, from) : -1;

	uint64_t kind = args[3] >> 56;

	if (rank < 0) {
		ln_count(&ctx->counters, refused_proto, 1);
		return;
	}
	/* A ghost only answers. */
	if (comm->closed && kind != LN_RT_QUERY && kind != LN_RT_ASK)
		return;
	switch (kind) {
	case LN_RT_PING:
		break;
	case LN_RT_BREAK:
		ln_failure_told(comm, rank, (int)(int32_t)args[2],
				(int)(int32_t)args[3]);
		break;
	case LN_RT_QUERY:
	case LN_RT_ASK:
	case LN_RT_VOTE:
	case LN_RT_DECISION:
		if (comm->agree)
			ln_agree_message(comm, rank, args, body, bytes);
		break;
	case LN_RT_TAGGED:
		ln_inbox_put(comm, rank, args, body, bytes);
		break;
	default:
		ln_count(&ctx->counters, refused_proto, 1);
	}
}
