/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that peers may reach, and the tickets that let them.
 *
 *   owner:  lune_mem_alloc / lune_mem_register -> lune_mem_ticket -> bytes
 *   peer:   bytes -> lune_rmem_attach -> lune_rmem, the target of put and get
 *
 * A ticket may travel by any way (a message, etcd, a file) and stays valid
 * until the memory is released or the owner dies; after that it is refused
 * (LUNE_ERR_STALE, LUNE_ERR_PEER), never silently wrong.
 */
#ifndef LUNE_MEM_H
#define LUNE_MEM_H

#include <lune/comm.h>
#include <lune/decls.h>

LUNE_DECLS_BEGIN

typedef struct lune_mem lune_mem;
typedef struct lune_rmem lune_rmem;
typedef struct lune_win lune_win;

/* Rights a ticket grants. */
#define LUNE_MEM_READ 1u
#define LUNE_MEM_WRITE 2u
#define LUNE_MEM_ATOMIC 4u /* remote atomics and signals */
#define LUNE_MEM_ALL 7u

struct lune_mem_opts {
	size_t size;	 /* sizeof(struct lune_mem_opts) */
	unsigned rights; /* 0: LUNE_MEM_ALL */
	bool bind;	 /* alloc: bind to NUMA node `numa` */
	int numa;
	bool private_memory; /* alloc: not shareable by mapping */
};

/*
 * Allocate `bytes` (> 0) of zeroed, populated, page-aligned memory that peers
 * on the node can map (memfd).  This is the fast kind.  opts may be NULL.
 * The memory is the mem's and goes with lune_mem_release.
 */
int lune_mem_alloc(lune_ctx *ctx, size_t bytes,
		   const struct lune_mem_opts *opts, lune_mem **out);
/*
 * Let peers reach memory of yours, [addr, addr + bytes).  It must stay mapped
 * until lune_mem_release has returned LUNE_OK.
 */
int lune_mem_register(lune_ctx *ctx, void *addr, size_t bytes,
		      const struct lune_mem_opts *opts, lune_mem **out);
void *lune_mem_addr(const lune_mem *mem);
size_t lune_mem_bytes(const lune_mem *mem);

/*
 * Revoke all tickets and return when no remote access can touch the memory
 * any more.  LUNE_ERR_TIMEOUT: a peer (named) is still in the middle of an
 * access; the tickets are revoked, but the memory is still held: call again.
 */
int lune_mem_release(lune_mem *mem, int timeout_ms);

#define LUNE_TICKET_MAX 1024
/* Write the ticket (at most LUNE_TICKET_MAX bytes); *bytes gets its length. */
int lune_mem_ticket(const lune_mem *mem, void *out, size_t cap, size_t *bytes);

/*
 * Aim at the memory a ticket names.  Does not wait for a connection: that
 * comes with the first use.  LUNE_ERR_INVAL: not a ticket or damaged;
 * LUNE_ERR_UNSUPPORTED: of a newer version.  ctx: ours.
 */
int lune_rmem_attach(lune_ctx *ctx, const void *ticket, size_t bytes,
		     lune_rmem **out);
/* Outstanding operations go on; never waits.  NULL is fine. */
void lune_rmem_detach(lune_rmem *rmem);
size_t lune_rmem_bytes(const lune_rmem *rmem);
unsigned lune_rmem_rights(const lune_rmem *rmem);
/* "self", "shm/map", "shm/cma", "shm/ring", "tcp", ...; connects if needed. */
int lune_rmem_route(lune_rmem *rmem, int timeout_ms, char *out, size_t cap);
/*
 * The peer's memory itself where it is mapped here (shm/map, self), for load
 * and store; NULL elsewhere.  Connects if needed.
 */
void *lune_rmem_pointer(lune_rmem *rmem, int timeout_ms);

/*
 * Window: one lune_mem per rank, all tickets exchanged in one allgather.
 * mem may be NULL (this rank shares nothing).  Closing is not collective and
 * does not release the memory.
 */
int lune_win_open(lune_comm *comm, lune_mem *mem, int timeout_ms,
		  lune_win **out);
/* The window's part on `rank`; NULL if it shares nothing. Owned by the win. */
lune_rmem *lune_win_rmem(const lune_win *win, int rank);
void lune_win_close(lune_win *win);

LUNE_DECLS_END
#endif
