/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What etcd's JSON gateway answers.  Every function takes the bytes of an
 * answer, whoever sent them, and returns LUNE_ERR_PROTO (or LUNE_ERR_NOMEM)
 * when they are not what was asked for; *out is then untouched.
 */
#ifndef LN_META_ETCD_JSON_H
#define LN_META_ETCD_JSON_H

#include "meta/meta.h"

struct ln_meta_etcd_head {
	uint64_t revision, term;
};

/* The status code for an answer that is an error, and its sentence. */
int ln_meta_etcd_parse_error(const char *p, size_t n, char *why,
			     size_t why_bytes);

struct ln_meta_etcd_range {
	struct ln_meta_etcd_head head;
	struct ln_meta_list list; /* the caller's: ln_meta_list_fini */
	bool more;		  /* there are records behind these */
};
int ln_meta_etcd_parse_range(const char *p, size_t n,
			     struct ln_meta_etcd_range *out);

/* Of a put, a delete, or a transaction with one of these in it. */
struct ln_meta_etcd_change {
	struct ln_meta_etcd_head head;
	uint64_t deleted; /* records deleted */
	bool succeeded;	  /* of a transaction: the comparison held */
	bool found;	  /* it did not, and there is such a record */
};
int ln_meta_etcd_parse_change(const char *p, size_t n,
			      struct ln_meta_etcd_change *out);

/* Of lease/grant and, inside "result", lease/keepalive. */
struct ln_meta_etcd_lease {
	uint64_t id;
	uint64_t ttl_s; /* 0: the lease has ended */
};
int ln_meta_etcd_parse_lease(const char *p, size_t n,
			     struct ln_meta_etcd_lease *out);

/* One line of watch. */
struct ln_meta_etcd_news {
	struct ln_meta_etcd_head head;
	bool created, canceled;
	uint64_t compacted; /* canceled for this revision; 0: it was not */
	char why[128];
	struct ln_meta_event *events; /* the caller's: news_fini */
	size_t count;
};
int ln_meta_etcd_parse_news(const char *p, size_t n,
			    struct ln_meta_etcd_news *out);
void ln_meta_etcd_news_fini(struct ln_meta_etcd_news *n);

#endif
