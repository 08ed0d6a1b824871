/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of topo share.  Every path is below a root that tests give. */
#ifndef LN_TOPO_INTERNAL_H
#define LN_TOPO_INTERNAL_H

#include "topo/topo.h"

/* ---- hw.c: the only file that knows hwloc -------------------------------- */

#define LN_HW_NODES_MAX 64

/* Which NUMA nodes exist, and which hold processors we may run on. */
struct ln_hw_nodes {
	int count;
	int ids[LN_HW_NODES_MAX];
	bool ours[LN_HW_NODES_MAX];
};
void ln_hw_read(struct ln_topo *out, struct ln_hw_nodes *nodes);

/* ---- sysfs.c: small files ------------------------------------------------ */

/*
 * First line of a file, without the newline; false (out is "") when it cannot
 * be read.  The path is printf-like.
 */
struct ln_line {
	char text[256];
};
bool ln_sysfs_line(struct ln_line *out, const char *fmt, ...) LN_PRINTF(2, 3);
bool ln_sysfs_number(long long *out, const char *fmt, ...) LN_PRINTF(2, 3);
/* "Name:   123 kB" of /proc/meminfo-like files, in bytes (no unit: count). */
uint64_t ln_sysfs_meminfo(const char *path, const char *name);
/* numa and distance of a NIC whose pci is known; leaves -1 when unknown. */
void ln_sysfs_nic_place(const char *sys, const struct ln_hw_nodes *nodes,
			struct ln_topo_nic *nic);
/* rdma of the NICs, from <sys>/class/infiniband. */
void ln_sysfs_rdma(const char *sys, struct ln_topo *topo);

/* ---- nics.c, select.c ---------------------------------------------------- */

void ln_nics_read(const char *sys, const struct ln_hw_nodes *nodes,
		  struct ln_topo *out);
/* Set `selected` of every NIC from the text of LUNE_NET_DEVICES, and warn. */
void ln_select_nics(const char *filter, struct ln_topo *topo);
/* Best first: see select.c. */
void ln_select_sort(struct ln_topo *topo);

#endif
