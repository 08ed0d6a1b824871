/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine looks like, and which node this process is on.
 *
 * Identity.  Same node means: an abstract unix socket reaches, because shared
 * memory is set up over one.  Such sockets are scoped by the network
 * namespace, of one running kernel.  So the identity is a hash of the kernel's
 * boot id and the inode of the network namespace.  The pid namespace is no
 * part of it: containers of one pod have different ones, and descriptors pass
 * between them well; what needs a pid (CMA) probes each peer anyway.  LUNE_NODE
 * is hashed in: it can make one node look like several, but never two nodes
 * like one.
 *
 * Limits: virtual machines restored from one snapshot have the same boot id,
 * so that equal identities are necessary for shared memory, not sufficient:
 * when the socket does not reach, the caller goes by the network.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>

#include "topo/internal.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct identity {
	char boot[64];
	uint64_t netns_dev, netns_ino, netns_cookie;
	char node[256];
};

/* Without /proc there still is the cookie (Linux 5.14). */
static void read_netns(struct identity *id)
{
	struct stat st;
	socklen_t len = sizeof(id->netns_cookie);
	int fd;

	if (!stat("/proc/self/ns/net", &st)) {
		id->netns_dev = st.st_dev;
		id->netns_ino = st.st_ino;
		return;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &id->netns_cookie,
		       &len))
		id->netns_cookie = 0;
	close(fd);
}

static int read_identity(const char *node, uint64_t out[2])
{
	struct identity id;
	struct ln_line line;

	/* The whole struct is hashed, padding included. */
	memset(&id, 0, sizeof(id));
	snprintf(id.node, sizeof(id.node), "%s", node);
	read_netns(&id);
	if (ln_sysfs_line(&line, "/proc/sys/kernel/random/boot_id")) {
		snprintf(id.boot, sizeof(id.boot), "%.60s", line.text);
	} else {
		int rc = ln_random(id.boot, sizeof(id.boot));

		if (rc)
			return rc;
		ln_warn("this machine does not tell its boot id: processes "
			"on it will not share memory");
	}
	out[0] = ln_hash64(&id, sizeof(id));
	/* A second, independent 64 bits: of the same with one byte changed. */
	id.boot[sizeof(id.boot) - 1] ^= 1;
	out[1] = ln_hash64(&id, sizeof(id));
	return LUNE_OK;
}

static void read_names(const char *node, struct ln_topo *out)
{
	if (gethostname(out->host, sizeof(out->host) - 1) || !out->host[0])
		snprintf(out->host, sizeof(out->host), "localhost");
	snprintf(out->node_name, sizeof(out->node_name), "%s",
		 *node ? node : out->host);
}

static void read_memory(struct ln_topo *out)
{
	out->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	/* NUMA nodes' own counts miss memory that was plugged in later. */
	out->memory_bytes = ln_sysfs_meminfo("/proc/meminfo", "MemTotal");
	out->huge_page_bytes =
		ln_sysfs_meminfo("/proc/meminfo", "Hugepagesize");
	out->huge_pages_free =
		ln_sysfs_meminfo("/proc/meminfo", "HugePages_Free");
}

int ln_topo_read(const struct ln_config *conf, struct ln_topo *out)
{
	const char *node = conf->node ? conf->node : "";
	const char *filter = conf->net_devices ? conf->net_devices : "";
	struct ln_hw_nodes nodes = { 0 };
	int rc;

	memset(out, 0, sizeof(*out));
	if (strlen(node) >= sizeof(out->node_name))
		return ln_error(LUNE_ERR_INVAL,
				"LUNE_NODE=%.40s...: longer than %zu bytes",
				node, sizeof(out->node_name) - 1);
	read_names(node, out);
	rc = read_identity(node, out->node);
	if (rc)
		return rc;
	read_memory(out);
	ln_hw_read(out, &nodes);
	ln_nics_read("/sys", &nodes, out);
	ln_select_nics(filter, out);
	ln_select_sort(out);
	return LUNE_OK;
}
