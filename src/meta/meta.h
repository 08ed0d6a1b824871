/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta: named records with leases and watches.  One interface, two backends
 * (a const table each): etcd v3 over its JSON gateway, and our own small
 * server (embedded).  Everything above knows this interface only.
 *
 * Keys are byte strings without NUL, 1 to LN_META_KEY_MAX; values are bytes,
 * 0 to LN_META_VALUE_MAX.  Every change of the store has a revision, above 0
 * and growing; a record knows the revision of its creation and of its last
 * change.  A record written with a lease disappears when the lease ends.
 *
 * Every call takes a deadline (absolute, base.h) and returns
 *   LUNE_ERR_META      the service does not answer (the client reconnects by
 *                      itself; the sentence names the endpoints and causes)
 *   LUNE_ERR_TIMEOUT   only where waiting is the purpose (watch_next)
 *   LUNE_ERR_CONFLICT  a compare-and-set lost
 *   LUNE_ERR_NOTFOUND  no such record, or the lease has ended
 *   LUNE_ERR_COMPACTED the watch revision is older than what is kept (or the
 *                      store was wiped): list again and watch from there
 * A client may be used by any thread.
 */
#ifndef LN_META_H
#define LN_META_H

#include "base/base.h"

#define LN_META_KEY_MAX 512
#define LN_META_VALUE_MAX (1024 * 1024)

struct ln_meta; /* a client */
struct ln_meta_watch;
struct ln_meta_server;

struct ln_meta_record {
	char *key;
	uint8_t *value; /* NUL-terminated past value_len for convenience */
	size_t value_len;
	uint64_t create_rev, mod_rev;
};

/*
 * url: "etcd://host:port[,host:port...]" or "lune://host:port[,...]" (the
 * embedded server); a path after the host, "/" added, is a prefix put before
 * every key; a query ("?...") is not looked at.
 * Does not fail when the service is down: the first call will tell.
 */
int ln_meta_open(const char *url, struct ln_meta **out);
void ln_meta_close(struct ln_meta *m); /* ends its leases' keepalives */

/* The record is the caller's: ln_meta_record_fini. */
int ln_meta_get(struct ln_meta *m, const char *key, uint64_t deadline,
		struct ln_meta_record *out);
void ln_meta_record_fini(struct ln_meta_record *r);

struct ln_meta_list {
	struct ln_meta_record *records; /* sorted by key */
	size_t count;
	uint64_t revision; /* of the store when listed: watch from here + 1 */
};
int ln_meta_list(struct ln_meta *m, const char *prefix, uint64_t deadline,
		 struct ln_meta_list *out);
void ln_meta_list_fini(struct ln_meta_list *l);

struct ln_meta_put {
	const char *key;
	const void *value;
	size_t value_len;
	uint64_t lease; /* 0: none */
};
int ln_meta_put(struct ln_meta *m, const struct ln_meta_put *p,
		uint64_t deadline);
/*
 * Put only if the record's mod_rev is `expect` (0: only if it does not exist).
 * *out_rev gets the new mod_rev; may be NULL.
 */
int ln_meta_cas(struct ln_meta *m, const struct ln_meta_put *p,
		uint64_t expect, uint64_t deadline, uint64_t *out_rev);
/* expect 0: whatever it is.  Deleting what is not there is NOTFOUND. */
int ln_meta_delete(struct ln_meta *m, const char *key, uint64_t expect,
		   uint64_t deadline);

/*
 * A lease of ttl_ms (at least 1000), kept alive by the client's own timer at
 * a third of it until lease_close.  When keepalive could not be delivered in
 * time the lease is lost: `lost` (may be NULL) is called once, from the
 * client's thread, and puts with it fail with NOTFOUND.
 */
int ln_meta_lease_open(struct ln_meta *m, int ttl_ms,
		       void (*lost)(void *arg, uint64_t lease), void *arg,
		       uint64_t deadline, uint64_t *out);
/* Revoke: its records disappear now. */
int ln_meta_lease_close(struct ln_meta *m, uint64_t lease, uint64_t deadline);

struct ln_meta_event {
	bool deleted; /* then value is empty */
	struct ln_meta_record record;
};
/*
 * Every change of records with this prefix at revision >= from_rev, in order,
 * none lost, reconnecting underneath.  from_rev is a list's revision + 1.
 */
int ln_meta_watch_open(struct ln_meta *m, const char *prefix,
		       uint64_t from_rev, struct ln_meta_watch **out);
/* TIMEOUT when none came; COMPACTED ends the watch. fini the record. */
int ln_meta_watch_next(struct ln_meta_watch *w, uint64_t deadline,
		       struct ln_meta_event *out);
void ln_meta_watch_close(struct ln_meta_watch *w); /* wakes a waiting next */

/* ---- the embedded server ------------------------------------------------ */

struct ln_meta_server_opts {
	const char *host; /* NULL: loopback; "0.0.0.0", "::" or an address */
	int port;	  /* 0: any */
	/* A client must prove this key (HMAC challenge) when it is not NULL. */
	const uint8_t *key;
	size_t max_bytes; /* of all records; 0: 1 GiB */
};
/* Serves from its own thread until stop. */
int ln_meta_server_start(const struct ln_meta_server_opts *o,
			 struct ln_meta_server **out);
int ln_meta_server_port(const struct ln_meta_server *s);
void ln_meta_server_stop(struct ln_meta_server *s);
/* The key that embedded clients of this process prove; NULL forgets. */
void ln_meta_set_key(struct ln_meta *m, const uint8_t *key);

#endif
