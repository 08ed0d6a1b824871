/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces: which there are, with addresses, speed and place.
 *
 * getifaddrs() lists the interfaces of our network namespace, and ethtool's
 * ioctl tells speed, driver and PCI address of each.  /sys/class/net is not
 * asked: in a container, /sys may be that of another namespace, with other
 * interfaces under the same names.
 *
 * Limits: LN_TOPO_NICS_MAX interfaces and LN_TOPO_ADDRS_MAX addresses each;
 * more are left out with a line in the debug log.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "topo/internal.h"

/*
 * The entry of an interface, made if it is new.  An IPv4 address may come with
 * a label ("eth0:1") in place of the name, which itself never has a colon.
 */
static struct ln_topo_nic *find_or_add(struct ln_topo *topo,
				       const struct ifaddrs *i)
{
	size_t n = strcspn(i->ifa_name, ":");
	struct ln_topo_nic *nic;

	for (int k = 0; k < topo->nnics; k++) {
		nic = &topo->nics[k];
		if (strlen(nic->name) == n &&
		    !strncmp(nic->name, i->ifa_name, n))
			return nic;
	}
	if (topo->nnics == LN_TOPO_NICS_MAX) {
		ln_debug("more than %d network interfaces: %s is left out",
			 LN_TOPO_NICS_MAX, i->ifa_name);
		return NULL;
	}
	nic = &topo->nics[topo->nnics++];
	snprintf(nic->name, sizeof(nic->name), "%.*s", (int)n, i->ifa_name);
	nic->numa = nic->distance = -1;
	nic->loopback = i->ifa_flags & IFF_LOOPBACK;
	nic->up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
	return nic;
}

/* Order of an address within its interface: v4, v6, v6 link-local. */
static int addr_class(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const void *)a;

	if (a->ss_family == AF_INET)
		return 0;
	return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 2 : 1;
}

static void add_addr(struct ln_topo_nic *nic, const struct sockaddr *sa)
{
	struct sockaddr_storage a = { 0 };
	int at;

	if (sa->sa_family == AF_INET)
		memcpy(&a, sa, sizeof(struct sockaddr_in));
	else if (sa->sa_family == AF_INET6)
		memcpy(&a, sa, sizeof(struct sockaddr_in6));
	else
		return;
	if (nic->naddrs == LN_TOPO_ADDRS_MAX) {
		ln_debug("more than %d addresses on %s: one is left out",
			 LN_TOPO_ADDRS_MAX, nic->name);
		return;
	}
	/* Insertion keeps the kernel's order within a class. */
	for (at = nic->naddrs++; at > 0; at--) {
		if (addr_class(&nic->addrs[at - 1]) <= addr_class(&a))
			break;
		nic->addrs[at] = nic->addrs[at - 1];
	}
	nic->addrs[at] = a;
}

static int ethtool(int fd, const struct ln_topo_nic *nic, void *cmd)
{
	struct ifreq r = { 0 };

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%.*s", IFNAMSIZ - 1,
		 nic->name);
	r.ifr_data = cmd;
	return ioctl(fd, SIOCETHTOOL, &r);
}

/* The fixed part, and room for the three masks behind it (in 32-bit words). */
#define SETTINGS_BYTES \
	(sizeof(struct ethtool_link_settings) + 3 * INT8_MAX * sizeof(uint32_t))

/*
 * The kernel wants to be told how many words its masks have: asked with 0, it
 * answers with the number, negated.
 */
static int link_speed(int fd, const struct ln_topo_nic *nic)
{
	_Alignas(struct ethtool_link_settings) char room[SETTINGS_BYTES] = "";
	struct ethtool_link_settings *s = (void *)room;

	s->cmd = ETHTOOL_GLINKSETTINGS;
	if (ethtool(fd, nic, s) || s->link_mode_masks_nwords >= 0)
		return 0;
	s->cmd = ETHTOOL_GLINKSETTINGS;
	s->link_mode_masks_nwords = (int8_t)-s->link_mode_masks_nwords;
	if (ethtool(fd, nic, s) || s->speed > INT32_MAX)
		return 0; /* SPEED_UNKNOWN is UINT32_MAX */
	return (int)s->speed;
}

/* "0000:3b:00.0", and not a virtual device's idea of a bus. */
static bool is_pci(const char *bus)
{
	unsigned a, b, c, d;
	int n = 0;

	return sscanf(bus, "%4x:%2x:%2x.%1x%n", &a, &b, &c, &d, &n) == 4 &&
	       n == 12 && !bus[n];
}

static void read_driver(int fd, struct ln_topo_nic *nic)
{
	struct ethtool_drvinfo d = { .cmd = ETHTOOL_GDRVINFO };

	if (ethtool(fd, nic, &d))
		return;
	d.bus_info[sizeof(d.bus_info) - 1] = '\0';
	d.driver[sizeof(d.driver) - 1] = '\0';
	if (is_pci(d.bus_info))
		memcpy(nic->pci, d.bus_info, 13);
	nic->bridge = !strcmp(d.driver, "bridge");
}

void ln_nics_read(const char *sys, const struct ln_hw_nodes *nodes,
		  struct ln_topo *out)
{
	struct ifaddrs *list;
	int fd;

	if (getifaddrs(&list)) {
		ln_warn("listing the network interfaces: %s", strerror(errno));
		return;
	}
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct ln_topo_nic *nic = find_or_add(out, i);

		if (nic && i->ifa_addr)
			add_addr(nic, i->ifa_addr);
	}
	freeifaddrs(list);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int i = 0; fd >= 0 && i < out->nnics; i++) {
		read_driver(fd, &out->nics[i]);
		out->nics[i].speed_mbps = link_speed(fd, &out->nics[i]);
		ln_sysfs_nic_place(sys, nodes, &out->nics[i]);
	}
	if (fd >= 0)
		close(fd);
	ln_sysfs_rdma(sys, out);
}
