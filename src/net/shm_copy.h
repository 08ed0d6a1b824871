/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into memory that a peer maps: for puts, also the inline ones of rma.
 */
#ifndef LN_NET_SHM_COPY_H
#define LN_NET_SHM_COPY_H

#include <stddef.h>
#include <string.h>

/*
 * From here on the stores go around the cache.  GB/s into a mapped memfd,
 * memcpy against streaming, both cores loaded (L2 2 MiB a core, L3 260 MiB):
 * hot 1 MiB 25 / 16, 4 MiB 14 / 16, 16 MiB 9 / 14, 64 MiB 4.5 / 8; cold 7 /
 * 9.5 at any size.  So: twice the L2.  The C library begins at three quarters
 * of L3, which on such a machine is never.
 */
#define LN_SHM_STREAM_BYTES (4u << 20)

void ln_shm_copy_stream(void *dst, const void *src, size_t bytes);

/*
 * dst is read by one other process, and not soon by this one.  All bytes are
 * visible before any later store, as with memcpy.  Not for data that many
 * readers share: they would all go to memory for it.
 */
static inline void ln_shm_copy(void *dst, const void *src, size_t bytes)
{
	if (bytes < LN_SHM_STREAM_BYTES)
		memcpy(dst, src, bytes);
	else
		ln_shm_copy_stream(dst, src, bytes);
}

#endif
