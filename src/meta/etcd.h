/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the etcd backend share. */
#ifndef LN_META_ETCD_H
#define LN_META_ETCD_H

#include "meta/etcd_http.h"

/* Base64 of a key and of the end of its prefix's range, to be put in JSON. */
#define LN_ETCD_KEY64 ((LN_META_KEY_MAX + 1 + 2) / 3 * 4 + 1)
void ln_etcd_key64(const void *p, size_t n, char out[LN_ETCD_KEY64]);
void ln_etcd_prefix64(const char *prefix, char from[LN_ETCD_KEY64],
		      char to[LN_ETCD_KEY64]);

int ln_etcd_watch_run(struct ln_meta_watch *w, size_t endpoint);

#endif
