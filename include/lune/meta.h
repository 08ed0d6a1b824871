/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded metadata server: named records with leases and watches, for
 * jobs that have no etcd.  lune-info meta-serve runs it alone; a program may
 * also serve from its own process.
 */
#ifndef LUNE_META_H
#define LUNE_META_H

#include <stddef.h>
#include <stdint.h>

#include <lune/decls.h>

LUNE_DECLS_BEGIN

typedef struct lune_meta_server lune_meta_server;

struct lune_meta_server_opts {
	size_t size;	      /* sizeof(struct lune_meta_server_opts) */
	const char *host;     /* NULL: loopback only; "0.0.0.0", "::", ... */
	int port;	      /* 0: any free one */
	/*
	 * Clients must prove that they have the same file (LUNE_JOB_KEY_FILE).
	 * NULL: whoever reaches the port may read and write.
	 */
	const char *key_file;
	uint64_t max_bytes;   /* of all records; 0: 1 GiB */
};

/*
 * Serve from a thread of its own until closed.  opts may be NULL.  Errors:
 * LUNE_ERR_INVAL (host, port or key file), LUNE_ERR_SYSTEM (the port is
 * taken), LUNE_ERR_NOMEM.
 */
int lune_meta_server_open(const struct lune_meta_server_opts *opts,
			  lune_meta_server **out);
int lune_meta_server_port(const lune_meta_server *server);
/* Clients see it go.  No other thread may use the server.  NULL is fine. */
void lune_meta_server_close(lune_meta_server *server);

LUNE_DECLS_END

#endif
