/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the tcp rendezvous: what a message does to the world.
 *
 * The first failure ends the world for all: a rank that leaves before all
 * cards are there, or a rank whose time is up.  Its sentence goes to every
 * rank, also to those that join later.  Each rank says with its card how much
 * time it has; the server answers a little earlier, so that a rank hears who
 * is missing instead of only noticing that time is up.
 */
#include <sys/socket.h>
#include <utlist.h>

#include "boot/tcp_server.h"

static void queue(struct ln_conn *c, int type, const void *p, size_t len)
{
	/* Room for a WELCOME that waits and an ERROR; more are never owed. */
	c->out_len += ln_rdv_frame(c->out + c->out_len,
				   sizeof(c->out) - c->out_len, type, p, len);
}

static void leave(struct ln_rdv_server *s, struct ln_conn *c)
{
	if (c->stage == LN_NEW || c->stage == LN_CHALLENGED)
		s->nstrangers--;
	c->stage = LN_LEAVING;
	c->deadline = ln_deadline(LN_SERVER_LINGER_MS, 0);
}

static void refuse(struct ln_rdv_server *s, struct ln_conn *c, int code,
		   const char *sentence)
{
	uint8_t buf[LN_RDV_OUT_MAX];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };

	if (c->stage == LN_LEAVING)
		return;
	ln_pack_u32(&k, (uint32_t)code);
	ln_pack_str(&k, sentence);
	queue(c, LN_RDV_ERROR, buf, k.len);
	leave(s, c);
}

/* The world cannot become complete any more: tell everybody. */
static void fail(struct ln_rdv_server *s, int code, const char *sentence)
{
	struct ln_conn *c;

	if (s->failed_code || s->all)
		return;
	s->failed_code = code;
	snprintf(s->failed, sizeof(s->failed), "%s", sentence);
	DL_FOREACH(s->conns, c)
		if (c->stage == LN_JOINED)
			refuse(s, c, code, s->failed);
}

void ln_rules_left(struct ln_rdv_server *s, unsigned rank)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "rank %u of %d left before all ranks had joined", rank,
		 s->size);
	fail(s, LUNE_ERR_BOOT, text);
}

void ln_rules_late(struct ln_rdv_server *s)
{
	char text[LN_RDV_SENTENCE];

	ln_ranks_sentence(s->b, s->there, "tcp rendezvous", text, sizeof(text));
	fail(s, LUNE_ERR_TIMEOUT, text);
}

static void welcome(struct ln_rdv_server *s, struct ln_conn *c)
{
	const uint8_t *key = s->b->info.key;
	uint8_t buf[1 + LN_MAC_BYTES];
	char text[128];

	if (s->failed_code) {
		refuse(s, c, s->failed_code, s->failed);
		return;
	}
	if (s->rank_conn[c->hello.rank] || s->there[c->hello.rank]) {
		snprintf(text, sizeof(text), "rank %u of %d has joined already",
			 c->hello.rank, s->size);
		refuse(s, c, LUNE_ERR_EXIST, text);
		return;
	}
	s->rank_conn[c->hello.rank] = c;
	s->nstrangers--;
	c->stage = LN_JOINED;
	buf[0] = c->hello.keyed;
	if (c->hello.keyed)
		ln_rdv_proof(key, "server", &c->hello, c->nonce, buf + 1);
	else
		memcpy(buf + 1, key, LN_KEY_BYTES);
	queue(c, LN_RDV_WELCOME, buf, sizeof(buf));
	explicit_bzero(buf, sizeof(buf));
}

/* Why this joiner cannot be one of ours; NULL: it can. */
static const char *objection(const struct ln_rdv_server *s,
			     const struct ln_rdv_hello *h, int *code)
{
	const struct ln_boot *b = s->b;

	*code = LUNE_ERR_BOOT;
	if (strcmp(h->job, b->info.job))
		return "another job is served here";
	if (h->epoch < b->info.epoch)
		return "this epoch of the job is over";
	/* Later worlds may be served when this one is gone. */
	*code = LUNE_ERR_AGAIN;
	if (h->epoch > b->info.epoch)
		return "an older epoch of the job is served here";
	if (s->all)
		return "the world served here is complete";
	*code = LUNE_ERR_AUTH;
	if (h->keyed && !b->have_key)
		return "rank 0 has no LUNE_JOB_KEY_FILE";
	if (!h->keyed && b->have_key)
		return "rank 0 asks for the key of LUNE_JOB_KEY_FILE";
	return NULL;
}

static bool on_hello(struct ln_rdv_server *s, struct ln_conn *c,
		     struct ln_unpack *u)
{
	struct ln_rdv_hello h;
	const char *why;
	char text[128];
	int code;

	ln_rdv_hello_unpack(u, &h);
	if (u->bad || u->pos != u->len || c->stage != LN_NEW)
		return false;
	why = objection(s, &h, &code);
	if (!why && (h.size != (uint32_t)s->size || h.rank >= h.size)) {
		snprintf(text, sizeof(text),
			 "rank %u came with size %u, rank 0 with size %d",
			 h.rank, h.size, s->size);
		code = LUNE_ERR_BOOT;
		why = text;
	}
	if (why) {
		refuse(s, c, code, why);
		return true;
	}
	c->hello = h;
	if (!h.keyed) {
		welcome(s, c);
		return true;
	}
	if (ln_random(c->nonce, sizeof(c->nonce)))
		return false;
	queue(c, LN_RDV_CHALLENGE, c->nonce, sizeof(c->nonce));
	c->stage = LN_CHALLENGED;
	return true;
}

static bool on_proof(struct ln_rdv_server *s, struct ln_conn *c,
		     struct ln_unpack *u)
{
	uint8_t got[LN_MAC_BYTES], want[LN_MAC_BYTES];

	ln_unpack_bytes(u, got, sizeof(got));
	if (u->bad || u->pos != u->len || c->stage != LN_CHALLENGED)
		return false;
	ln_rdv_proof(s->b->info.key, "rank", &c->hello, c->nonce, want);
	if (ln_mac_equal(got, want))
		welcome(s, c);
	else
		refuse(s, c, LUNE_ERR_AUTH,
		       "the job key does not match rank 0's");
	return true;
}

/* Every card is here: one message for all, sent from one buffer. */
static void complete(struct ln_rdv_server *s)
{
	size_t bytes = 0;
	struct ln_pack k = { 0 };
	struct ln_conn *c;

	for (int i = 0; i < s->size; i++)
		bytes += 4 + s->cards[i].len;
	k.cap = LN_RDV_HEAD + bytes;
	k.p = ln_malloc(k.cap);
	if (!k.p) {
		fail(s, LUNE_ERR_NOMEM, "rank 0 has no memory for the cards");
		return;
	}
	ln_rdv_head_pack(&k, LN_RDV_ALL, (uint32_t)bytes);
	for (int i = 0; i < s->size; i++) {
		ln_pack_u32(&k, (uint32_t)s->cards[i].len);
		ln_pack_bytes(&k, s->cards[i].bytes, s->cards[i].len);
	}
	s->all = k.p;
	s->all_len = k.len;
	DL_FOREACH(s->conns, c) {
		if (c->stage != LN_JOINED)
			continue;
		c->sends_all = true;
		leave(s, c);
		/* Large worlds take their time; each send renews it. */
		c->deadline = ln_deadline(LN_SERVER_STRANGER_MS, 0);
	}
}

static bool on_card(struct ln_rdv_server *s, struct ln_conn *c,
		    struct ln_unpack *u)
{
	uint32_t left_ms = ln_unpack_u32(u);
	uint32_t early;
	unsigned r = c->hello.rank;

	if (u->bad || c->stage != LN_JOINED || s->there[r])
		return false;
	if (ln_ranks_card(&s->cards[r], u->p + u->pos, u->len - u->pos))
		return false;
	left_ms = ln_min(left_ms, 86400u * 1000);
	early = ln_min(left_ms / 10, 500u);
	s->answer_by[r] = ln_deadline((int)(left_ms - early), 0);
	s->there[r] = true;
	s->ncards++;
	if (s->ncards == s->size)
		complete(s);
	return true;
}

static bool on_message(struct ln_rdv_server *s, struct ln_conn *c, int type,
		       struct ln_unpack *u)
{
	switch (type) {
	case LN_RDV_HELLO:
		return on_hello(s, c, u);
	case LN_RDV_PROOF:
		return on_proof(s, c, u);
	case LN_RDV_CARD:
		return on_card(s, c, u);
	default:
		return false;
	}
}

bool ln_rules_parse(struct ln_rdv_server *s, struct ln_conn *c)
{
	while (c->in_len >= LN_RDV_HEAD && c->stage != LN_LEAVING) {
		struct ln_unpack u = { .p = c->in + LN_RDV_HEAD };
		uint32_t len;
		size_t used;
		int type;

		if (!ln_rdv_head_unpack(c->in, &type, &len) ||
		    len > LN_RDV_IN_MAX)
			return false;
		used = LN_RDV_HEAD + len;
		if (c->in_len < used)
			return true;
		u.len = len;
		if (!on_message(s, c, type, &u))
			return false;
		c->in_len -= used;
		memmove(c->in, c->in + used, c->in_len);
	}
	return true;
}
