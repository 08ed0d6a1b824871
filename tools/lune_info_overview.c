/* SPDX-License-Identifier: Apache-2.0 */
/* lune-info without options: build, machine, devices, bootstrap. */
#include <stdio.h>
#include <string.h>

#include "lune_info.h"

static void print_build(void)
{
	struct lune_info_feature f = { .size = sizeof(f) };

	printf("lune %s\n", lune_version());
	for (int i = 0; lune_info_feature(i, &f); i++)
		printf("  %-9s  %-3s  %s\n", f.name, f.built ? "yes" : "no",
		       f.what);
}

static void print_machine(const lune_info *info)
{
	struct lune_info_machine m = { .size = sizeof(m) };
	char a[16], b[16], c[16];

	lune_info_machine(info, &m);
	printf("\nmachine %s\n", m.host);
	printf("  node       %s%s, identity %s\n", m.node,
	       strcmp(m.node, m.host) ? " (LUNE_NODE)" : "", m.identity);
	printf("  processor  %s\n", *m.cpu ? m.cpu : "unknown");
	printf("  cores      %d, this process may use %d", m.cores,
	       m.allowed_cores);
	if (m.l3_bytes)
		printf("; level-3 cache %s", info_bytes(m.l3_bytes, a));
	printf("\n  memory     %s on %d NUMA node%s; pages of %s",
	       info_bytes(m.memory_bytes, a), m.numa_nodes,
	       m.numa_nodes == 1 ? "" : "s", info_bytes(m.page_bytes, b));
	if (m.huge_page_bytes)
		printf(", huge pages of %s (%llu free)",
		       info_bytes(m.huge_page_bytes, c),
		       (unsigned long long)m.huge_pages_free);
	printf("\n");
}

static const char *speed_text(int mbps, char out[16])
{
	if (mbps <= 0)
		return "unknown";
	if (mbps % 1000)
		snprintf(out, 16, "%d Mb/s", mbps);
	else
		snprintf(out, 16, "%d Gb/s", mbps / 1000);
	return out;
}

static const char *number_text(int v, char out[16])
{
	if (v < 0)
		return "-";
	snprintf(out, 16, "%d", v);
	return out;
}

static const char *use_text(const struct lune_info_nic *n)
{
	if (!n->selected)
		return "no (LUNE_NET_DEVICES)";
	if (!n->up)
		return "no (down)";
	if (!n->naddrs)
		return "no (no address)";
	return n->loopback ? "this host only" : "yes";
}

static void print_nics(const lune_info *info)
{
	struct lune_info_nic n = { .size = sizeof(n) };
	char a[16], b[16], c[16];
	int i;

	printf("\nnetwork devices, best first\n");
	for (i = 0; lune_info_nic(info, i, &n); i++) {
		if (!i)
			printf("  %-12s %-21s %-10s %-4s %-4s %-10s %s\n",
			       "name", "used", "speed", "numa", "hops", "rdma",
			       "addresses");
		printf("  %-12s %-21s %-10s %-4s %-4s %-10s", n.name,
		       use_text(&n), speed_text(n.speed_mbps, a),
		       number_text(n.numa, b), number_text(n.hops, c),
		       *n.rdma ? n.rdma : "-");
		for (int k = 0; k < n.naddrs; k++)
			printf(" %s", n.addrs[k]);
		printf("%s\n", n.naddrs ? "" : " -");
	}
	if (!i)
		printf("  none: only processes of this node can be reached\n");
}

static int print_bootstrap(const lune_info *info)
{
	struct lune_info_bootstrap b = { .size = sizeof(b) };

	lune_info_bootstrap(info, &b);
	printf("\nbootstrap %s\n", b.code ? "cannot be chosen" : b.url);
	printf("  %s: %s\n", b.code ? "cause" : "because", b.why);
	return b.code ? EXIT_FAILED : 0;
}

static json_t *features_json(void)
{
	struct lune_info_feature f = { .size = sizeof(f) };
	json_t *j = json_object();

	for (int i = 0; lune_info_feature(i, &f); i++)
		json_object_set_new(j, f.name, json_boolean(f.built));
	return j;
}

static json_t *machine_json(const lune_info *info)
{
	struct lune_info_machine m = { .size = sizeof(m) };

	lune_info_machine(info, &m);
	return json_pack("{so so ss ss si si si sI sI sI sI sI}", "host",
			 info_json_text(m.host), "node",
			 info_json_text(m.node), "identity", m.identity, "cpu",
			 m.cpu, "cores", m.cores, "allowed_cores",
			 m.allowed_cores, "numa_nodes", m.numa_nodes,
			 "memory_bytes", (json_int_t)m.memory_bytes,
			 "page_bytes", (json_int_t)m.page_bytes, "l3_bytes",
			 (json_int_t)m.l3_bytes, "huge_page_bytes",
			 (json_int_t)m.huge_page_bytes, "huge_pages_free",
			 (json_int_t)m.huge_pages_free);
}

/* Unknown is null, so that nobody takes -1 for a number. */
static json_t *known_json(int v, int lowest)
{
	return v < lowest ? json_null() : json_integer(v);
}

static json_t *nics_json(const lune_info *info)
{
	struct lune_info_nic n = { .size = sizeof(n) };
	json_t *list = json_array();

	for (int i = 0; lune_info_nic(info, i, &n); i++) {
		json_t *addrs = json_array();

		for (int k = 0; k < n.naddrs; k++)
			json_array_append_new(addrs, json_string(n.addrs[k]));
		json_array_append_new(
			list,
			json_pack("{ss ss ss sb sb sb so so so so}", "name",
				  n.name, "pci", n.pci, "rdma", n.rdma, "up",
				  n.up, "loopback", n.loopback, "selected",
				  n.selected, "speed_mbps",
				  known_json(n.speed_mbps, 1), "numa",
				  known_json(n.numa, 0), "hops",
				  known_json(n.hops, 0), "addresses", addrs));
	}
	return list;
}

static int print_json(const lune_info *info)
{
	struct lune_info_bootstrap b = { .size = sizeof(b) };
	int rc;

	lune_info_bootstrap(info, &b);
	rc = info_print_json(json_pack(
		"{ss so so so s{ss so so}}", "version", lune_version(),
		"features", features_json(), "machine", machine_json(info),
		"nics", nics_json(info), "bootstrap", "status",
		lune_strcode(b.code), "url", info_json_text(b.url), "why",
		info_json_text(b.why)));
	return b.code ? EXIT_FAILED : rc;
}

int info_overview(const struct info_args *a)
{
	lune_info *info;
	int rc = lune_info_open(a->bootstrap, &info);

	if (rc)
		return info_fail("reading configuration and machine", rc);
	if (a->json) {
		rc = print_json(info);
	} else {
		print_build();
		print_machine(info);
		print_nics(info);
		rc = print_bootstrap(info);
	}
	lune_info_close(info);
	return rc;
}
