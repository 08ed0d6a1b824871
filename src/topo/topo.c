/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine looks like.  hwloc tells cores, NUMA nodes and caches; it
 * is asked without I/O devices, which would cost most of its time: network
 * interfaces are read from sysfs (nic.c).
 *
 * Node identity is a hash of what must be equal for two processes to reach
 * each other by an abstract unix socket and by pid: the boot, the network
 * namespace (abstract sockets live in it) and the pid namespace.  LUNE_NODE
 * replaces it, so that one machine can look like many.
 */
#include "topo/topo.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <hwloc.h>

#include "topo/nic.h"

static void read_line(const char *path, char *out, size_t cap)
{
	FILE *f = fopen(path, "re");

	out[0] = 0;
	if (!f)
		return;
	if (!fgets(out, (int)cap, f))
		out[0] = 0;
	out[strcspn(out, "\n")] = 0;
	fclose(f);
}

static uint64_t namespace_id(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

static void node_identity(const struct ln_config *conf, struct ln_topo *t)
{
	struct {
		char boot[64];
		uint64_t net, pid;
	} parts;

	snprintf(t->node_name, sizeof(t->node_name), "%s",
		 *conf->node ? conf->node : t->host);
	if (*conf->node) {
		t->node[0] = ln_hash64(conf->node, strlen(conf->node));
		t->node[1] = ~t->node[0];
		return;
	}
	memset(&parts, 0, sizeof(parts));
	read_line("/proc/sys/kernel/random/boot_id", parts.boot,
		  sizeof(parts.boot));
	parts.net = namespace_id("/proc/self/ns/net");
	parts.pid = namespace_id("/proc/self/ns/pid");
	t->node[0] = ln_hash64(&parts, sizeof(parts));
	t->node[1] = ln_hash64(&t->node[0], sizeof(t->node[0]));
}

static void read_cpu(struct ln_topo *t)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	snprintf(t->cpu, sizeof(t->cpu), "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(t->cpu, sizeof(t->cpu), "%.127s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
}

static void read_huge_pages(struct ln_topo *t)
{
	char text[32];

	t->huge_page_bytes = 2u << 20;
	read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
		  text, sizeof(text));
	t->huge_pages_free = strtoull(text, NULL, 10);
}

static int read_hwloc(struct ln_topo *t)
{
	hwloc_topology_t h;
	hwloc_obj_t l3;

	if (hwloc_topology_init(&h))
		return ln_error(LUNE_ERR_NOMEM, "hwloc");
	hwloc_topology_set_all_types_filter(h, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(h, HWLOC_OBJ_PU,
				       HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_type_filter(h, HWLOC_OBJ_L3CACHE,
				       HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_flags(h, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if (hwloc_topology_load(h)) {
		hwloc_topology_destroy(h);
		return ln_error_errno(LUNE_ERR_SYSTEM, "hwloc");
	}
	t->cores = ln_max(1, hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_PU));
	t->numa_nodes =
		ln_max(1, hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_NUMANODE));
	l3 = hwloc_get_obj_by_type(h, HWLOC_OBJ_L3CACHE, 0);
	t->l3_bytes = l3 ? l3->attr->cache.size : 0;
	hwloc_topology_destroy(h);
	return LUNE_OK;
}

int ln_topo_read(const struct ln_config *conf, struct ln_topo *out)
{
	struct sysinfo si;
	cpu_set_t set;
	int rc;

	memset(out, 0, sizeof(*out));
	if (gethostname(out->host, sizeof(out->host) - 1) || !*out->host)
		snprintf(out->host, sizeof(out->host), "localhost");
	node_identity(conf, out);
	rc = read_hwloc(out);
	if (rc)
		return rc;
	out->allowed_cores = out->cores;
	if (!sched_getaffinity(0, sizeof(set), &set))
		out->allowed_cores = CPU_COUNT(&set);
	if (!sysinfo(&si))
		out->memory_bytes = (uint64_t)si.totalram * si.mem_unit;
	out->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	read_huge_pages(out);
	read_cpu(out);
	return ln_nic_read(conf, out);
}

int ln_topo_bind_memory(void *addr, size_t bytes, int numa)
{
	hwloc_topology_t h;
	hwloc_obj_t node;
	int rc = LUNE_OK;

	if (hwloc_topology_init(&h))
		return ln_error(LUNE_ERR_NOMEM, "hwloc");
	hwloc_topology_set_all_types_filter(h, HWLOC_TYPE_FILTER_KEEP_NONE);
	if (hwloc_topology_load(h)) {
		rc = ln_error_errno(LUNE_ERR_SYSTEM, "hwloc");
	} else if (numa < 0 ||
		   !(node = hwloc_get_obj_by_type(h, HWLOC_OBJ_NUMANODE,
						  (unsigned)numa))) {
		rc = ln_error(LUNE_ERR_INVAL, "there is no NUMA node %d", numa);
	} else if (hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_NUMANODE) > 1 &&
		   hwloc_set_area_membind(h, addr, bytes, node->nodeset,
					  HWLOC_MEMBIND_BIND,
					  HWLOC_MEMBIND_BYNODESET |
						  HWLOC_MEMBIND_MIGRATE)) {
		rc = ln_error_errno(LUNE_ERR_SYSTEM,
				    "binding memory to NUMA node %d", numa);
	}
	hwloc_topology_destroy(h);
	return rc;
}
