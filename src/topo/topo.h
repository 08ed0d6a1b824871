/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topo: what this machine looks like: node identity, cores, NUMA nodes,
 * network interfaces with speed and distance.  Read once at context start;
 * no hwloc type leaves this folder.
 */
#ifndef LN_TOPO_H
#define LN_TOPO_H

#include <sys/socket.h>

#include "base/base.h"

#define LN_TOPO_NICS_MAX 64
#define LN_TOPO_ADDRS_MAX 8

struct ln_topo_nic {
	char name[32];
	char pci[16];	      /* "0000:3b:00.0" or "" for a virtual one */
	char rdma[32];	      /* ibverbs device over it, or "" */
	int speed_mbps;	      /* 0: unknown */
	int numa;	      /* -1: unknown */
	int distance;	      /* hops from this process's cpuset, -1 unknown */
	bool up, loopback, selected; /* selected: passes LUNE_NET_DEVICES */
	int naddrs;
	struct sockaddr_storage addrs[LN_TOPO_ADDRS_MAX]; /* v4, v6 (global
		 before link-local, scope id set) */
};

struct ln_topo {
	char host[256];
	char node_name[256];	/* LUNE_NODE, or host */
	uint64_t node[2];	/* identity: same value = same node */
	int cores, allowed_cores, numa_nodes;
	uint64_t memory_bytes, page_bytes, huge_page_bytes, huge_pages_free;
	uint64_t l3_bytes;
	char cpu[128];
	int nnics;
	struct ln_topo_nic nics[LN_TOPO_NICS_MAX]; /* best first */
};

/*
 * Node identity: LUNE_NODE when set, else a hash of boot id, the mount of
 * /proc's pid namespace and the network namespace's abstract-socket scope:
 * two processes with the same identity can reach each other by an abstract
 * unix socket.  conf gives node and net_devices.
 */
int ln_topo_read(const struct ln_config *conf, struct ln_topo *out);
/* Bind [addr, addr+bytes) to a NUMA node; 0 when there is only one. */
int ln_topo_bind_memory(void *addr, size_t bytes, int numa);
/* The address of NIC text "10.0.0.1" or "[fe80::1%eth0]"; with port when > 0. */
void ln_topo_addr_text(const struct sockaddr_storage *a, int port, char *out,
		       size_t cap);

#endif
