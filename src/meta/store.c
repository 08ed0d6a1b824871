/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records, leases and history of an embedded server.
 *
 *	entries (sorted by key)         history (ring, one slot a revision)
 *	  "a" "b" "c" ...                 ... rev 7, rev 8, rev 9
 *	   |   |   |                           |      |      |
 *	  entry - entry  <- lease's list     version version version
 *	   |       |                           |
 *	  version version  <-----(shared)------'
 *
 * Entries are a sorted array of pointers: found by bisection, listed in order,
 * inserted by moving pointers, which for the records of a job (one or a few
 * per rank) costs less than a tree would.
 *
 * Invariants
 * 1. Each change has its own revision, one more than the last.
 * 2. Revisions start at the clock (ms << 10), so that those of a store
 *    that was started later on the same port are greater than all that
 *    clients remember of the one before: they are told COMPACTED, not events
 *    that have nothing to do with what they know.
 * 3. A change is made whole or not at all: all its memory is there first.
 *
 * Limits: bytes of all records (max_bytes), history (HISTORY_SLOTS changes,
 * HISTORY_BYTES), LEASES_MAX leases.
 */
#include <time.h>
#include <utlist.h>

#include "meta/store.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(n) ln_malloc(n)
#define uthash_free(p, n) ln_free(p)
/* XXH3: uthash's own function falls through cases, which clang reports. */
#define HASH_FUNCTION(key, len, hashv) \
	((hashv) = (unsigned)ln_hash64((key), (len)))
#include <uthash.h>

#define NS_PER_MS 1000000ull
#define HISTORY_SLOTS 65536u
#define HISTORY_BYTES (64u << 20)
#define LEASES_MAX 65536u
#define TTL_MAX_MS (24ull * 3600 * 1000)
#define DEFAULT_BYTES (1ull << 30)

struct lease;

struct entry {
	struct ln_meta_version *v;
	struct lease *lease; /* NULL: none */
	struct entry *prev, *next;
};

struct lease {
	uint64_t id, ttl_ns, expires;
	struct entry *records;
	UT_hash_handle hh;
};

struct ln_meta_store {
	uint64_t id;
	uint64_t revision, first_rev; /* last change; oldest in the history */
	struct ln_meta_version **history;
	size_t history_bytes;
	struct entry **entries;
	size_t count, cap;
	size_t bytes, max_bytes;
	struct lease *leases;
	uint64_t next_expiry; /* not later than the first one */
};

/* ---- versions ----------------------------------------------------------- */

struct ln_meta_version *ln_meta_version_ref(struct ln_meta_version *v)
{
	v->refs++;
	return v;
}

void ln_meta_version_unref(struct ln_meta_version *v)
{
	if (v && !--v->refs)
		ln_free(v);
}

static size_t cost(const struct ln_meta_version *v)
{
	return sizeof(*v) + sizeof(struct entry) + v->key_len + v->value_len;
}

static struct ln_meta_version *make_version(const struct ln_meta_edit *e,
					    bool deleted)
{
	size_t value_len = deleted ? 0 : e->value_len;
	struct ln_meta_version *v;

	v = ln_malloc(sizeof(*v) + e->key_len + 2 + value_len);
	if (!v)
		return NULL;
	memset(v, 0, sizeof(*v));
	v->refs = 1;
	v->deleted = deleted;
	v->key_len = e->key_len;
	v->value_len = value_len;
	memcpy(v->bytes, e->key, e->key_len);
	v->bytes[e->key_len] = 0;
	if (value_len)
		memcpy(v->bytes + e->key_len + 1, e->value, value_len);
	return v;
}

/* ---- history ------------------------------------------------------------ */

static struct ln_meta_version **slot(struct ln_meta_store *s, uint64_t rev)
{
	return &s->history[rev % HISTORY_SLOTS];
}

static void forget_oldest(struct ln_meta_store *s)
{
	struct ln_meta_version **v = slot(s, s->first_rev++);

	s->history_bytes -= cost(*v);
	ln_meta_version_unref(*v);
	*v = NULL;
}

/* Give v the next revision and remember it. */
static void record_change(struct ln_meta_store *s, struct ln_meta_version *v)
{
	if (s->revision - s->first_rev + 1 == HISTORY_SLOTS)
		forget_oldest(s);
	v->mod_rev = ++s->revision;
	*slot(s, v->mod_rev) = ln_meta_version_ref(v);
	s->history_bytes += cost(v);
	while (s->history_bytes > HISTORY_BYTES && s->first_rev < s->revision)
		forget_oldest(s);
}

struct ln_meta_version *ln_meta_store_change(struct ln_meta_store *s,
					     uint64_t rev)
{
	if (rev < s->first_rev || rev > s->revision)
		return NULL;
	return *slot(s, rev);
}

/* ---- records ------------------------------------------------------------ */

static int compare(const struct ln_meta_version *v, const char *key,
		   size_t key_len)
{
	int c = memcmp(v->bytes, key, ln_min(v->key_len, key_len));

	if (c)
		return c;
	return v->key_len < key_len ? -1 : v->key_len > key_len;
}

/* The first entry that is not before the key. */
static size_t lower_bound(const struct ln_meta_store *s, const char *key,
			  size_t key_len)
{
	size_t lo = 0, hi = s->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (compare(s->entries[mid]->v, key, key_len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Its place, and whether it is there. */
static bool find(const struct ln_meta_store *s, const char *key,
		 size_t key_len, size_t *at)
{
	*at = lower_bound(s, key, key_len);
	return *at < s->count &&
	       !compare(s->entries[*at]->v, key, key_len);
}

struct ln_meta_version *ln_meta_store_get(struct ln_meta_store *s,
					  const char *key, size_t key_len)
{
	size_t at;

	return find(s, key, key_len, &at) ? s->entries[at]->v : NULL;
}

static int reserve(struct ln_meta_store *s)
{
	size_t cap = s->cap ? 2 * s->cap : 64;
	struct entry **p;

	if (s->count < s->cap)
		return 0;
	p = ln_realloc_array(s->entries, cap, sizeof(*p));
	if (!p)
		return LUNE_ERR_NOMEM;
	s->entries = p;
	s->cap = cap;
	return 0;
}

/* A new, empty entry at its place. */
static struct entry *insert(struct ln_meta_store *s, size_t at)
{
	struct entry *e;

	if (reserve(s))
		return NULL;
	e = ln_calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	memmove(s->entries + at + 1, s->entries + at,
		(s->count - at) * sizeof(*s->entries));
	s->entries[at] = e;
	s->count++;
	return e;
}

static void unlease(struct entry *e)
{
	if (e->lease)
		DL_DELETE(e->lease->records, e);
	e->lease = NULL;
}

/* v becomes what the entry holds. */
static void set(struct ln_meta_store *s, struct entry *e,
		struct ln_meta_version *v, struct lease *lease)
{
	uint64_t created = e->v ? e->v->create_rev : 0;

	if (e->v)
		s->bytes -= cost(e->v);
	ln_meta_version_unref(e->v);
	e->v = v;
	s->bytes += cost(v);
	record_change(s, v);
	v->create_rev = created ? created : v->mod_rev;
	unlease(e);
	if (lease) {
		e->lease = lease;
		DL_APPEND(lease->records, e);
	}
}

static int check(const struct ln_meta_version *now,
		 const struct ln_meta_edit *e)
{
	uint64_t is = now ? now->mod_rev : 0;

	if (!e->compare || is == e->expect)
		return 0;
	if (!is)
		return ln_error(LUNE_ERR_CONFLICT,
				"\"%.*s\" does not exist", (int)e->key_len,
				e->key);
	return ln_error(LUNE_ERR_CONFLICT,
			"\"%.*s\" has revision %llu, not %llu",
			(int)e->key_len, e->key, (unsigned long long)is,
			(unsigned long long)e->expect);
}

static struct lease *find_lease(struct ln_meta_store *s, uint64_t id)
{
	struct lease *l;

	HASH_FIND(hh, s->leases, &id, sizeof(id), l);
	return l;
}

static int no_lease(uint64_t id)
{
	return ln_error(LUNE_ERR_NOTFOUND, "there is no lease %016llx",
			(unsigned long long)id);
}

int ln_meta_store_put(struct ln_meta_store *s, const struct ln_meta_edit *e)
{
	struct lease *lease = NULL;
	struct ln_meta_version *v;
	struct entry *entry;
	size_t at, old = 0;
	bool there;
	int rc;

	there = find(s, e->key, e->key_len, &at);
	rc = check(there ? s->entries[at]->v : NULL, e);
	if (rc)
		return rc;
	if (e->lease) {
		lease = find_lease(s, e->lease);
		if (!lease)
			return no_lease(e->lease);
	}
	v = make_version(e, false);
	if (!v)
		return LUNE_ERR_NOMEM;
	if (there)
		old = cost(s->entries[at]->v);
	if (s->bytes - old + cost(v) > s->max_bytes) {
		ln_meta_version_unref(v);
		return ln_error(LUNE_ERR_LIMIT, "the store is full: %zu of "
				"%zu bytes", s->bytes, s->max_bytes);
	}
	entry = there ? s->entries[at] : insert(s, at);
	if (!entry) {
		ln_meta_version_unref(v);
		return LUNE_ERR_NOMEM;
	}
	set(s, entry, v, lease);
	return 0;
}

static int delete_at(struct ln_meta_store *s, size_t at)
{
	struct entry *entry = s->entries[at];
	struct ln_meta_edit e = { .key = entry->v->bytes,
				  .key_len = entry->v->key_len };
	struct ln_meta_version *v;

	v = make_version(&e, true);
	if (!v)
		return LUNE_ERR_NOMEM;
	record_change(s, v);
	ln_meta_version_unref(v);
	unlease(entry);
	s->bytes -= cost(entry->v);
	ln_meta_version_unref(entry->v);
	ln_free(entry);
	s->count--;
	memmove(s->entries + at, s->entries + at + 1,
		(s->count - at) * sizeof(*s->entries));
	return 0;
}

int ln_meta_store_delete(struct ln_meta_store *s,
			 const struct ln_meta_edit *e)
{
	size_t at;
	int rc;

	if (!find(s, e->key, e->key_len, &at))
		return ln_error(LUNE_ERR_NOTFOUND, "\"%.*s\" does not exist",
				(int)e->key_len, e->key);
	rc = check(s->entries[at]->v, e);
	return rc ? rc : delete_at(s, at);
}

int ln_meta_store_list(struct ln_meta_store *s, const char *prefix,
		       size_t prefix_len, struct ln_meta_version ***out,
		       size_t *count)
{
	size_t from = lower_bound(s, prefix, prefix_len), to = from;
	struct ln_meta_version **all = NULL;

	while (to < s->count && s->entries[to]->v->key_len >= prefix_len &&
	       !memcmp(s->entries[to]->v->bytes, prefix, prefix_len))
		to++;
	if (to > from) {
		all = ln_calloc(to - from, sizeof(*all));
		if (!all)
			return LUNE_ERR_NOMEM;
	}
	for (size_t i = from; i < to; i++)
		all[i - from] = ln_meta_version_ref(s->entries[i]->v);
	*out = all;
	*count = to - from;
	return 0;
}

/* ---- leases ------------------------------------------------------------- */

int ln_meta_store_lease_open(struct ln_meta_store *s, uint64_t ttl_ms,
			     uint64_t *out)
{
	struct lease *l;

	if (ttl_ms < 1000 || ttl_ms > TTL_MAX_MS)
		return ln_error(LUNE_ERR_INVAL, "lease of %llu ms",
				(unsigned long long)ttl_ms);
	if (HASH_COUNT(s->leases) >= LEASES_MAX)
		return ln_error(LUNE_ERR_LIMIT, "%u leases are open",
				LEASES_MAX);
	l = ln_calloc(1, sizeof(*l));
	if (!l)
		return LUNE_ERR_NOMEM;
	do {
		if (ln_random(&l->id, sizeof(l->id)))
			goto fail;
		l->id &= INT64_MAX;
	} while (!l->id || find_lease(s, l->id));
	l->ttl_ns = ttl_ms * NS_PER_MS;
	l->expires = ln_now_ns() + l->ttl_ns;
	HASH_ADD(hh, s->leases, id, sizeof(l->id), l);
	if (!l->hh.tbl)
		goto fail;
	s->next_expiry = ln_min(s->next_expiry, l->expires);
	*out = l->id;
	return 0;
fail:
	ln_free(l);
	return LUNE_ERR_NOMEM;
}

int ln_meta_store_lease_keep(struct ln_meta_store *s, uint64_t lease)
{
	struct lease *l = find_lease(s, lease);

	if (!l)
		return no_lease(lease);
	l->expires = ln_now_ns() + l->ttl_ns;
	return 0;
}

/* On NOMEM the rest of its records, and the lease, are still there. */
static int end_lease(struct ln_meta_store *s, struct lease *l)
{
	size_t at;
	int rc;

	while (l->records) {
		find(s, l->records->v->bytes, l->records->v->key_len, &at);
		rc = delete_at(s, at);
		if (rc)
			return rc;
	}
	HASH_DEL(s->leases, l);
	ln_free(l);
	return 0;
}

int ln_meta_store_lease_close(struct ln_meta_store *s, uint64_t lease)
{
	struct lease *l = find_lease(s, lease);

	return l ? end_lease(s, l) : no_lease(lease);
}

uint64_t ln_meta_store_expire(struct ln_meta_store *s)
{
	uint64_t now = ln_now_ns();
	struct lease *l, *tmp;

	if (now < s->next_expiry)
		return s->next_expiry;
	s->next_expiry = LN_NEVER;
	HASH_ITER(hh, s->leases, l, tmp) {
		uint64_t expires = l->expires;

		if (expires <= now) {
			if (!end_lease(s, l))
				continue;
			expires = now + 100 * NS_PER_MS;
		}
		s->next_expiry = ln_min(s->next_expiry, expires);
	}
	return s->next_expiry;
}

/* ---- the whole ---------------------------------------------------------- */

int ln_meta_store_open(size_t max_bytes, struct ln_meta_store **out)
{
	struct ln_meta_store *s;
	struct timespec now;

	s = ln_calloc(1, sizeof(*s));
	if (!s)
		return LUNE_ERR_NOMEM;
	s->history = ln_calloc(HISTORY_SLOTS, sizeof(*s->history));
	if (!s->history || ln_random(&s->id, sizeof(s->id))) {
		ln_free(s->history);
		ln_free(s);
		return LUNE_ERR_NOMEM;
	}
	s->id |= 1; /* 0 means unknown */
	s->max_bytes = max_bytes ? max_bytes : DEFAULT_BYTES;
	clock_gettime(CLOCK_REALTIME, &now);
	s->revision = ((uint64_t)now.tv_sec * 1000 +
		       (uint64_t)now.tv_nsec / NS_PER_MS) << 10;
	s->first_rev = s->revision + 1;
	s->next_expiry = LN_NEVER;
	*out = s;
	return 0;
}

void ln_meta_store_close(struct ln_meta_store *s)
{
	struct lease *l, *tmp;

	HASH_ITER(hh, s->leases, l, tmp) {
		HASH_DEL(s->leases, l);
		ln_free(l);
	}
	for (size_t i = 0; i < s->count; i++) {
		ln_meta_version_unref(s->entries[i]->v);
		ln_free(s->entries[i]);
	}
	while (s->first_rev <= s->revision)
		forget_oldest(s);
	ln_free(s->entries);
	ln_free(s->history);
	ln_free(s);
}

uint64_t ln_meta_store_id(const struct ln_meta_store *s)
{
	return s->id;
}

uint64_t ln_meta_store_revision(const struct ln_meta_store *s)
{
	return s->revision;
}
