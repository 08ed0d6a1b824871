/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: everything of one process's part in a world, opened in order
 * and closed in the opposite one.
 *
 *	configuration, topology, memory table, request pool
 *	bootstrap (rank, size, job key)
 *	net (listens; needs the key)
 *	cards exchanged          elastic: joined, membership followed
 *	self and world communicators
 *
 * ctx_undo takes back whatever of this is there, so that a failed open and a
 * close are the same code.
 */
#include <lune/mem.h>

#include "rt/rt.h"

/* How long the bootstrap may take to say goodbye. */
#define LEAVE_MS 2000

/* ---- closing ------------------------------------------------------------ */

/* Every other member has left or is about to: nobody was lost. */
static bool ended_well(const lune_ctx *ctx)
{
	return atomic_load(&ctx->counters.peers_lost) == 0;
}

static void ctx_undo(lune_ctx *ctx, uint64_t deadline, bool clean)
{
	ln_fork_unwatch(ctx);
	ln_elastic_close(ctx);
	/* The world, self, and ghosts. */
	while (ctx->comms)
		ln_comm_free(ctx->comms);
	ln_net_close(ctx->net, deadline);
	if (ctx->boot)
		ln_boot_close(ctx->boot, clean, ln_now_ns() +
					       LEAVE_MS * 1000000ull);
	ln_deliver_fini(ctx);
	ln_pool_close(ctx->pool);
	if (ctx->mem)
		ln_mem_table_close(ctx->mem);
	if (ctx->have_conf)
		ln_config_fini(&ctx->conf);
	pthread_mutex_destroy(&ctx->deliver);
	pthread_mutex_destroy(&ctx->lock);
	ln_free(ctx);
}

int lune_ctx_close(lune_ctx *ctx, int timeout_ms)
{
	unsigned regions;
	int objects;

	if (!ctx)
		return LUNE_OK;
	LN_CTX_CHECK(ctx);
	objects = atomic_load(&ctx->objects);
	regions = ln_mem_count(ctx->mem) - atomic_load(&ctx->own_regions);
	if (objects || regions)
		return ln_error(LUNE_ERR_BUSY, "%d communicators, queues, "
				"windows or attached memories and %u memories "
				"are still open", objects, regions);
	ctx_undo(ctx, ln_deadline(timeout_ms, (int)ctx->conf.timeout),
		 ended_well(ctx));
	return LUNE_OK;
}

/* ---- opening ------------------------------------------------------------ */

static int read_opts(const struct lune_ctx_opts *in, struct lune_ctx_opts *out)
{
	memset(out, 0, sizeof(*out));
	if (in && in->size < offsetof(struct lune_ctx_opts, timeout_ms))
		return ln_error(LUNE_ERR_INVAL,
				"lune_ctx_opts.size is not set");
	if (in)
		memcpy(out, in, ln_min(in->size, sizeof(*out)));
	if (out->progress < LUNE_PROGRESS_CONFIGURED ||
	    out->progress > LUNE_PROGRESS_MANUAL)
		return ln_error(LUNE_ERR_INVAL, "lune_ctx_opts.progress is %d",
				out->progress);
	return LUNE_OK;
}

static int open_local(lune_ctx *ctx, const struct lune_ctx_opts *o)
{
	int rc = ln_config_init(&ctx->conf);

	if (rc)
		return rc;
	ctx->have_conf = true;
	ctx->manual = o->progress ? o->progress == LUNE_PROGRESS_MANUAL
				  : !strcmp(ctx->conf.progress, "manual");
	rc = ln_topo_read(&ctx->conf, &ctx->topo);
	if (!rc)
		rc = ln_mem_table_open(&ctx->conf, &ctx->topo, &ctx->mem);
	if (!rc)
		rc = ln_pool_open(ctx, &ctx->pool);
	return rc;
}

static void set_handlers(lune_ctx *ctx)
{
	ctx->on_message[LN_CHAN_RT] = ln_deliver_rt;
	if (&ln_layer_notify)
		ctx->on_message[LN_CHAN_NOTIFY] = ln_layer_notify.message;
	if (&ln_layer_coll)
		ctx->on_message[LN_CHAN_COLL] = ln_layer_coll.message;
}

static int open_net(lune_ctx *ctx)
{
	struct ln_net_opts o = {
		.conf = &ctx->conf,
		.topo = &ctx->topo,
		.mem = ctx->mem,
		.counters = &ctx->counters,
		.manual = ctx->manual,
		.cb = { .arg = ctx, .message = ln_deliver_message },
	};
	int rc;

	set_handlers(ctx);
	memcpy(o.key, ln_boot_info(ctx->boot)->key, sizeof(o.key));
	rc = ln_net_open(&o, &ctx->net);
	explicit_bzero(o.key, sizeof(o.key));
	return rc;
}

static int open_self(lune_ctx *ctx)
{
	const struct ln_card *card = ln_net_card(ctx->net);
	struct ln_comm_id none = { 0, 0 };
	struct ln_comm_how how = { .size = 1 };
	struct ln_peer *me;
	int rc = ln_peer_get(ctx->net, card, &me);

	if (rc)
		return rc;
	how.id = ln_comm_derive(&none, "self", card->uuid.b,
				sizeof(card->uuid.b));
	how.peers = &me;
	rc = ln_comm_open(ctx, &how, &ctx->self);
	ln_peer_unref(me);
	return rc;
}

/* The peers of all cards, and a hash that only this world has. */
static int read_cards(lune_ctx *ctx, const struct ln_boot_card *cards,
		      struct ln_comm_how *how)
{
	struct ln_comm_id none = { 0, 0 };
	struct ln_card card;
	int rc = LUNE_OK;

	how->id = ln_comm_derive(&none, "world", &how->size,
				 sizeof(how->size));
	for (int r = 0; !rc && r < how->size; r++) {
		rc = ln_card_unpack(cards[r].bytes, cards[r].len, &card);
		if (!rc)
			rc = ln_peer_get(ctx->net, &card, &how->peers[r]);
		if (rc)
			return ln_error_prefix(rc, "the card of rank %d", r);
		how->id = ln_comm_derive(&how->id, "member", card.uuid.b,
					 sizeof(card.uuid.b));
	}
	return rc;
}

static int open_world(lune_ctx *ctx, const struct ln_boot_card *cards)
{
	const struct ln_boot_info *info = ln_boot_info(ctx->boot);
	struct ln_comm_how how = { .rank = info->rank, .size = info->size };
	int rc;

	how.peers = ln_calloc((size_t)info->size, sizeof(*how.peers));
	if (!how.peers)
		return LUNE_ERR_NOMEM;
	rc = read_cards(ctx, cards, &how);
	if (!rc)
		rc = ln_comm_open(ctx, &how, &ctx->world);
	for (int r = 0; r < info->size; r++)
		ln_peer_unref(how.peers[r]);
	ln_free(how.peers);
	return rc;
}

static int join_fixed(lune_ctx *ctx, uint64_t deadline)
{
	int size = ln_boot_info(ctx->boot)->size, rc;
	uint8_t card[LN_CARD_BYTES_MAX];
	struct ln_boot_card *cards;
	size_t bytes;

	rc = ln_card_pack(ln_net_card(ctx->net), card, sizeof(card), &bytes);
	if (!rc)
		rc = ln_boot_exchange(ctx->boot, card, bytes, deadline, &cards);
	if (rc)
		return rc;
	rc = open_world(ctx, cards);
	for (int r = 0; r < size; r++)
		ln_free(cards[r].bytes);
	ln_free(cards);
	return rc;
}

static int join(lune_ctx *ctx, const struct lune_ctx_opts *o)
{
	uint64_t deadline = ln_deadline(o->timeout_ms ? o->timeout_ms
						      : LUNE_TIMEOUT_DEFAULT,
					(int)ctx->conf.boot_timeout);
	int rc = ln_boot_open(&ctx->conf, o->bootstrap, deadline, &ctx->boot);

	if (!rc)
		rc = open_net(ctx);
	if (!rc)
		rc = open_self(ctx);
	if (rc)
		return rc;
	if (ln_boot_info(ctx->boot)->elastic)
		return ln_elastic_open(ctx, deadline);
	return join_fixed(ctx, deadline);
}

int lune_ctx_open(const struct lune_ctx_opts *opts, lune_ctx **out)
{
	struct lune_ctx_opts o;
	lune_ctx *ctx;
	int rc;

	if (!out)
		return ln_error(LUNE_ERR_INVAL, "lune_ctx_open: NULL");
	rc = read_opts(opts, &o);
	if (rc)
		return rc;
	ctx = ln_calloc(1, sizeof(*ctx));
	if (!ctx)
		return LUNE_ERR_NOMEM;
	pthread_mutex_init(&ctx->deliver, NULL);
	pthread_mutex_init(&ctx->lock, NULL);
	rc = open_local(ctx, &o);
	if (!rc)
		rc = join(ctx, &o);
	if (!rc)
		rc = ln_fork_watch(ctx);
	if (rc) {
		ctx_undo(ctx, ln_now_ns(), false);
		return rc;
	}
	*out = ctx;
	return LUNE_OK;
}

/* ---- the rest ----------------------------------------------------------- */

lune_comm *lune_ctx_world(lune_ctx *ctx)
{
	return ctx->world;
}

lune_comm *lune_ctx_self(lune_ctx *ctx)
{
	return ctx->self;
}

int lune_ctx_progress(lune_ctx *ctx)
{
	LN_CTX_CHECK(ctx);
	return ln_net_progress(ctx->net);
}

int lune_ctx_fd(lune_ctx *ctx)
{
	LN_CTX_CHECK(ctx);
	return ln_net_fd(ctx->net);
}

int lune_ctx_arm(lune_ctx *ctx)
{
	LN_CTX_CHECK(ctx);
	return ln_net_arm(ctx->net);
}

int lune_ctx_counter(lune_ctx *ctx, const char *name, uint64_t *out)
{
	const char *row, *help;
	uint64_t value;

	if (!ctx || !name || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_ctx_counter: NULL");
	for (int i = 0; ln_counters_row(&ctx->counters, i, &row, &help, &value);
	     i++) {
		if (strcmp(row, name))
			continue;
		*out = value;
		return LUNE_OK;
	}
	return ln_error(LUNE_ERR_NOTFOUND, "no counter is called %s", name);
}
