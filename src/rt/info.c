/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lune-info prints: <lune/info.h>.  A snapshot of configuration, topology
 * and the bootstrap that would be chosen; nothing here joins or connects.
 *
 * The caller's structs may be shorter than ours (an older program): each is
 * filled here in full and copied up to the caller's size.
 */
#include <lune/info.h>

#include "boot/boot.h"
#include "rt/rt.h"

struct lune_info {
	struct ln_config conf;
	struct ln_topo topo;
	struct lune_info_bootstrap boot;
};

/* Optional parts of the build. */
static const struct {
	const char *name, *what;
	bool built;
} features[] = {
	{ "pmix", "start under mpirun and srun",
#ifdef HAVE_PMIX
	  true
#else
	  false
#endif
	},
	{ "etcd", "worlds and metadata in etcd",
#ifdef HAVE_ETCD
	  true
#else
	  false
#endif
	},
	{ "verbs", "RDMA (no transport uses it yet)",
#ifdef HAVE_VERBS
	  true
#else
	  false
#endif
	},
	{ "cuda", "memory of GPUs (not used yet)",
#ifdef HAVE_CUDA
	  true
#else
	  false
#endif
	},
};

/* Give `from` to a caller whose struct has the size it says. */
static void copy_out(void *to, const void *from, size_t bytes)
{
	size_t size;

	memcpy(&size, to, sizeof(size));
	if (size > bytes)
		size = bytes;
	if (size > sizeof(size))
		memcpy((char *)to + sizeof(size),
		       (const char *)from + sizeof(size), size - sizeof(size));
}

const char *lune_version(void)
{
	return PACKAGE_VERSION;
}

bool lune_info_feature(int i, struct lune_info_feature *out)
{
	struct lune_info_feature f = { 0 };

	if (i < 0 || (size_t)i >= LN_ARRAY_SIZE(features))
		return false;
	f.name = features[i].name;
	f.what = features[i].what;
	f.built = features[i].built;
	copy_out(out, &f, sizeof(f));
	return true;
}

static void choose_boot(lune_info *info, const char *url)
{
	struct lune_info_bootstrap *b = &info->boot;

	b->code = ln_boot_detect(&info->conf, url, b->url, sizeof(b->url),
				 b->why, sizeof(b->why));
	if (!b->code)
		return;
	b->url[0] = '\0';
	snprintf(b->why, sizeof(b->why), "%s", lune_last_error());
}

int lune_info_open(const char *bootstrap, lune_info **out)
{
	lune_info *info = ln_calloc(1, sizeof(*info));
	int rc;

	if (!info)
		return LUNE_ERR_NOMEM;
	rc = ln_config_init(&info->conf);
	if (rc)
		goto free_info;
	rc = ln_topo_read(&info->conf, &info->topo);
	if (rc)
		goto fini_conf;
	choose_boot(info, bootstrap);
	*out = info;
	return LUNE_OK;

fini_conf:
	ln_config_fini(&info->conf);
free_info:
	ln_free(info);
	return rc;
}

void lune_info_close(lune_info *info)
{
	if (!info)
		return;
	ln_config_fini(&info->conf);
	ln_free(info);
}

void lune_info_machine(const lune_info *info, struct lune_info_machine *out)
{
	const struct ln_topo *t = &info->topo;
	struct lune_info_machine m = {
		.cores = t->cores,
		.allowed_cores = t->allowed_cores,
		.numa_nodes = t->numa_nodes,
		.memory_bytes = t->memory_bytes,
		.page_bytes = t->page_bytes,
		.l3_bytes = t->l3_bytes,
		.huge_page_bytes = t->huge_page_bytes,
		.huge_pages_free = t->huge_pages_free,
	};

	snprintf(m.host, sizeof(m.host), "%s", t->host);
	snprintf(m.node, sizeof(m.node), "%s", t->node_name);
	snprintf(m.identity, sizeof(m.identity), "%016llx%016llx",
		 (unsigned long long)t->node[0],
		 (unsigned long long)t->node[1]);
	snprintf(m.cpu, sizeof(m.cpu), "%s", t->cpu);
	copy_out(out, &m, sizeof(m));
}

bool lune_info_nic(const lune_info *info, int i, struct lune_info_nic *out)
{
	struct lune_info_nic n = { 0 };
	const struct ln_topo_nic *nic;

	if (i < 0 || i >= info->topo.nnics)
		return false;
	nic = &info->topo.nics[i];
	snprintf(n.name, sizeof(n.name), "%s", nic->name);
	snprintf(n.pci, sizeof(n.pci), "%s", nic->pci);
	snprintf(n.rdma, sizeof(n.rdma), "%s", nic->rdma);
	n.speed_mbps = nic->speed_mbps;
	n.numa = nic->numa;
	n.hops = nic->distance;
	n.up = nic->up;
	n.loopback = nic->loopback;
	n.selected = nic->selected;
	n.naddrs = ln_min(nic->naddrs, LUNE_INFO_ADDRS_MAX);
	for (int k = 0; k < n.naddrs; k++)
		ln_topo_addr_text(&nic->addrs[k], 0, n.addrs[k],
				  sizeof(n.addrs[k]));
	copy_out(out, &n, sizeof(n));
	return true;
}

void lune_info_bootstrap(const lune_info *info, struct lune_info_bootstrap *out)
{
	copy_out(out, &info->boot, sizeof(info->boot));
}

bool lune_info_config(const lune_info *info, int i,
		      struct lune_info_config *out)
{
	struct lune_info_config c = { 0 };
	struct ln_config_row row;

	if (!ln_config_row(&info->conf, i, &row))
		return false;
	c.name = row.env;
	c.type = row.type;
	c.def = row.def;
	c.help = row.help;
	c.source = row.source;
	snprintf(c.value, sizeof(c.value), "%s", row.value);
	copy_out(out, &c, sizeof(c));
	return true;
}

bool lune_info_counter(lune_ctx *ctx, int i, struct lune_info_counter *out)
{
	struct lune_info_counter c = { 0 };

	if (!ln_counters_row(&ctx->counters, i, &c.name, &c.help, &c.value))
		return false;
	copy_out(out, &c, sizeof(c));
	return true;
}
