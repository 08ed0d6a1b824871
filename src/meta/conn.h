/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connection to an embedded server. */
#ifndef LN_META_CONN_H
#define LN_META_CONN_H

#include "meta/frame.h"
#include "meta/internal.h"

struct ln_meta_conn {
	int fd;
	size_t endpoint;
	struct ln_meta_stop *stop; /* ends every wait */
	uint64_t store_id;	   /* of the store on the other side */
	char name[300];		   /* "host:port" for messages */
	uint8_t *in;		   /* read, not yet taken: [taken, got) */
	size_t taken, got, cap;
};

/*
 * Connect and prove the key.  LUNE_ERR_META with the cause when that was not
 * possible by `until`, LUNE_ERR_AUTH when the keys do not match.
 */
int ln_meta_conn_open(struct ln_meta *m, size_t endpoint, uint64_t until,
		      struct ln_meta_conn **out);
int ln_meta_conn_open_for(struct ln_meta *m, struct ln_meta_stop *stop,
			  size_t endpoint, uint64_t until,
			  struct ln_meta_conn **out);
void ln_meta_conn_close(struct ln_meta_conn *c);
/* Whether an idle connection still stands and nothing came unasked. */
bool ln_meta_conn_alive(const struct ln_meta_conn *c);
int ln_meta_conn_send(struct ln_meta_conn *c, const struct ln_meta_frame *f,
		      uint64_t until);
/* *out points into the connection until the next call. */
int ln_meta_conn_recv(struct ln_meta_conn *c, uint64_t until,
		      struct ln_meta_frame *out);

#endif
