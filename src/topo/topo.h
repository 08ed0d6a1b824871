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
	bool bridge;	      /* a software bridge (container engines) */
	int naddrs;
	struct sockaddr_storage addrs[LN_TOPO_ADDRS_MAX]; /* v4, v6 (global
		 before link-local, scope id set) */
};

struct ln_topo {
	char host[256];
	char node_name[256];	/* LUNE_NODE, or host */
	uint64_t node[2];	/* identity: same value = same node */
	/* Cores of the machine, and those this thread may run on. */
	int cores, allowed_cores, numa_nodes;
	uint64_t memory_bytes, page_bytes, huge_page_bytes, huge_pages_free;
	uint64_t l3_bytes;
	char cpu[128];
	int nnics;
	struct ln_topo_nic nics[LN_TOPO_NICS_MAX]; /* best first */
};

/*
 * Node identity: a hash of boot id, network namespace and LUNE_NODE.  Two
 * processes with the same identity can reach each other by an abstract unix
 * socket (but see topo.c for cloned virtual machines).  LUNE_NODE makes one
 * node look like several, never two like one.  conf gives node, net_devices.
 * What a machine does not tell is 0, "" or -1; fails only for a bad conf.
 */
int ln_topo_read(const struct ln_config *conf, struct ln_topo *out);
/*
 * Bind [addr, addr+bytes) to a NUMA node (its number in the system), moving
 * what is there; LUNE_OK without a call when there is only one.
 */
int ln_topo_bind_memory(void *addr, size_t bytes, int numa);
/* "10.0.0.1", "[fe80::1%eth0]"; with ":port" when port > 0. */
void ln_topo_addr_text(const struct sockaddr_storage *a, int port, char *out,
		       size_t cap);

#endif
