/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files of /sys and /proc.
 *
 * hwloc could tell all this too, but its PCI discovery opens every device of
 * the machine (tens of milliseconds on a server with hundreds); we want four
 * facts about a handful of NICs.  What a file does not say is "unknown", never
 * an error: containers hide parts of /sys.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "topo/internal.h"

/* GID table entries looked at per port; the NIC's own come first. */
#define GIDS_MAX 16
#define PORTS_MAX 8

static bool read_line(struct ln_line *out, const char *path)
{
	FILE *f = fopen(path, "re");

	out->text[0] = '\0';
	if (!f)
		return false;
	if (!fgets(out->text, sizeof(out->text), f))
		out->text[0] = '\0';
	fclose(f);
	out->text[strcspn(out->text, "\n")] = '\0';
	return out->text[0] != '\0';
}

static bool LN_PRINTF(2, 0)
read_line_at(struct ln_line *out, const char *fmt, va_list ap)
{
	char path[512];
	int n = vsnprintf(path, sizeof(path), fmt, ap);

	if (n >= 0 && (size_t)n < sizeof(path))
		return read_line(out, path);
	out->text[0] = '\0';
	return false;
}

bool ln_sysfs_line(struct ln_line *out, const char *fmt, ...)
{
	va_list ap;
	bool found;

	va_start(ap, fmt);
	found = read_line_at(out, fmt, ap);
	va_end(ap);
	return found;
}

bool ln_sysfs_number(long long *out, const char *fmt, ...)
{
	struct ln_line line;
	char *end;
	va_list ap;
	long long v;
	bool found;

	va_start(ap, fmt);
	found = read_line_at(&line, fmt, ap);
	va_end(ap);
	if (!found)
		return false;
	errno = 0;
	v = strtoll(line.text, &end, 10);
	if (end == line.text || errno)
		return false;
	*out = v;
	return true;
}

uint64_t ln_sysfs_meminfo(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	unsigned long long v = 0;
	size_t n = strlen(name);
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		char *end;

		if (strncmp(line, name, n) || line[n] != ':')
			continue;
		v = strtoull(line + n + 1, &end, 10);
		if (strstr(end, "kB"))
			v *= 1024;
		break;
	}
	fclose(f);
	return v;
}

/*
 * Entry `to` of the firmware's distance table of node `from`, in hops: 10 is
 * the node itself (ACPI's SLIT), each further 10 about one more link.
 */
static int node_hops(const char *sys, const struct ln_hw_nodes *nodes, int from,
		     int to)
{
	struct ln_line line;
	char *p = line.text;
	long v = 0;

	if (from == to)
		return 0;
	if (!ln_sysfs_line(&line, "%s/devices/system/node/node%d/distance", sys,
			   from))
		return 1;
	/* The columns are the nodes that exist, in order. */
	for (int i = 0; i < nodes->count; i++) {
		char *end;

		v = strtol(p, &end, 10);
		if (end == p)
			return 1;
		p = end;
		if (nodes->ids[i] == to)
			break;
	}
	return v > 20 && v < 256 ? (int)(v - 1) / 10 : 1;
}

static int nearest_hops(const char *sys, const struct ln_hw_nodes *nodes,
			int numa)
{
	int best = -1;

	for (int i = 0; i < nodes->count; i++) {
		int hops;

		if (!nodes->ours[i])
			continue;
		hops = node_hops(sys, nodes, nodes->ids[i], numa);
		if (best < 0 || hops < best)
			best = hops;
	}
	return best;
}

void ln_sysfs_nic_place(const char *sys, const struct ln_hw_nodes *nodes,
			struct ln_topo_nic *nic)
{
	long long numa = -1;

	if (!nic->pci[0])
		return;
	ln_sysfs_number(&numa, "%s/bus/pci/devices/%s/numa_node", sys,
			nic->pci);
	/* Firmware of machines with one node does not bother to say so. */
	if (numa < 0 && nodes->count == 1)
		numa = nodes->ids[0];
	if (numa < 0 || numa > 1 << 20)
		return;
	nic->numa = (int)numa;
	nic->distance = nearest_hops(sys, nodes, nic->numa);
}

static struct ln_topo_nic *nic_by_name(struct ln_topo *topo, const char *name)
{
	for (int i = 0; i < topo->nnics; i++)
		if (!strcmp(topo->nics[i].name, name))
			return &topo->nics[i];
	return NULL;
}

static void nic_is_rdma(struct ln_topo_nic *nic, const char *device)
{
	/* The first one: entries are read in order of the device's name. */
	if (!nic || nic->rdma[0])
		return;
	snprintf(nic->rdma, sizeof(nic->rdma), "%.*s",
		 (int)sizeof(nic->rdma) - 1, device);
}

/* RoCE: each entry of the GID table names the network device behind it. */
static void rdma_by_gids(const char *sys, const char *device,
			 struct ln_topo *topo)
{
	struct ln_line line;

	for (int port = 1; port <= PORTS_MAX; port++) {
		if (!ln_sysfs_line(&line, "%s/class/infiniband/%s/ports/%d/"
				   "state", sys, device, port))
			return;
		for (int gid = 0; gid < GIDS_MAX; gid++)
			if (ln_sysfs_line(&line, "%s/class/infiniband/%s/"
					  "ports/%d/gid_attrs/ndevs/%d", sys,
					  device, port, gid))
				nic_is_rdma(nic_by_name(topo, line.text),
					    device);
	}
}

/* InfiniBand: IPoIB interfaces sit on the same PCI function. */
static void rdma_by_pci(const char *sys, const char *device,
			struct ln_topo *topo)
{
	for (int i = 0; i < topo->nnics; i++) {
		char path[512];
		struct dirent *e;
		DIR *dir;

		if (!topo->nics[i].pci[0])
			continue;
		snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/infiniband",
			 sys, topo->nics[i].pci);
		dir = opendir(path);
		while (dir && (e = readdir(dir)))
			if (!strcmp(e->d_name, device))
				nic_is_rdma(&topo->nics[i], device);
		if (dir)
			closedir(dir);
	}
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

void ln_sysfs_rdma(const char *sys, struct ln_topo *topo)
{
	struct dirent **list;
	struct ln_line line;
	char path[512];
	int n;

	snprintf(path, sizeof(path), "%s/class/infiniband", sys);
	n = scandir(path, &list, not_hidden, alphasort);
	for (int i = 0; i < n; i++) {
		const char *device = list[i]->d_name;

		/* soft-RoCE says it directly, also before it has a GID. */
		if (ln_sysfs_line(&line, "%s/%.200s/parent", path, device))
			nic_is_rdma(nic_by_name(topo, line.text), device);
		rdma_by_gids(sys, device, topo);
		rdma_by_pci(sys, device, topo);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}
