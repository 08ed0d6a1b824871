/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces: addresses from getifaddrs, the rest from sysfs
 * (/sys/class/net/NAME/...): speed, the PCI device and its NUMA node, the
 * verbs device over it.
 *
 * Order: selected and up first, loopback last, then by speed, then by
 * distance, then by name, so that two runs agree.
 */
#include "topo/nic.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- sysfs ------------------------------------------------------------------------ */

static int sys_int(const char *nic, const char *file, int missing)
{
	char path[128], text[32];
	int value = missing;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", nic, file);
	f = fopen(path, "re");
	if (!f)
		return missing;
	if (fgets(text, sizeof(text), f))
		value = atoi(text);
	fclose(f);
	return value;
}

static void sys_pci(const char *nic, char *out, size_t cap)
{
	char path[128], target[PATH_MAX], *base;
	ssize_t n;

	out[0] = 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", nic);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = 0;
	base = strrchr(target, '/');
	if (base && strchr(base, ':'))
		snprintf(out, cap, "%.15s", base + 1);
}

static void sys_rdma(const char *nic, char *out, size_t cap)
{
	char path[128];
	struct dirent *e;
	DIR *d;

	out[0] = 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/infiniband",
		 nic);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(out, cap, "%.31s", e->d_name);
	if (d)
		closedir(d);
}

/* Hops between this process's processors and a NUMA node, as far as is seen. */
static int distance_to(const struct ln_topo *t, int numa)
{
	unsigned cpu, mine;

	if (numa < 0)
		return -1;
	if (t->numa_nodes < 2 || getcpu(&cpu, &mine))
		return 0;
	return mine == (unsigned)numa ? 0 : 1;
}

/* ---- addresses ---------------------------------------------------------------------- */

static bool link_local(const struct sockaddr *a)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

static void add_address(struct ln_topo_nic *nic, const struct sockaddr *a)
{
	size_t n = a->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					     sizeof(struct sockaddr_in6);
	int at = nic->naddrs;

	if (at == LN_TOPO_ADDRS_MAX)
		return;
	/* Link-local ones stay at the end. */
	while (!link_local(a) && at > 0 &&
	       link_local((struct sockaddr *)&nic->addrs[at - 1]))
		at--;
	memmove(&nic->addrs[at + 1], &nic->addrs[at],
		(size_t)(nic->naddrs - at) * sizeof(nic->addrs[0]));
	memset(&nic->addrs[at], 0, sizeof(nic->addrs[at]));
	memcpy(&nic->addrs[at], a, n);
	nic->naddrs++;
}

void ln_topo_addr_text(const struct sockaddr_storage *a, int port, char *out,
		       size_t cap)
{
	char text[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)a;

		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		if (port > 0)
			snprintf(out, cap, "%s:%d", text, port);
		else
			snprintf(out, cap, "%s", text);
		return;
	}
	if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;

		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
		if (six->sin6_scope_id) {
			scope[0] = '%';
			if (!if_indextoname(six->sin6_scope_id, scope + 1))
				scope[0] = 0;
		}
	}
	if (port > 0)
		snprintf(out, cap, "[%s%s]:%d", text, scope, port);
	else
		snprintf(out, cap, "[%s%s]", text, scope);
}

/* ---- LUNE_NET_DEVICES ------------------------------------------------------------------ */

static bool named(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; *p; p += strcspn(p, ",")) {
		if (*p == ',')
			p++;
		if (strcspn(p, ",") == n && !strncmp(p, name, n))
			return true;
		if (!*p)
			break;
	}
	return false;
}

static void select_nics(const char *filter, struct ln_topo *t)
{
	bool exclude = *filter == '^', any = false;
	const char *list = filter + exclude;
	char have[512] = "";

	for (int i = 0; i < t->nnics; i++) {
		struct ln_topo_nic *nic = &t->nics[i];

		nic->selected = !*list || named(list, nic->name) != exclude;
		any |= *list && named(list, nic->name);
		snprintf(have + strlen(have), sizeof(have) - strlen(have),
			 "%s%s", i ? ", " : "", nic->name);
	}
	if (*list && !any)
		ln_warn("LUNE_NET_DEVICES=%s names no device of this machine; "
			"there are %s", filter, have);
}

/* ---- all together ------------------------------------------------------------------------ */

static struct ln_topo_nic *nic_of(struct ln_topo *t, const struct ifaddrs *a)
{
	struct ln_topo_nic *nic;

	for (int i = 0; i < t->nnics; i++)
		if (!strcmp(t->nics[i].name, a->ifa_name))
			return &t->nics[i];
	if (t->nnics == LN_TOPO_NICS_MAX)
		return NULL;
	nic = &t->nics[t->nnics++];
	snprintf(nic->name, sizeof(nic->name), "%.31s", a->ifa_name);
	nic->up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
	nic->loopback = a->ifa_flags & IFF_LOOPBACK;
	nic->speed_mbps = ln_max(0, sys_int(nic->name, "speed", 0));
	nic->numa = sys_int(nic->name, "device/numa_node", -1);
	nic->distance = distance_to(t, nic->numa);
	sys_pci(nic->name, nic->pci, sizeof(nic->pci));
	sys_rdma(nic->name, nic->rdma, sizeof(nic->rdma));
	return nic;
}

static int better(const void *x, const void *y)
{
	const struct ln_topo_nic *a = x, *b = y;

	if (a->selected != b->selected)
		return a->selected ? -1 : 1;
	if (a->up != b->up)
		return a->up ? -1 : 1;
	if (a->loopback != b->loopback)
		return a->loopback ? 1 : -1;
	if (a->speed_mbps != b->speed_mbps)
		return a->speed_mbps > b->speed_mbps ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return strcmp(a->name, b->name);
}

int ln_nic_read(const struct ln_config *conf, struct ln_topo *t)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return ln_error_errno(LUNE_ERR_SYSTEM,
				      "listing network interfaces");
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct ln_topo_nic *nic = nic_of(t, a);

		if (nic && a->ifa_addr && (a->ifa_addr->sa_family == AF_INET ||
					   a->ifa_addr->sa_family == AF_INET6))
			add_address(nic, a->ifa_addr);
	}
	freeifaddrs(all);
	select_nics(conf->net_devices, t);
	qsort(t->nics, (size_t)t->nnics, sizeof(t->nics[0]), better);
	return LUNE_OK;
}
