/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of meta share: the table of a backend, the client that both
 * backends extend, attempts over endpoints, and the sink of a watch.  Keys are
 * whole here: meta.c has put the prefix of the URL before them.
 */
#ifndef LN_META_INTERNAL_H
#define LN_META_INTERNAL_H

#include <pthread.h>

#include "meta/meta.h"

#define LN_META_ENDPOINTS_MAX 8
#define LN_META_CAUSE_MAX 160
/* Records that one list may return: far above what a job writes. */
#define LN_META_RECORDS_MAX (1u << 20)

/* Asks a thread that waits in poll(2) to give up; fd becomes readable. */
struct ln_meta_stop {
	_Atomic bool on; /* set before fd is written, read after poll */
	int fd;
};
int ln_meta_stop_init(struct ln_meta_stop *s);
void ln_meta_stop_raise(struct ln_meta_stop *s);
void ln_meta_stop_fini(struct ln_meta_stop *s);

struct ln_meta_endpoint {
	char host[256];
	char port[8];
};

/* A put or delete, with or without a comparison. */
struct ln_meta_change {
	const char *key;
	const void *value;
	size_t value_len;
	uint64_t lease;
	bool compare;	 /* only if the record's mod_rev is expect */
	uint64_t expect; /* 0: only if there is no record */
	uint64_t rev;	 /* out: revision of the change */
	bool repeated;	 /* out: an earlier attempt may have been done, too */
};

/*
 * A backend.  Every function may be called by any thread, retries over the
 * endpoints until its deadline, and gives up early when `stop` (NULL: the
 * client's) is raised.
 */
struct ln_meta_ops {
	const char *scheme;
	const char *default_port;
	int (*open)(struct ln_meta *m);
	void (*close)(struct ln_meta *m);
	int (*get)(struct ln_meta *m, const char *key, uint64_t deadline,
		   struct ln_meta_record *out);
	int (*list)(struct ln_meta *m, const char *prefix, uint64_t deadline,
		    struct ln_meta_list *out);
	int (*put)(struct ln_meta *m, struct ln_meta_change *c,
		   uint64_t deadline);
	int (*del)(struct ln_meta *m, struct ln_meta_change *c,
		   uint64_t deadline);
	int (*lease_open)(struct ln_meta *m, int ttl_ms, uint64_t deadline,
			  uint64_t *out);
	int (*lease_keep)(struct ln_meta *m, uint64_t lease,
			  uint64_t deadline);
	int (*lease_close)(struct ln_meta *m, uint64_t lease,
			   uint64_t deadline);
	/*
	 * Connect and feed the watch from w->next_rev until it breaks (a code
	 * that ends it: COMPACTED, AUTH, INVAL, NOMEM; else it is tried again).
	 */
	int (*watch_run)(struct ln_meta_watch *w, size_t endpoint);
};
extern const struct ln_meta_ops ln_meta_embedded_ops;
extern const struct ln_meta_ops ln_meta_etcd_ops;

struct ln_meta_lease;
#define LN_META_IDLE_MAX 8

struct ln_meta {
	const struct ln_meta_ops *ops;
	char *prefix; /* put before every key */
	struct ln_meta_endpoint endpoints[LN_META_ENDPOINTS_MAX];
	size_t endpoint_count;
	_Atomic size_t endpoint; /* that answered last; a hint only */
	struct ln_meta_stop stop;

	/* Guards what follows; a leaf, never held over a wait for the net. */
	pthread_mutex_t lock;
	/* Connections that wait for the next call, of the backend's type. */
	void *idle[LN_META_IDLE_MAX];
	size_t idle_count;
	bool has_key;
	uint8_t key[LN_KEY_BYTES];

	/* lease.c */
	struct ln_meta_lease *leases;
	pthread_cond_t leases_changed;
	pthread_t keeper;
	bool keeper_runs;
	uint64_t calling; /* lease whose `lost` runs now, 0: none */
};

/* Take an idle connection, or NULL; give one back (false: no room). */
void *ln_meta_idle_take(struct ln_meta *m);
bool ln_meta_idle_give(struct ln_meta *m, void *connection);

/* A condition variable whose timed waits are on the monotonic clock. */
int ln_meta_cond_init(pthread_cond_t *c);
/* Wait until deadline at most; false when it has passed. */
bool ln_meta_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock,
		       uint64_t deadline);

/* ---- try.c: one call, several endpoints -------------------------------- */

struct ln_meta_try {
	struct ln_meta *m;
	struct ln_meta_stop *stop;
	uint64_t begun, deadline;
	size_t endpoint;
	unsigned attempts;
	int backoff_ms;
	bool sent; /* an attempt may have reached a server */
	char causes[LN_META_ENDPOINTS_MAX][LN_META_CAUSE_MAX];
};
void ln_meta_try_init(struct ln_meta_try *t, struct ln_meta *m,
		      uint64_t deadline);
/* When the attempt that starts now must end. */
uint64_t ln_meta_try_until(const struct ln_meta_try *t);
/*
 * After an attempt failed with LUNE_ERR_META: waits a little, turns to the
 * next endpoint and returns true; false when the deadline has passed or the
 * client is closed, with all causes in the thread's error.
 */
bool ln_meta_try_again(struct ln_meta_try *t);
/* After an attempt was answered: remember who answered. */
void ln_meta_try_done(struct ln_meta_try *t);
/* Wait ms at most; true when stop was raised. */
bool ln_meta_pause(struct ln_meta_stop *stop, int ms);

/* ---- lease.c ----------------------------------------------------------- */

void ln_meta_lease_stop(struct ln_meta *m); /* end the keeper, forget all */
/* Whether the client has declared this lease lost. */
bool ln_meta_lease_is_lost(struct ln_meta *m, uint64_t lease);

/* ---- watch.c ----------------------------------------------------------- */

struct ln_meta_queued;

struct ln_meta_watch {
	struct ln_meta *m;
	char *prefix; /* whole */
	pthread_t thread;
	struct ln_meta_stop stop;
	/* Of the thread: the first revision not yet delivered. */
	uint64_t next_rev;
	uint64_t store_id; /* 0: not known; what next_rev counts in */

	pthread_mutex_t lock; /* a leaf; guards what follows */
	pthread_cond_t changed;
	struct ln_meta_queued *queue;
	size_t queued_bytes;
	unsigned waiting; /* threads inside watch_next */
	bool closed;
	int status; /* not 0: the watch has ended, after the queue */
	char error[256];
};

/*
 * From the watch's thread: the next event in order.  Takes the record over
 * (also on failure) and waits while the queue is full.  Older revisions than
 * next_rev are dropped; next_rev moves on.  CANCELED when closed.
 */
int ln_meta_watch_push(struct ln_meta_watch *w, struct ln_meta_event *e);

/* ---- records ----------------------------------------------------------- */

/* Copies of key and value; on failure nothing is left in *r. */
int ln_meta_record_make(struct ln_meta_record *r, const char *key,
			size_t key_len, const void *value, size_t value_len);
/* Append *r (taken over also on failure) to the list. */
int ln_meta_list_add(struct ln_meta_list *l, struct ln_meta_record *r);

#endif
