/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic world in a metadata service: members come and go.
 *
 * A member is one record under its lease; its number is its slot.  Who joins
 * takes the lowest slot that is free, by compare-and-set.  A slot is stable
 * while its member lives; a departed one leaves a hole that a later one may
 * fill, so (slot, revision of creation) names a member, and a reader that
 * sees a slot with another creation reports `left` and then `joined`.
 *
 * The membership epoch of a change is the service's revision of it: it grows
 * with every change, and all members see the same.
 *
 * The first process ever makes the job key and leaves it in the service; it
 * stays for those who come when all others have gone.
 */
#include <utlist.h>

#include "boot/world.h"

#define CLOSE_MS 1000
#define RETRIES 1000 /* of claiming, against many who join at once */

struct change {
	struct change *next;
	struct ln_boot_member m;
};

struct state {
	struct ln_meta *m;
	uint64_t lease;
	_Atomic bool lost; /* set by the client's thread */
	char members[LN_WORLD_KEY_MAX];
	struct ln_meta_watch *watch;
	/* Creation of who is in slot i as last reported; 0: nobody. */
	uint64_t *known;
	int nknown;
	struct change *queue; /* found, not yet reported */
};

static void on_lost(void *arg, uint64_t lease)
{
	struct state *s = arg;

	(void)lease;
	atomic_store(&s->lost, true);
}

/* ---- the job key --------------------------------------------------------- */

static int read_key(struct ln_boot *b, const char *name, uint64_t deadline)
{
	const struct state *s = b->priv;
	struct ln_meta_record r;
	int rc = ln_meta_get(s->m, name, deadline, &r);

	if (rc)
		return rc;
	if (r.value_len == LN_KEY_BYTES)
		memcpy(b->info.key, r.value, LN_KEY_BYTES);
	else
		rc = ln_error(LUNE_ERR_PROTO, "the record %s has %zu bytes",
			      name, r.value_len);
	ln_meta_record_fini(&r);
	return rc;
}

static int make_key(struct ln_boot *b, const char *name, uint64_t deadline)
{
	const struct state *s = b->priv;
	uint8_t key[LN_KEY_BYTES];
	struct ln_meta_put put = { .key = name, .value = key,
				   .value_len = sizeof(key) };
	int rc = ln_random(key, sizeof(key));

	if (!rc)
		rc = ln_meta_cas(s->m, &put, 0, deadline, NULL);
	explicit_bzero(key, sizeof(key));
	/* Whoever made it, it is read back. */
	return rc == LUNE_ERR_CONFLICT ? LUNE_OK : rc;
}

static int get_key(struct ln_boot *b, uint64_t deadline)
{
	char name[LN_WORLD_KEY_MAX];
	int rc;

	if (b->have_key)
		return LUNE_OK;
	ln_world_key(b, "key", name);
	rc = read_key(b, name, deadline);
	if (rc != LUNE_ERR_NOTFOUND)
		return rc;
	rc = make_key(b, name, deadline);
	return rc ? rc : read_key(b, name, deadline);
}

static int elastic_open(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = ln_calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return LUNE_ERR_NOMEM;
	b->priv = s;
	b->info.elastic = true;
	b->info.rank = -1;
	snprintf(b->info.job, sizeof(b->info.job), "%s", b->url.job);
	ln_world_key(b, "member/", s->members);
	rc = ln_world_connect(b, &s->m);
	if (!rc)
		rc = get_key(b, deadline);
	return rc ? ln_world_error(rc, b) : LUNE_OK;
}

/* ---- join ---------------------------------------------------------------- */

/* The lowest number that no record has; records are sorted by number. */
static int lowest_free(const struct state *s, const struct ln_meta_list *l)
{
	int free_slot = 0;

	for (size_t i = 0; i < l->count; i++) {
		int slot = ln_world_slot(s->members, l->records[i].key);

		if (slot == free_slot)
			free_slot++;
	}
	return free_slot;
}

static int highest(const struct state *s, const struct ln_meta_list *l)
{
	int slot = -1;

	for (size_t i = 0; i < l->count; i++)
		slot = ln_max(slot,
			      ln_world_slot(s->members, l->records[i].key));
	return slot;
}

/* CONFLICT: somebody else took the slot. */
static int try_join(struct ln_boot *b, const struct ln_boot_card *mine,
		    uint64_t deadline)
{
	struct state *s = b->priv;
	char key[LN_WORLD_KEY_MAX];
	struct ln_meta_put put = { .key = key, .value = mine->bytes,
				   .value_len = mine->len, .lease = s->lease };
	struct ln_meta_list l;
	int slot, top, rc = ln_meta_list(s->m, s->members, deadline, &l);

	if (rc)
		return rc;
	slot = lowest_free(s, &l);
	top = highest(s, &l);
	ln_meta_list_fini(&l);
	if (slot >= LN_BOOT_SIZE_MAX)
		return ln_error(LUNE_ERR_LIMIT, "all %d slots are taken",
				LN_BOOT_SIZE_MAX);
	ln_world_slot_key(s->members, slot, key);
	rc = ln_meta_cas(s->m, &put, 0, deadline, &b->info.epoch);
	if (rc)
		return rc;
	b->info.rank = slot;
	b->info.size = ln_max(slot, top) + 1;
	return LUNE_OK;
}

static int elastic_join(struct ln_boot *b, const struct ln_boot_card *mine,
			uint64_t deadline)
{
	struct state *s = b->priv;
	int rc;

	if (s->lease)
		return ln_error(LUNE_ERR_EXIST, "this process has joined "
						"already");
	rc = ln_meta_lease_open(s->m, (int)b->conf->lease, on_lost, s,
				deadline, &s->lease);
	for (int i = 0; !rc && i < RETRIES; i++) {
		rc = try_join(b, mine, deadline);
		if (rc != LUNE_ERR_CONFLICT)
			break;
		rc = LUNE_OK;
	}
	if (!rc && b->info.rank < 0)
		rc = ln_error(LUNE_ERR_TIMEOUT, "too many join at once");
	return rc ? ln_world_error(rc, b) : LUNE_OK;
}

/* ---- changes of membership ----------------------------------------------- */

static int push(struct state *s, const struct ln_boot_member *m,
		const struct ln_meta_record *r)
{
	struct change *c = ln_calloc(1, sizeof(*c));

	if (!c)
		return LUNE_ERR_NOMEM;
	c->m = *m;
	if (!m->left) {
		struct ln_boot_card card;
		int rc = ln_ranks_card(&card, r->value, r->value_len);

		if (rc) {
			ln_free(c);
			return rc;
		}
		c->m.card = card.bytes;
		c->m.card_len = card.len;
	}
	LL_APPEND(s->queue, c);
	return LUNE_OK;
}

static int know_slot(struct state *s, int slot)
{
	int n = ln_max(slot + 1, 2 * s->nknown);
	uint64_t *p;

	if (slot < s->nknown)
		return LUNE_OK;
	p = ln_realloc_array(s->known, (size_t)n, sizeof(*p));
	if (!p)
		return LUNE_ERR_NOMEM;
	memset(p + s->nknown, 0, (size_t)(n - s->nknown) * sizeof(*p));
	s->known = p;
	s->nknown = n;
	return LUNE_OK;
}

static int found_gone(struct state *s, int slot, uint64_t epoch)
{
	struct ln_boot_member m = { .slot = slot, .epoch = epoch,
				    .left = true };

	if (slot >= s->nknown || !s->known[slot])
		return LUNE_OK;
	s->known[slot] = 0;
	return push(s, &m, NULL);
}

static int found_there(struct state *s, int slot,
		       const struct ln_meta_record *r)
{
	struct ln_boot_member m = { .slot = slot, .epoch = r->mod_rev };
	int rc = know_slot(s, slot);

	if (rc || s->known[slot] == r->create_rev)
		return rc;
	rc = found_gone(s, slot, r->mod_rev);
	if (rc)
		return rc;
	rc = push(s, &m, r);
	if (!rc)
		s->known[slot] = r->create_rev;
	/* A record that is no card is nobody; the world goes on. */
	return rc == LUNE_ERR_PROTO ? LUNE_OK : rc;
}

/* What differs between the service's list and what was reported. */
static int compare(struct state *s, const struct ln_meta_list *l)
{
	size_t at = 0;
	int slot, rc = LUNE_OK;

	for (int i = 0; !rc && i < s->nknown; i++) {
		while (at < l->count &&
		       ln_world_slot(s->members, l->records[at].key) < i)
			at++;
		slot = at < l->count ?
			       ln_world_slot(s->members, l->records[at].key) :
			       -1;
		if (slot != i)
			rc = found_gone(s, i, l->revision);
	}
	for (size_t i = 0; !rc && i < l->count; i++) {
		slot = ln_world_slot(s->members, l->records[i].key);
		if (slot >= 0)
			rc = found_there(s, slot, &l->records[i]);
	}
	return rc;
}

static int start_watch(struct state *s, uint64_t deadline)
{
	struct ln_meta_list l;
	int rc = ln_meta_list(s->m, s->members, deadline, &l);

	if (rc)
		return rc;
	rc = compare(s, &l);
	if (!rc)
		rc = ln_meta_watch_open(s->m, s->members, l.revision + 1,
					&s->watch);
	ln_meta_list_fini(&l);
	return rc;
}

static void end_watch(struct state *s)
{
	if (s->watch)
		ln_meta_watch_close(s->watch);
	s->watch = NULL;
}

static int take_event(struct state *s, uint64_t deadline)
{
	struct ln_meta_event e;
	int slot, rc = ln_meta_watch_next(s->watch, deadline, &e);

	if (rc == LUNE_ERR_COMPACTED) {
		/* Something was missed: list again, report what differs. */
		end_watch(s);
		return LUNE_OK;
	}
	if (rc)
		return rc;
	slot = ln_world_slot(s->members, e.record.key);
	if (slot >= 0 && e.deleted)
		rc = found_gone(s, slot, e.record.mod_rev);
	else if (slot >= 0)
		rc = found_there(s, slot, &e.record);
	ln_meta_record_fini(&e.record);
	return rc;
}

static int elastic_next(struct ln_boot *b, uint64_t deadline,
			struct ln_boot_member *out)
{
	struct state *s = b->priv;
	struct change *c;
	int rc = LUNE_OK;

	while (!s->queue && !rc)
		rc = s->watch ? take_event(s, deadline) :
				start_watch(s, deadline);
	if (rc)
		return rc;
	c = s->queue;
	LL_DELETE(s->queue, c);
	*out = c->m;
	ln_free(c);
	return LUNE_OK;
}

static bool elastic_lost(const struct ln_boot *b)
{
	struct state *s = b->priv;

	return atomic_load(&s->lost);
}

static void elastic_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	struct state *s = b->priv;
	uint64_t soon = ln_deadline(CLOSE_MS, 0);
	struct change *c, *tmp;

	(void)clean;
	if (!s)
		return;
	end_watch(s);
	/* Revoked, so that the others see us leave now. */
	if (s->lease)
		ln_meta_lease_close(s->m, s->lease, ln_min(soon, deadline));
	if (s->m)
		ln_meta_close(s->m);
	LL_FOREACH_SAFE(s->queue, c, tmp) {
		ln_free(c->m.card);
		ln_free(c);
	}
	ln_free(s->known);
	ln_free(s);
	b->priv = NULL;
}

const struct ln_boot_ops ln_elastic_ops = {
	.scheme = "elastic",
	.open = elastic_open,
	.join = elastic_join,
	.next = elastic_next,
	.lost = elastic_lost,
	.close = elastic_close,
};
