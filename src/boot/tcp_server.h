/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between tcp_server.c (sockets, time) and tcp_rules.c (what messages mean):
 * the state of the rendezvous' server.
 */
#ifndef LN_BOOT_TCP_SERVER_H
#define LN_BOOT_TCP_SERVER_H

#include <pthread.h>

#include "boot/rendezvous.h"

#define LN_SERVER_STRANGER_MS 10000
#define LN_SERVER_STRANGERS 128
#define LN_SERVER_LINGER_MS 2000 /* for the last bytes of an answer */

enum ln_stage { LN_NEW, LN_CHALLENGED, LN_JOINED, LN_LEAVING };

struct ln_conn {
	struct ln_conn *prev, *next;
	int fd;
	enum ln_stage stage;
	uint64_t deadline; /* LN_NEW, LN_CHALLENGED, LN_LEAVING: drop then */
	struct ln_rdv_hello hello;
	uint8_t nonce[LN_RDV_NONCE];
	size_t in_len, out_len, out_at, all_at;
	bool sends_all, shut;
	uint8_t in[LN_RDV_HEAD + LN_RDV_IN_MAX];
	uint8_t out[2 * (LN_RDV_HEAD + LN_RDV_OUT_MAX)];
};

struct ln_rdv_server {
	const struct ln_boot *b; /* outlives the thread */
	int listen_fd, wake_fd;
	pthread_t thread;
	_Atomic bool stop;	/* pairs with the write to wake_fd */
	_Atomic uint64_t till;	/* after stop: when to end in any case */
	struct ln_conn *conns;
	int nconns, nstrangers;
	int size, ncards;
	struct ln_conn **rank_conn;
	bool *there; /* ranks whose card is here */
	uint64_t *answer_by; /* per rank, when there[] */
	struct ln_boot_card *cards;
	uint8_t *all;
	size_t all_len;
	char failed[LN_RDV_SENTENCE];
	int failed_code;
	struct pollfd *polls;
	size_t polls_cap;
};

/* Handle the messages in c->in; false: not one of us. */
bool ln_rules_parse(struct ln_rdv_server *s, struct ln_conn *c);
/* The connection of a rank ended. */
void ln_rules_left(struct ln_rdv_server *s, unsigned rank);
/* A rank's time is up and cards are missing. */
void ln_rules_late(struct ln_rdv_server *s);

#endif
