/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP to one endpoint of etcd, over a connection that is kept. */
#ifndef LN_META_ETCD_HTTP_H
#define LN_META_ETCD_HTTP_H

#include <curl/curl.h>

#include "meta/internal.h"

struct ln_etcd_http {
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	size_t endpoint;
	char name[300]; /* "host:port" for messages */
	char base[320]; /* "http://host:port/v3/" */
	char error[CURL_ERROR_SIZE];

	char *answer; /* NUL-terminated */
	size_t len, cap;
	bool too_long;
	/*
	 * A stream: called in the midst of it with each line, NUL-terminated.
	 * Not 0 ends the stream, which then returns this code.
	 */
	int (*line)(void *arg, const char *p, size_t n);
	void *arg;
	int line_rc;
};

int ln_etcd_http_open(const struct ln_meta *m, size_t endpoint,
		      struct ln_etcd_http **out);
void ln_etcd_http_close(struct ln_etcd_http *h);

struct ln_etcd_request {
	const char *path, *body;
	uint64_t until;
	struct ln_meta_stop *stop;
	/* NULL, or a hint that must stay at our endpoint. */
	const _Atomic size_t *stay;
};
/*
 * POST and wait for the answer: 0 when it has status 200, the code for what
 * etcd answers otherwise, META when nobody answered.  *sent tells whether
 * etcd may have got the request.
 */
int ln_etcd_http_post(struct ln_etcd_http *h, const struct ln_etcd_request *r,
		      bool *sent);

#endif
