/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of fixed size in a metadata service (etcd or our own).
 *
 * Ranks may be given or are claimed.  What earlier runs of the same job name
 * left behind lives as long as its leases do, so it must not be taken for a
 * part of this run.  Therefore:
 *
 *  - A run is one record, made by whoever comes first (the leader), with a
 *    random name.  Ranks and cards lie under that name.
 *  - Only the leader decides that all are there: it changes the record from
 *    forming to running.  A dead leader never does; its record goes with its
 *    lease, and those who waited for it begin again.
 *  - A run that is running takes nobody in.  Who comes then waits until the
 *    record is gone, or the leader has marked it finished.
 *
 *	(none) --cas by the first--> FORMING --cas by it--> RUNNING
 *	   ^                            |                      |
 *	   +------- its lease ends -----+----------------------+-> FINISHED
 *
 * Leases are not revoked at the end: a slower rank may still read our card.
 */
#include "boot/world.h"

#define RETRY_MS 100
#define CLOSE_MS 1000
#define RUN_VERSION 1

enum phase { FORMING = 1, RUNNING, FINISHED };

struct run {
	enum phase phase;
	int size;
	struct ln_uuid name;
	uint8_t key[LN_KEY_BYTES];
	char leader[128]; /* who, for messages */
	uint64_t rev;	  /* of the record as read */
};

struct state {
	struct ln_meta *m;
	uint64_t lease;
	struct run run;
	bool leads;
	char run_key[LN_WORLD_KEY_MAX];
	char ranks[LN_WORLD_KEY_MAX]; /* prefix of the run's rank records */
	char cards[LN_WORLD_KEY_MAX];
	char all[LN_WORLD_KEY_MAX];   /* prefix of both */
	char holder[128]; /* of the rank that we want, for messages */
	/* Others may be about to ask who was there: leave our record. */
	bool linger;
};

static int run_unpack(const struct ln_meta_record *r, struct run *out)
{
	struct ln_unpack u = { .p = r->value, .len = r->value_len };
	uint8_t version = ln_unpack_u8(&u);

	out->phase = (enum phase)ln_unpack_u8(&u);
	out->size = (int)ln_unpack_u32(&u);
	ln_unpack_bytes(&u, out->name.b, sizeof(out->name.b));
	ln_unpack_bytes(&u, out->key, sizeof(out->key));
	ln_unpack_str(&u, out->leader, sizeof(out->leader));
	out->rev = r->mod_rev;
	if (u.bad || version != RUN_VERSION || out->phase < FORMING ||
	    out->phase > FINISHED)
		return ln_error(LUNE_ERR_PROTO, "the record %s is not ours",
				r->key);
	return LUNE_OK;
}

/* Write the run, if it is still as we know it (rev 0: none is there). */
static int run_write(struct state *s, struct run *run, uint64_t deadline)
{
	uint8_t buf[256];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	struct ln_meta_put put = { .key = s->run_key, .value = buf,
				   .lease = s->lease };
	int rc;

	ln_pack_u8(&k, RUN_VERSION);
	ln_pack_u8(&k, (uint8_t)run->phase);
	ln_pack_u32(&k, (uint32_t)run->size);
	ln_pack_bytes(&k, run->name.b, sizeof(run->name.b));
	ln_pack_bytes(&k, run->key, sizeof(run->key));
	ln_pack_str(&k, run->leader);
	put.value_len = k.len;
	rc = ln_meta_cas(s->m, &put, run->rev, deadline, &run->rev);
	explicit_bzero(buf, sizeof(buf));
	return rc;
}

static int run_read(struct state *s, uint64_t deadline, struct run *out)
{
	struct ln_meta_record r;
	int rc = ln_meta_get(s->m, s->run_key, deadline, &r);

	if (rc)
		return rc;
	rc = run_unpack(&r, out);
	ln_meta_record_fini(&r);
	return rc;
}

static void set_run(struct ln_boot *b, const struct run *run)
{
	struct state *s = b->priv;
	char name[LN_UUID_TEXT], what[LN_UUID_TEXT + 16];

	s->run = *run;
	ln_uuid_text(&run->name, name);
	snprintf(what, sizeof(what), "%s/", name);
	ln_world_key(b, what, s->all);
	snprintf(what, sizeof(what), "%s/rank/", name);
	ln_world_key(b, what, s->ranks);
	snprintf(what, sizeof(what), "%s/card/", name);
	ln_world_key(b, what, s->cards);
}

/* Become the leader of a new run in place of what is there (or nothing). */
static int found_run(struct ln_boot *b, uint64_t rev, uint64_t deadline)
{
	struct state *s = b->priv;
	struct run run = { .phase = FORMING, .size = b->url.size, .rev = rev };
	int rc = ln_uuid_make(&run.name);

	/* With a key file the key has no place in the service. */
	if (!rc && !b->have_key)
		rc = ln_random(run.key, sizeof(run.key));
	ln_world_who(run.leader, sizeof(run.leader));
	if (!rc)
		rc = run_write(s, &run, deadline);
	if (rc)
		return rc;
	set_run(b, &run);
	s->leads = true;
	return LUNE_OK;
}

/* Sleep until the record changes; OK also when it may have. */
static int await_change(struct state *s, uint64_t rev, uint64_t deadline)
{
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	int rc = ln_meta_watch_open(s->m, s->run_key, rev + 1, &w);

	if (rc)
		return rc;
	rc = ln_meta_watch_next(w, deadline, &e);
	if (!rc)
		ln_meta_record_fini(&e.record);
	ln_meta_watch_close(w);
	return rc == LUNE_ERR_COMPACTED ? LUNE_OK : rc;
}

/*
 * Find or found a run that is forming.  AGAIN: look again, something changed.
 */
static int enter_run(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = b->priv;
	struct run run;
	int rc = run_read(s, deadline, &run);

	s->leads = false;
	if (rc == LUNE_ERR_NOTFOUND)
		rc = found_run(b, 0, deadline);
	else if (!rc && run.phase == FINISHED)
		rc = found_run(b, run.rev, deadline);
	else if (!rc && run.size != b->url.size)
		return ln_error(LUNE_ERR_BOOT,
				"size %d was given, but the world of %s has "
				"size %d", b->url.size, run.leader, run.size);
	else if (!rc && run.phase == FORMING)
		set_run(b, &run);
	else if (!rc) {
		rc = await_change(s, run.rev, deadline);
		if (rc == LUNE_ERR_TIMEOUT)
			return ln_error(rc, "a run with this name, led by %s, "
					"goes on", run.leader);
		return rc ? rc : LUNE_ERR_AGAIN;
	}
	return rc == LUNE_ERR_CONFLICT ? LUNE_ERR_AGAIN : rc;
}

static int claim(struct ln_boot *b, int rank, uint64_t deadline)
{
	struct state *s = b->priv;
	char key[LN_WORLD_KEY_MAX], who[128];
	struct ln_meta_put put = { .key = key, .value = who,
				   .lease = s->lease };
	int rc;

	ln_world_slot_key(s->ranks, rank, key);
	ln_world_who(who, sizeof(who));
	put.value_len = strlen(who);
	rc = ln_meta_cas(s->m, &put, 0, deadline, NULL);
	if (!rc)
		b->info.rank = rank;
	return rc;
}

/* Mark the ranks (or cards) of a list; prefix says which. */
static void mark(const struct ln_meta_list *l, const char *prefix, int size,
		 bool *there)
{
	for (size_t i = 0; i < l->count; i++) {
		int slot = ln_world_slot(prefix, l->records[i].key);

		if (slot >= 0 && slot < size)
			there[slot] = true;
	}
}

/* List records under the prefix and mark who is there. */
static int list_ranks(const struct ln_boot *b, const char *prefix,
		      uint64_t deadline, bool *there, uint64_t *revision)
{
	const struct state *s = b->priv;
	struct ln_meta_list l;
	int rc = ln_meta_list(s->m, prefix, deadline, &l);

	if (rc)
		return rc;
	memset(there, 0, (size_t)b->info.size * sizeof(*there));
	mark(&l, prefix, b->info.size, there);
	*revision = l.revision;
	ln_meta_list_fini(&l);
	return LUNE_OK;
}

/* Take the lowest free rank; AGAIN when there is none (or it was lost). */
static int claim_any(struct ln_boot *b, uint64_t deadline, bool *there)
{
	struct state *s = b->priv;
	uint64_t revision;
	int rc = list_ranks(b, s->ranks, deadline, there, &revision);

	for (int i = 0; !rc && i < b->info.size; i++) {
		if (there[i])
			continue;
		rc = claim(b, i, deadline);
		if (rc != LUNE_ERR_CONFLICT)
			return rc;
		rc = LUNE_OK;
	}
	snprintf(s->holder, sizeof(s->holder), "all ranks are taken");
	return rc ? rc : LUNE_ERR_AGAIN;
}

static void note_holder(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = b->priv;
	struct ln_meta_record r;
	char key[LN_WORLD_KEY_MAX];

	ln_world_slot_key(s->ranks, b->url.rank, key);
	if (ln_meta_get(s->m, key, deadline, &r))
		return;
	snprintf(s->holder, sizeof(s->holder), "rank %d is held by %.90s",
		 b->url.rank, (const char *)r.value);
	ln_meta_record_fini(&r);
}

static int take_rank(struct ln_boot *b, uint64_t deadline, bool *there)
{
	int rc;

	if (b->url.rank < 0)
		return claim_any(b, deadline, there);
	rc = claim(b, b->url.rank, deadline);
	if (rc != LUNE_ERR_CONFLICT)
		return rc;
	/* Of a process that is gone, it may end with its lease. */
	note_holder(b, deadline);
	return LUNE_ERR_AGAIN;
}

static bool is_full(const bool *there, int n)
{
	for (int i = 0; i < n; i++)
		if (!there[i])
			return false;
	return true;
}

static void apply(const struct ln_meta_event *e, const char *prefix, int size,
		  bool *there)
{
	int slot = ln_world_slot(prefix, e->record.key);

	if (slot >= 0 && slot < size)
		there[slot] = !e->deleted;
}

/* Follow the ranks' records until all are there. */
static int await_ranks(const struct ln_boot *b, uint64_t deadline, bool *there)
{
	const struct state *s = b->priv;
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	uint64_t rev;
	int rc = list_ranks(b, s->ranks, deadline, there, &rev);

	if (!rc)
		rc = ln_meta_watch_open(s->m, s->ranks, rev + 1, &w);
	if (rc)
		return rc;
	while (!rc && !is_full(there, b->info.size)) {
		rc = ln_meta_watch_next(w, deadline, &e);
		if (rc)
			break;
		apply(&e, s->ranks, b->info.size, there);
		ln_meta_record_fini(&e.record);
	}
	ln_meta_watch_close(w);
	return rc == LUNE_ERR_COMPACTED ? LUNE_ERR_AGAIN : rc;
}

static int lead(struct ln_boot *b, uint64_t deadline, bool *there)
{
	struct state *s = b->priv;
	int rc;

	do {
		rc = await_ranks(b, deadline, there);
	} while (rc == LUNE_ERR_AGAIN);
	if (rc)
		return rc;
	s->run.phase = RUNNING;
	rc = run_write(s, &s->run, deadline);
	/* Then our lease has ended, and somebody else may lead. */
	return rc == LUNE_ERR_CONFLICT ? LUNE_ERR_AGAIN : rc;
}

/* Wait for the leader's word; AGAIN when the leader is gone. */
static int follow(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = b->priv;
	struct run run = s->run;
	int rc = LUNE_OK;

	while (!rc && run.phase == FORMING) {
		rc = await_change(s, run.rev, deadline);
		if (!rc)
			rc = run_read(s, deadline, &run);
		if (!rc && !ln_uuid_equal(&run.name, &s->run.name))
			rc = LUNE_ERR_NOTFOUND;
	}
	if (!rc)
		s->run = run;
	return rc == LUNE_ERR_NOTFOUND ? LUNE_ERR_AGAIN : rc;
}

/* One attempt; AGAIN to make another. */
static int attempt(struct ln_boot *b, uint64_t deadline, bool *there)
{
	struct state *s = b->priv;
	int rc = enter_run(b, deadline);

	if (!rc)
		rc = take_rank(b, deadline, there);
	if (rc)
		return rc;
	return s->leads ? lead(b, deadline, there) : follow(b, deadline);
}

/* The deadline passed: what was it that we waited for? */
static int explain(struct ln_boot *b, int rc, bool *there)
{
	struct state *s = b->priv;
	uint64_t rev, soon = ln_deadline(CLOSE_MS, 0);

	s->linger = true;
	if (b->info.rank < 0 && *s->holder)
		return ln_error(LUNE_ERR_TIMEOUT, "%s", s->holder);
	if (!*s->ranks || list_ranks(b, s->ranks, soon, there, &rev))
		return rc;
	if (is_full(there, b->info.size))
		return ln_error(LUNE_ERR_TIMEOUT, "the leader, %s, did not say "
				"that all %d ranks are there", s->run.leader,
				b->info.size);
	return ln_ranks_error(LUNE_ERR_TIMEOUT, b, there, "records in "
							  "the service");
}

static int form(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = b->priv;
	bool *there = ln_calloc((size_t)b->info.size, sizeof(*there));
	int rc;

	if (!there)
		return LUNE_ERR_NOMEM;
	for (;;) {
		b->info.rank = -1;
		rc = attempt(b, deadline, there);
		if (rc != LUNE_ERR_AGAIN)
			break;
		/* A leader without a rank would keep the others waiting. */
		if (s->leads)
			ln_meta_delete(s->m, s->run_key, s->run.rev, deadline);
		if (ln_deadline_passed(deadline)) {
			rc = LUNE_ERR_TIMEOUT;
			break;
		}
		ln_bsock_nap(deadline, RETRY_MS);
	}
	/* The last call before the deadline may have been cut short by it. */
	if (rc == LUNE_ERR_TIMEOUT ||
	    (rc == LUNE_ERR_META && ln_deadline_passed(deadline)))
		rc = explain(b, rc, there);
	ln_free(there);
	return rc;
}

static int fixed_open(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = ln_calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return LUNE_ERR_NOMEM;
	b->priv = s;
	b->info.size = b->url.size;
	snprintf(b->info.job, sizeof(b->info.job), "%s", b->url.job);
	ln_world_key(b, "run", s->run_key);
	rc = ln_world_connect(b, &s->m);
	if (!rc)
		rc = ln_meta_lease_open(s->m, (int)b->conf->lease, NULL, NULL,
					deadline, &s->lease);
	if (!rc)
		rc = form(b, deadline);
	if (rc)
		return ln_world_error(rc, b);
	if (!b->have_key)
		memcpy(b->info.key, s->run.key, LN_KEY_BYTES);
	return LUNE_OK;
}

/* The state of an exchange. */
struct gather {
	const struct ln_boot *b;
	struct ln_boot_card *cards;
	bool *there; /* whose card is here */
	int count;
};

static int gather_record(struct gather *g, const struct ln_meta_record *r)
{
	const struct state *s = g->b->priv;
	int slot = ln_world_slot(s->cards, r->key);
	int rc;

	if (slot < 0 || slot >= g->b->info.size || g->there[slot])
		return LUNE_OK;
	rc = ln_ranks_card(&g->cards[slot], r->value, r->value_len);
	if (rc)
		return rc;
	g->there[slot] = true;
	g->count++;
	return LUNE_OK;
}

static int gather_event(struct gather *g, const struct ln_meta_event *e)
{
	const struct state *s = g->b->priv;
	int slot;

	if (!e->deleted)
		return gather_record(g, &e->record);
	slot = ln_world_slot(s->ranks, e->record.key);
	/* Whose card we have may leave. */
	if (slot < 0 || slot >= g->b->info.size || g->there[slot])
		return LUNE_OK;
	return ln_error(LUNE_ERR_BOOT,
			"rank %d of %d left before the cards were exchanged",
			slot, g->b->info.size);
}

static int gather_list(struct gather *g, uint64_t deadline, uint64_t *revision)
{
	const struct state *s = g->b->priv;
	struct ln_meta_list l;
	int rc = ln_meta_list(s->m, s->cards, deadline, &l);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < l.count; i++)
		rc = gather_record(g, &l.records[i]);
	*revision = l.revision;
	ln_meta_list_fini(&l);
	return rc;
}

/* List, then follow.  AGAIN: history was lost, list once more. */
static int gather_once(struct gather *g, uint64_t deadline)
{
	const struct state *s = g->b->priv;
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	uint64_t rev;
	int rc = gather_list(g, deadline, &rev);

	if (rc || g->count == g->b->info.size)
		return rc;
	rc = ln_meta_watch_open(s->m, s->all, rev + 1, &w);
	if (rc)
		return rc;
	while (!rc && g->count < g->b->info.size) {
		rc = ln_meta_watch_next(w, deadline, &e);
		if (rc)
			break;
		rc = gather_event(g, &e);
		ln_meta_record_fini(&e.record);
	}
	ln_meta_watch_close(w);
	return rc == LUNE_ERR_COMPACTED ? LUNE_ERR_AGAIN : rc;
}

static int fixed_exchange(struct ln_boot *b, const struct ln_boot_card *mine,
			  uint64_t deadline, struct ln_boot_card *cards)
{
	struct state *s = b->priv;
	struct gather g = { .b = b, .cards = cards };
	char key[LN_WORLD_KEY_MAX];
	struct ln_meta_put put = { .key = key, .value = mine->bytes,
				   .value_len = mine->len, .lease = s->lease };
	int rc;

	g.there = ln_calloc((size_t)b->info.size, sizeof(*g.there));
	if (!g.there)
		return LUNE_ERR_NOMEM;
	ln_world_slot_key(s->cards, b->info.rank, key);
	rc = ln_meta_put(s->m, &put, deadline);
	if (!rc) {
		do {
			rc = gather_once(&g, deadline);
		} while (rc == LUNE_ERR_AGAIN);
	}
	if (rc == LUNE_ERR_TIMEOUT)
		rc = ln_ranks_error(rc, b, g.there, "their cards");
	ln_free(g.there);
	return rc ? ln_world_error(rc, b) : LUNE_OK;
}

static void fixed_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	struct state *s = b->priv;
	uint64_t soon = ln_deadline(CLOSE_MS, 0);

	if (!s)
		return;
	soon = ln_min(soon, deadline);
	if (s->leads && s->run.phase == RUNNING && clean) {
		s->run.phase = FINISHED;
		run_write(s, &s->run, soon);
	}
	/* What succeeded lingers, too: see the top. */
	if (s->lease && !b->exchanged && !s->linger)
		ln_meta_lease_close(s->m, s->lease, soon);
	if (s->m)
		ln_meta_close(s->m);
	explicit_bzero(s, sizeof(*s));
	ln_free(s);
	b->priv = NULL;
}

const struct ln_boot_ops ln_fixed_ops = {
	.scheme = "fixed",
	.open = fixed_open,
	.exchange = fixed_exchange,
	.close = fixed_close,
};
