/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of PyTorch's TCPStore, as little of it as torch.c needs.  One
 * connection, blocking, each call with a deadline.  After any error the
 * connection is to be closed: it may stand in the middle of an answer.
 */
#ifndef LN_BOOT_TCPSTORE_H
#define LN_BOOT_TCPSTORE_H

#include "boot/internal.h"

#define LN_STORE_VALUE_MAX (8u << 20) /* what PyTorch's own server takes */
#define LN_STORE_BATCH 64

struct ln_store_bytes {
	const void *p;
	size_t len;
};

/* The keys prefix0 ... prefixN of ranks first to first + count - 1. */
struct ln_store_keys {
	const char *prefix;
	int first, count;
};

/*
 * Connect, and find out whether a TCPStore that we understand answers: PROTO
 * or PEER when not, UNREACHABLE or TIMEOUT when nobody does.
 */
int ln_store_open(const char *host, int port, const char *probe_key,
		  uint64_t deadline, int *out);
int ln_store_set(int fd, const char *key, struct ln_store_bytes value,
		 uint64_t deadline);
/* Creates the record when there is none. */
int ln_store_append(int fd, const char *key, struct ln_store_bytes value,
		    uint64_t deadline);
/* A record that exists (check first); *out is ln_free'd by the caller. */
int ln_store_get(int fd, const char *key, uint64_t deadline,
		 struct ln_boot_card *out);
/* count <= LN_STORE_BATCH values, each 1 to LN_CARD_MAX bytes, into out[]. */
int ln_store_get_cards(int fd, const struct ln_store_keys *keys,
		       uint64_t deadline, struct ln_boot_card *out);
/* Do all exist? */
int ln_store_check(int fd, const struct ln_store_keys *keys, uint64_t deadline,
		   bool *out);
/* Until all exist. */
int ln_store_wait(int fd, const struct ln_store_keys *keys, uint64_t deadline);

/* ---- parsers, apart for the fuzzer -------------------------------------- */

/*
 * count values (u64 length, bytes) from the beginning of p: spans of p into
 * out[].  AGAIN: more bytes are needed.  PROTO: a length is over max, or bytes
 * follow the last.
 */
int ln_store_parse(const uint8_t *p, size_t len, size_t max, size_t count,
		   struct ln_store_bytes *out);

#endif
