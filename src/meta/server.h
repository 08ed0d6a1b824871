/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the embedded server share: server.c has the thread
 * and the sockets, session.c what one client asks and is told.
 */
#ifndef LN_META_SERVER_H
#define LN_META_SERVER_H

#include "meta/frame.h"
#include "meta/internal.h"
#include "meta/store.h"

#define LN_META_CLIENTS_MAX 4096
/* Of all buffers together; a client that would exceed it is dropped. */
#define LN_META_BUFFERS_MAX (1ull << 30)

struct ln_meta_buf {
	uint8_t *p;
	size_t from, to, cap; /* what is in it: [from, to) */
};

struct ln_meta_session {
	struct ln_meta_server *server;
	int fd;
	uint32_t armed; /* epoll events asked for */
	bool welcome;	/* the key, if any, was proven */
	bool dead;	/* closed after this round */
	uint64_t since; /* waits for the rest of a frame since; 0: does not */
	uint8_t nonces[2 * LN_META_NONCE_BYTES];
	struct ln_meta_buf in, out;

	/* A list in progress: what is left of the snapshot. */
	struct ln_meta_version **list;
	size_t list_count, list_at;
	uint64_t list_rev;

	/* A watch: the next revision to tell of, 0: not a watch. */
	uint64_t watch_rev;
	char *watch_prefix;
	size_t watch_prefix_len;

	struct ln_meta_session *prev, *next;
};

struct ln_meta_server {
	struct ln_meta_store *store;
	int listen_fd, epoll_fd, port;
	bool has_key, accepting;
	uint8_t key[LN_KEY_BYTES];
	struct ln_meta_stop stop;
	pthread_t thread;
	struct ln_meta_session *sessions;
	size_t session_count;
	uint64_t buffer_bytes;
	uint64_t next_sweep;
};

/* ---- session.c: all of these may mark the session dead ------------------- */

/* Greet a client that has just connected. */
int ln_meta_session_open(struct ln_meta_server *s, int fd,
			 struct ln_meta_session **out);
void ln_meta_session_close(struct ln_meta_session *c);
/* Read what is there and serve it. */
void ln_meta_session_readable(struct ln_meta_session *c);
/* Write what is due: the rest of an answer, news of a watch. */
void ln_meta_session_flush(struct ln_meta_session *c);
/* The epoll events that the session waits for. */
uint32_t ln_meta_session_events(const struct ln_meta_session *c);

#endif
