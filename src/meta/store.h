/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of an embedded server: no sockets here, one thread only.  See
 * the top of store.c.
 */
#ifndef LN_META_STORE_H
#define LN_META_STORE_H

#include "meta/meta.h"

struct ln_meta_store;

/* What a key was since mod_rev; never changed, shared by reference. */
struct ln_meta_version {
	unsigned refs;
	bool deleted;
	uint64_t create_rev, mod_rev;
	size_t key_len, value_len;
	char bytes[]; /* key, NUL, value */
};
static inline const char *
ln_meta_version_value(const struct ln_meta_version *v)
{
	return v->bytes + v->key_len + 1;
}
struct ln_meta_version *ln_meta_version_ref(struct ln_meta_version *v);
void ln_meta_version_unref(struct ln_meta_version *v);

int ln_meta_store_open(size_t max_bytes, struct ln_meta_store **out);
void ln_meta_store_close(struct ln_meta_store *s);
/* A number that no other store has. */
uint64_t ln_meta_store_id(const struct ln_meta_store *s);
/* Of the last change. */
uint64_t ln_meta_store_revision(const struct ln_meta_store *s);

struct ln_meta_edit {
	const char *key; /* not terminated */
	size_t key_len;
	const void *value;
	size_t value_len;
	uint64_t lease; /* 0: none */
	bool compare;	/* only if the record's mod_rev is expect */
	uint64_t expect;
};
/* NULL: no such record.  Valid until the next change. */
struct ln_meta_version *ln_meta_store_get(struct ln_meta_store *s,
					  const char *key, size_t key_len);
int ln_meta_store_put(struct ln_meta_store *s, const struct ln_meta_edit *e);
int ln_meta_store_delete(struct ln_meta_store *s,
			 const struct ln_meta_edit *e);
/* References to all records under the prefix, by key; NULL, 0 when none. */
int ln_meta_store_list(struct ln_meta_store *s, const char *prefix,
		       size_t prefix_len, struct ln_meta_version ***out,
		       size_t *count);
/*
 * The change with revision rev, which is not newer than the last; NULL when
 * it is no longer kept.
 */
struct ln_meta_version *ln_meta_store_change(struct ln_meta_store *s,
					     uint64_t rev);

int ln_meta_store_lease_open(struct ln_meta_store *s, uint64_t ttl_ms,
			     uint64_t *out);
int ln_meta_store_lease_keep(struct ln_meta_store *s, uint64_t lease);
int ln_meta_store_lease_close(struct ln_meta_store *s, uint64_t lease);
/* End the leases whose time has come; returns when to call again. */
uint64_t ln_meta_store_expire(struct ln_meta_store *s);

#endif
