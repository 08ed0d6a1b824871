/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem: local memory that peers may reach: the region table, generations,
 * rights, and tickets.  Knows nothing of peers or transports; net asks it
 * "may this access happen, and where is it".
 *
 * The table has LN_REGIONS_MAX slots.  A region's key is (generation << 32 |
 * slot).  Generations of live regions are odd, of free slots even; they only
 * grow, and a slot whose generation would wrap is never used again.  The
 * generations lie in the *directory*: a sealed memfd that peers of the node
 * map read-only, so that they can check a key with one load (private memory
 * where there is no memfd).
 */
#ifndef LN_MEM_H
#define LN_MEM_H

#include "base/base.h"
#include "topo/topo.h"

#define LN_REGIONS_MAX 65536

struct ln_directory {
	uint32_t magic, version;
	uint8_t pad[56];
	_Atomic uint32_t gen[LN_REGIONS_MAX];
};

struct ln_region {
	uint64_t key;
	char *addr;
	size_t bytes;
	uint32_t rights; /* LUNE_MEM_* */
	int fd;		 /* memfd behind it (mapping offset 0), or -1 */
	bool ours;	 /* allocated: unmap at release */
	_Atomic uint32_t users; /* target-side accesses in progress (tcp) */
	_Atomic bool revoked;	/* somebody may wait for users to be 0 */
	struct ln_mem_table *table;
};

struct ln_mem_table;
int ln_mem_table_open(const struct ln_config *conf, const struct ln_topo *topo,
		      struct ln_mem_table **out);
void ln_mem_table_close(struct ln_mem_table *t); /* frees what is left */
struct ln_directory *ln_mem_directory(struct ln_mem_table *t);
int ln_mem_directory_fd(struct ln_mem_table *t); /* -1: not shareable */
/* Regions that exist (lune_ctx_close refuses while there are any). */
unsigned ln_mem_count(struct ln_mem_table *t);

struct ln_alloc_how {
	uint32_t rights;
	int numa; /* -1: do not bind */
	bool shareable;
};
int ln_mem_alloc(struct ln_mem_table *t, size_t bytes,
		 const struct ln_alloc_how *how, struct ln_region **out);
int ln_mem_register(struct ln_mem_table *t, void *addr, size_t bytes,
		    uint32_t rights, struct ln_region **out);
/*
 * Release, step 1: bump the generation, so that new accesses are refused.
 * Idempotent.  Step 2 is net's (wait for those under way), step 3 frees.
 */
void ln_mem_revoke(struct ln_mem_table *t, struct ln_region *r);
void ln_mem_free(struct ln_mem_table *t, struct ln_region *r);
/*
 * Call fn when the last pin of a revoked region is gone, so that who waits
 * for that is woken; also for a pin that came too late and lasted no longer
 * than its check.  Any thread; must not block.  Set before the first revoke.
 */
void ln_mem_on_idle(struct ln_mem_table *t, void (*fn)(void *arg), void *arg);

/*
 * Target side of an access: check key, rights and bounds, pin the region
 * against step 3 and give its address.  LUNE_ERR_STALE, LUNE_ERR_ACCESS,
 * LUNE_ERR_BOUNDS (nothing is pinned then).  Any thread, no lock: pin first,
 * then re-check the generation.
 */
struct ln_access {
	uint64_t key, offset, bytes;
	uint32_t rights;
};
int ln_mem_pin(struct ln_mem_table *t, const struct ln_access *a,
	       struct ln_region **out, char **addr);
void ln_mem_unpin(struct ln_region *r);
/* Still the generation it was pinned with? */
bool ln_mem_valid(struct ln_mem_table *t, uint64_t key);

/* ---- tickets ------------------------------------------------------------- */

/* The owner's part of a ticket is its packed card (net/card.h), opaque here. */
struct ln_ticket {
	uint64_t key, base, bytes; /* base: address in the owner, for CMA */
	uint32_t rights;
	bool shareable; /* a memfd is behind it */
	uint16_t card_len;
	uint8_t card[768];
};
/* Versioned, length-checked, with a checksum.  At most LUNE_TICKET_MAX. */
int ln_ticket_pack(const struct ln_ticket *t, void *out, size_t cap,
		   size_t *bytes);
int ln_ticket_unpack(const void *p, size_t bytes, struct ln_ticket *out);

#endif
