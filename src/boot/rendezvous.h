/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between tcp.c (every rank) and tcp_server.c (in rank 0).
 *
 *	rank                        server
 *	HELLO  ------------------->
 *	       <------------------- CHALLENGE   only with a key file
 *	PROOF  ------------------->
 *	       <------------------- WELCOME     joined
 *	CARD   ------------------->
 *	       <------------------- ALL         when all cards are there
 *	       <------------------- ERROR       instead of any of the above
 *
 * A message is a head (magic, version, type, 0, payload length) and a payload,
 * little endian.  What does not begin with a valid HELLO is a stranger, and
 * dropped without an answer.
 */
#ifndef LN_BOOT_RENDEZVOUS_H
#define LN_BOOT_RENDEZVOUS_H

#include "boot/internal.h"

#define LN_RDV_MAGIC 0x54424e4cu /* "LNBT" */
#define LN_RDV_VERSION 1
#define LN_RDV_HEAD 12
#define LN_RDV_NONCE 16
#define LN_RDV_IN_MAX (LN_CARD_MAX + 256)  /* payload to the server */
#define LN_RDV_SENTENCE 768
#define LN_RDV_OUT_MAX (LN_RDV_SENTENCE + 64) /* payload of all but ALL */

enum ln_rdv_type {
	LN_RDV_HELLO = 1,
	LN_RDV_CHALLENGE,
	LN_RDV_PROOF,
	LN_RDV_WELCOME,
	LN_RDV_CARD,
	LN_RDV_ALL,
	LN_RDV_ERROR,
};

struct ln_rdv_hello {
	uint32_t rank, size;
	uint64_t epoch;
	bool keyed;
	uint8_t nonce[LN_RDV_NONCE];
	char job[LN_BOOT_JOB_MAX];
};
void ln_rdv_hello_pack(struct ln_pack *k, const struct ln_rdv_hello *h);
void ln_rdv_hello_unpack(struct ln_unpack *u, struct ln_rdv_hello *h);

void ln_rdv_head_pack(struct ln_pack *k, int type, uint32_t len);
/* false: not our protocol. */
bool ln_rdv_head_unpack(const uint8_t head[LN_RDV_HEAD], int *type,
			uint32_t *len);
/* A whole message into buf; returns its length. */
size_t ln_rdv_frame(uint8_t *buf, size_t cap, int type, const void *payload,
		    size_t len);
/*
 * The proof of the key by one side ("rank" or "server"), over everything that
 * HELLO said and both nonces, so that none can be replayed or turned around.
 */
void ln_rdv_proof(const uint8_t key[LN_KEY_BYTES], const char *side,
		  const struct ln_rdv_hello *h,
		  const uint8_t nonce[LN_RDV_NONCE],
		  uint8_t mac[LN_MAC_BYTES]);

struct ln_rdv_server;
struct ln_rdv_server_opts {
	const struct ln_boot *b; /* of rank 0: size, epoch, job, key */
	int listen_fd; /* taken over */
	int own_fd;    /* taken over: rank 0's own connection */
};
int ln_rdv_server_start(const struct ln_rdv_server_opts *o,
			struct ln_rdv_server **out);
/* Until the deadline, what was promised is still sent; then it ends. */
void ln_rdv_server_stop(struct ln_rdv_server *s, uint64_t deadline);

#endif
