/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this build, this machine and this environment are, as Lune sees them:
 * what lune-info prints.  Nothing here joins a world or opens a connection.
 *
 * Structs begin with `size`, set by the caller to sizeof, so that they can
 * grow.  What is not known is 0, "" or -1.
 */
#ifndef LUNE_INFO_H
#define LUNE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lune/ctx.h>
#include <lune/decls.h>

LUNE_DECLS_BEGIN

/* The version of these headers. */
#define LUNE_VERSION_MAJOR 0
#define LUNE_VERSION_MINOR 1
#define LUNE_VERSION_PATCH 0

/* The version of the library, "0.1.0"; static storage.  Any thread. */
const char *lune_version(void);

/* Optional parts: i from 0 until it returns false.  Static strings. */
struct lune_info_feature {
	size_t size;
	const char *name; /* "pmix" */
	const char *what; /* what it is good for */
	bool built;
};
bool lune_info_feature(int i, struct lune_info_feature *out);

typedef struct lune_info lune_info;

/*
 * Read configuration and topology, and choose a bootstrap as lune_ctx_open
 * would with that URL (NULL: LUNE_BOOTSTRAP, else detect).  LUNE_ERR_INVAL: a
 * LUNE_* variable has a bad value.  Close it with lune_info_close; the
 * functions below may be called by any thread.
 */
int lune_info_open(const char *bootstrap, lune_info **out);
void lune_info_close(lune_info *info); /* NULL is fine */

struct lune_info_machine {
	size_t size;
	char host[256];
	char node[256];	   /* LUNE_NODE, or the host */
	char identity[33]; /* same text: shared memory is possible */
	char cpu[128];
	int cores;	   /* of the machine */
	int allowed_cores; /* this process may run on */
	int numa_nodes;
	uint64_t memory_bytes, page_bytes, l3_bytes;
	uint64_t huge_page_bytes, huge_pages_free;
};
void lune_info_machine(const lune_info *info, struct lune_info_machine *out);

/* Network devices, best first: i from 0 until it returns false. */
#define LUNE_INFO_ADDRS_MAX 8
struct lune_info_nic {
	size_t size;
	char name[32];
	char pci[16];	/* "0000:3b:00.0" */
	char rdma[32];	/* RDMA device over it */
	int speed_mbps;
	int numa;
	int hops;	/* from this process's cores */
	bool up, loopback;
	bool selected;	/* LUNE_NET_DEVICES lets it through */
	int naddrs;
	char addrs[LUNE_INFO_ADDRS_MAX][72]; /* "10.0.0.1", "[fe80::1%eth0]" */
};
bool lune_info_nic(const lune_info *info, int i, struct lune_info_nic *out);

struct lune_info_bootstrap {
	size_t size;
	int code;	/* LUNE_OK, or why none can be chosen */
	char url[1024];
	char why[512];	/* a sentence */
};
void lune_info_bootstrap(const lune_info *info,
			 struct lune_info_bootstrap *out);

/* LUNE_* variables: i from 0 until it returns false. */
struct lune_info_config {
	size_t size;
	const char *name, *type, *def, *help; /* static */
	const char *source; /* "default" or "environment" */
	char value[256];
};
bool lune_info_config(const lune_info *info, int i,
		      struct lune_info_config *out);

/* Counters of a context: i from 0 until it returns false. */
struct lune_info_counter {
	size_t size;
	const char *name, *help; /* static */
	uint64_t value;
};
bool lune_info_counter(lune_ctx *ctx, int i, struct lune_info_counter *out);

LUNE_DECLS_END

#endif
