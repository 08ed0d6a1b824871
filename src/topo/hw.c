/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processors, caches and NUMA nodes, by hwloc.  No hwloc type leaves this
 * file.
 *
 * Loading a full topology costs 20 to 100 ms on a server: I/O discovery walks
 * every PCI device, and the x86 backend runs on every processor in turn.  We
 * keep four types of object and leave those backends out: 3 to 5 ms, most of
 * it hwloc's plugins.  A failure is no reason not to start: what is unknown
 * stays 0 and the number of processors comes from the system.
 */
#include <errno.h>
#include <hwloc.h>
#include <unistd.h>

#include "topo/internal.h"

static const char *const left_out[] = { "pci", "opencl", "cuda", "nvml",
					"rsmi", "levelzero", "gl", "x86" };

static int open_topology(hwloc_topology_t *out)
{
	static const hwloc_obj_type_t kept[] = {
		HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L3CACHE,
	};
	hwloc_topology_t t;

	if (hwloc_topology_init(&t))
		return ln_error(LUNE_ERR_SYSTEM,
				"hwloc cannot start a topology");
	/* A backend that this hwloc lacks is none to leave out. */
	for (size_t i = 0; i < LN_ARRAY_SIZE(left_out); i++)
		hwloc_topology_set_components(
			t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			left_out[i]);
	hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
	for (size_t i = 0; i < LN_ARRAY_SIZE(kept); i++)
		hwloc_topology_set_type_filter(t, kept[i],
					       HWLOC_TYPE_FILTER_KEEP_ALL);
	hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if (hwloc_topology_load(t)) {
		hwloc_topology_destroy(t);
		return ln_error(LUNE_ERR_SYSTEM,
				"hwloc cannot read the topology of this "
				"machine");
	}
	*out = t;
	return LUNE_OK;
}

/* The processors the calling thread may run on; NULL: out of memory. */
static hwloc_bitmap_t our_cpus(hwloc_topology_t t)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	if (!set)
		return NULL;
	if (hwloc_get_cpubind(t, set, HWLOC_CPUBIND_THREAD) ||
	    hwloc_bitmap_iszero(set))
		hwloc_bitmap_copy(set,
				  hwloc_topology_get_allowed_cpuset(t));
	return set;
}

static void read_cores(hwloc_topology_t t, hwloc_const_bitmap_t ours,
		       struct ln_topo *out)
{
	hwloc_obj_t core = NULL;

	while ((core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core))) {
		out->cores++;
		if (hwloc_bitmap_intersects(core->cpuset, ours))
			out->allowed_cores++;
	}
}

static void read_cache(hwloc_topology_t t, hwloc_const_bitmap_t ours,
		       struct ln_topo *out)
{
	hwloc_obj_t l3 = NULL;

	while ((l3 = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_L3CACHE, l3)))
		if (hwloc_bitmap_intersects(l3->cpuset, ours)) {
			out->l3_bytes = l3->attr->cache.size;
			return;
		}
}

static void read_nodes(hwloc_topology_t t, hwloc_const_bitmap_t ours,
		       struct ln_topo *out, struct ln_hw_nodes *nodes)
{
	hwloc_obj_t n = NULL;

	while ((n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n))) {
		int i = nodes->count;

		out->numa_nodes++;
		if (i == LN_HW_NODES_MAX)
			continue;
		nodes->ids[i] = (int)n->os_index;
		nodes->ours[i] = hwloc_bitmap_intersects(n->cpuset, ours);
		nodes->count++;
	}
}

static void read_model(hwloc_topology_t t, struct ln_topo *out)
{
	hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
	const char *model = NULL;

	if (o)
		model = hwloc_obj_get_info_by_name(o, "CPUModel");
	if (!model)
		model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(t),
						   "CPUModel");
	if (model)
		snprintf(out->cpu, sizeof(out->cpu), "%s", model);
}

/* What hwloc could not tell. */
static void fill_in(struct ln_topo *out)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	long pages = sysconf(_SC_PHYS_PAGES);

	if (out->cores < 1)
		out->cores = online > 0 ? (int)online : 1;
	if (out->allowed_cores < 1)
		out->allowed_cores = out->cores;
	if (out->numa_nodes < 1)
		out->numa_nodes = 1;
	if (!out->memory_bytes && pages > 0)
		out->memory_bytes = (uint64_t)pages * out->page_bytes;
}

void ln_hw_read(struct ln_topo *out, struct ln_hw_nodes *nodes)
{
	hwloc_bitmap_t ours;
	hwloc_topology_t t;

	if (open_topology(&t)) {
		ln_warn("%s; its NUMA nodes and caches stay unknown",
			lune_last_error());
		fill_in(out);
		return;
	}
	ours = our_cpus(t);
	if (ours) {
		read_cores(t, ours, out);
		read_cache(t, ours, out);
		read_nodes(t, ours, out, nodes);
		hwloc_bitmap_free(ours);
	}
	read_model(t, out);
	hwloc_topology_destroy(t);
	fill_in(out);
}

static int bind_area(hwloc_topology_t t, void *addr, size_t bytes, int numa)
{
	hwloc_obj_t n = hwloc_get_numanode_obj_by_os_index(t, (unsigned)numa);
	int count = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);

	if (!n)
		return ln_error(LUNE_ERR_INVAL,
				"there is no NUMA node %d: this machine has "
				"%d", numa, count);
	if (count == 1)
		return LUNE_OK;
	if (hwloc_set_area_membind(t, addr, bytes, n->nodeset,
				   HWLOC_MEMBIND_BIND,
				   HWLOC_MEMBIND_BYNODESET |
					   HWLOC_MEMBIND_MIGRATE))
		return ln_error_errno(LUNE_ERR_SYSTEM,
				      "binding %zu bytes to NUMA node %d",
				      bytes, numa);
	return LUNE_OK;
}

int ln_topo_bind_memory(void *addr, size_t bytes, int numa)
{
	hwloc_topology_t t;
	int rc;

	if (numa < 0)
		return ln_error(LUNE_ERR_INVAL, "there is no NUMA node %d",
				numa);
	if (!bytes)
		return LUNE_OK;
	rc = open_topology(&t);
	if (rc)
		return rc;
	rc = bind_area(t, addr, bytes, numa);
	hwloc_topology_destroy(t);
	return rc;
}
