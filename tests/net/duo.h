/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two (or more) nets in one process, each with its own configuration and
 * memory table, so that a test sees both ends.
 */
#ifndef LUNE_TESTS_NET_DUO_H
#define LUNE_TESTS_NET_DUO_H

#include <sys/socket.h>

#include "tests/harness/unit.h"

#include "net/internal.h"

struct node_opts {
	const char *transports; /* NULL: "self,tcp" */
	const char *modes; /* of shm; NULL: all, "": frames over unix */
	int streams, heartbeat_ms, peer_timeout_ms, connect_timeout_ms;
	size_t slice;
	bool manual;
	int family;   /* keep only these loopback addresses in the card */
	uint8_t key;  /* of the job */
	struct ln_net_callbacks cb;
};

struct node {
	struct ln_config conf;
	struct ln_topo topo;
	struct ln_counters counters;
	struct ln_mem_table *mem;
	struct ln_net *net;
	struct ln_card card; /* as others shall see it */
	char *transports, *modes;
};

void node_open(struct node *n, const struct node_opts *o);
void node_close(struct node *n);

/* Memory of n, and how another aims at it. */
struct ln_region *node_alloc(struct node *n, size_t bytes, uint32_t rights);
void node_release(struct node *n, struct ln_region *r);
void node_ticket(struct node *n, const struct ln_region *r,
		 struct ln_ticket *out);
void node_attach(struct node *from, struct node *owner,
		 const struct ln_region *r, struct ln_rmem *out);

/* An op with its completion. */
struct job {
	struct ln_op op;
	struct ln_seg seg;
	_Atomic int done; /* times */
	int post_rc;
};
void job_put(struct job *j, struct ln_rmem *r, uint64_t off, void *from,
	     size_t bytes);
void job_get(struct job *j, struct ln_rmem *r, uint64_t off, void *to,
	     size_t bytes);
void job_list(struct job *j, struct ln_rmem *r, int kind,
	      struct ln_seg *segs, uint32_t n);
void job_signal(struct job *j, struct ln_rmem *r, uint64_t off, uint64_t value,
		int how);
void job_atomic(struct job *j, struct ln_rmem *r, uint64_t off, int how,
		uint64_t operand, uint64_t compare, uint64_t *old);
void job_msg(struct job *j, struct ln_peer *p, int chan, uint64_t arg,
	     const void *body, uint32_t bytes);
void job_post(struct job *j);
/* Wait and give the code. */
int job_wait(struct node *n, struct job *j);
int job_run(struct node *n, struct job *j);
/* Wait until *word >= value. */
void word_wait(struct node *n, const void *word, uint64_t value);

void fill(void *p, size_t bytes, uint64_t seed);
/* Index of the first wrong byte, or bytes. */
size_t verify(const void *p, size_t bytes, uint64_t seed);

#endif
