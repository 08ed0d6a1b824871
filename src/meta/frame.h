/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of the embedded server: one layout for all frames, so that one
 * small parser checks everything that either side is sent.  Little-endian:
 *
 *	0      4     5     6        8           12  20  28  36
 *	| size | type| flag| key_len| value_len | a | b | c | key | value |
 *
 * size counts what follows it and must be exactly 32 + key_len + value_len.
 *
 *	server                                client
 *	HELLO nonce, a=store b=version ->
 *	                                   <- PROOF nonce + mac, b=version
 *	WELCOME mac ->
 *	                                   <- GET, LIST, PUT, ...
 *	RECORD..., then END or STATUS ->
 *	                                   <- WATCH
 *	STATUS, then RECORD... for ever ->
 *
 * A client sends one request and reads its answer to the end.  After WATCH the
 * connection is the watch's.
 */
#ifndef LN_META_FRAME_H
#define LN_META_FRAME_H

#include "meta/meta.h"

#define LN_META_FRAME_HEAD 36
#define LN_META_FRAME_MAX \
	(LN_META_FRAME_HEAD + LN_META_KEY_MAX + LN_META_VALUE_MAX)
/* "LUNM", version 1. */
#define LN_META_FRAME_VERSION 0x4c554e4d00000001ull
#define LN_META_NONCE_BYTES 16

enum ln_meta_frame_type {
	LN_META_HELLO = 1, /* flag: the key must be proven */
	LN_META_PROOF,
	LN_META_WELCOME,
	LN_META_GET,
	LN_META_LIST,	     /* key: prefix */
	LN_META_PUT,	     /* a lease, flag: compare with b */
	LN_META_DELETE,	     /* flag: compare with b */
	LN_META_LEASE_OPEN,  /* a ttl in ms */
	LN_META_LEASE_KEEP,  /* a lease */
	LN_META_LEASE_CLOSE, /* a lease */
	LN_META_WATCH,	     /* key: prefix, a from_rev, b store or 0 */
	LN_META_STATUS,	     /* a revision or lease, b code, value sentence */
	LN_META_RECORD,	     /* a create_rev, b mod_rev, flag: deleted */
	LN_META_END,	     /* of a list: a revision */
	LN_META_TYPES
};

struct ln_meta_frame {
	uint8_t type, flag;
	uint64_t a, b, c;
	const char *key; /* key_len bytes without NUL, not terminated */
	size_t key_len;
	const uint8_t *value;
	size_t value_len;
};

/*
 * Parse one frame from the front of n bytes: its whole length when it is
 * there, 0 when more bytes are needed, PROTO when it never will be one of at
 * most max bytes.  *out points into p.
 */
int ln_meta_frame_parse(const uint8_t *p, size_t n, size_t max,
			struct ln_meta_frame *out);
/* Length of the frame that f makes. */
size_t ln_meta_frame_bytes(const struct ln_meta_frame *f);
/* Write it; p has room for ln_meta_frame_bytes(f). */
void ln_meta_frame_write(const struct ln_meta_frame *f, uint8_t *p);

/* What proves the key: by the server (from = 's') or the client ('c'). */
void ln_meta_frame_proof(const uint8_t key[LN_KEY_BYTES], char from,
			 const uint8_t nonces[2 * LN_META_NONCE_BYTES],
			 uint8_t mac[LN_MAC_BYTES]);

#endif
