/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages: shared (memfd) and private.  Used inside mem and for net's control
 * memory and rings.
 */
#ifndef LN_MEM_ALLOC_H
#define LN_MEM_ALLOC_H

#include "mem/mem.h"

/*
 * Zeroed pages behind a file that another process can map: a memfd sealed
 * against shrinking and growing, or an unlinked file in /dev/shm where memfd
 * is forbidden (its space is taken at once: no SIGBUS later).  Not populated.
 * LUNE_ERR_UNSUPPORTED: neither works here.
 */
int ln_alloc_shared(const char *name, size_t bytes, int *fd, void **out);
int ln_alloc_private(size_t bytes, void **out);
/* As lune_mem_alloc wants it; *fd is -1 for private memory. */
int ln_alloc_region(const struct ln_config *conf, size_t bytes,
		    const struct ln_alloc_how *how, int *fd, void **out);

#endif
