/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA node, distance and RDMA device of NICs, from a made-up /sys. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/unit.h"
#include "topo/internal.h"

static char root[64];

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/lune-sysfs-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int drop(const char *path, const struct stat *st, int type,
		struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write a file below the root, making its folders. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static struct ln_topo_nic nic_at(const char *pci)
{
	struct ln_topo_nic nic = { .numa = -1, .distance = -1 };

	snprintf(nic.pci, sizeof(nic.pci), "%s", pci);
	return nic;
}

static void a_nic_is_as_far_as_its_numa_node(void **state)
{
	struct ln_hw_nodes nodes = { .count = 3, .ids = { 0, 1, 4 },
				     .ours = { true, false, false } };
	struct ln_topo_nic nic = nic_at("0000:3b:00.0");

	(void)state;
	put("bus/pci/devices/0000:3b:00.0/numa_node", "0\n");
	put("bus/pci/devices/0000:af:00.1/numa_node", "1\n");
	put("bus/pci/devices/0001:01:00.0/numa_node", "4\n");
	put("devices/system/node/node0/distance", "10 21 32\n");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.numa, 0);
	assert_int_equal(nic.distance, 0);
	nic = nic_at("0000:af:00.1");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.numa, 1);
	assert_int_equal(nic.distance, 2);
	nic = nic_at("0001:01:00.0");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.numa, 4);
	assert_int_equal(nic.distance, 3);
	/* The nearest of our nodes counts. */
	nodes.ours[2] = true;
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.distance, 0);
}

static void what_is_not_said_stays_unknown(void **state)
{
	struct ln_hw_nodes two = { .count = 2, .ids = { 0, 1 },
				   .ours = { true, true } };
	struct ln_hw_nodes one = { .count = 1, .ours = { true } };
	struct ln_topo_nic nic = nic_at("0000:3b:00.0");

	(void)state;
	ln_sysfs_nic_place(root, &two, &nic);
	assert_int_equal(nic.numa, -1);
	put("bus/pci/devices/0000:3b:00.0/numa_node", "-1\n");
	ln_sysfs_nic_place(root, &two, &nic);
	assert_int_equal(nic.numa, -1);
	assert_int_equal(nic.distance, -1);
	/* With one node there is no other place. */
	ln_sysfs_nic_place(root, &one, &nic);
	assert_int_equal(nic.numa, 0);
	assert_int_equal(nic.distance, 0);
	nic = nic_at("");
	ln_sysfs_nic_place(root, &one, &nic);
	assert_int_equal(nic.numa, -1);
}

static void broken_files_are_unknown(void **state)
{
	struct ln_hw_nodes nodes = { .count = 2, .ids = { 0, 1 },
				     .ours = { true, false } };
	struct ln_topo_nic nic = nic_at("0000:3b:00.0");

	(void)state;
	put("bus/pci/devices/0000:3b:00.0/numa_node", "many\n");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.numa, -1);
	put("bus/pci/devices/0000:3b:00.0/numa_node",
	    "99999999999999999999999\n");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.numa, -1);
	put("bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
	put("devices/system/node/node0/distance", "10\n");
	ln_sysfs_nic_place(root, &nodes, &nic);
	assert_int_equal(nic.distance, 1);
}

static struct ln_topo *three_nics(void)
{
	static struct ln_topo t;

	memset(&t, 0, sizeof(t));
	t.nnics = 3;
	snprintf(t.nics[0].name, 8, "eth0");
	snprintf(t.nics[1].name, 8, "eth1");
	snprintf(t.nics[2].name, 8, "ib0");
	snprintf(t.nics[2].pci, 16, "0000:3b:00.0");
	return &t;
}

static void a_roce_device_is_found_by_its_gids(void **state)
{
	struct ln_topo *t = three_nics();

	(void)state;
	put("class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
	put("class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "eth1\n");
	put("class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/1", "eth1\n");
	ln_sysfs_rdma(root, t);
	assert_string_equal(t->nics[0].rdma, "");
	assert_string_equal(t->nics[1].rdma, "mlx5_1");
	assert_string_equal(t->nics[2].rdma, "");
}

static void a_soft_roce_device_is_found_by_its_parent(void **state)
{
	struct ln_topo *t = three_nics();

	(void)state;
	put("class/infiniband/rxe0/parent", "eth0\n");
	put("class/infiniband/rxe1/parent", "gone0\n");
	ln_sysfs_rdma(root, t);
	assert_string_equal(t->nics[0].rdma, "rxe0");
	assert_string_equal(t->nics[1].rdma, "");
}

static void an_infiniband_device_is_found_by_its_pci_address(void **state)
{
	struct ln_topo *t = three_nics();

	(void)state;
	put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
	put("bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0/x", "");
	ln_sysfs_rdma(root, t);
	assert_string_equal(t->nics[2].rdma, "mlx5_0");
	assert_string_equal(t->nics[0].rdma, "");
}

static void without_rdma_nothing_is_named(void **state)
{
	struct ln_topo *t = three_nics();

	(void)state;
	ln_sysfs_rdma(root, t);
	for (int i = 0; i < 3; i++)
		assert_string_equal(t->nics[i].rdma, "");
}

static void meminfo_gives_bytes_and_counts(void **state)
{
	char path[128];

	(void)state;
	put("meminfo", "MemTotal: 12 kB\nHugePages_Total: 9\n"
		       "HugePages_Free:       5\nHugepagesize:    2048 kB\n");
	snprintf(path, sizeof(path), "%s/meminfo", root);
	assert_int_equal(ln_sysfs_meminfo(path, "Hugepagesize"), 2 << 20);
	assert_int_equal(ln_sysfs_meminfo(path, "HugePages_Free"), 5);
	assert_int_equal(ln_sysfs_meminfo(path, "HugePages"), 0);
	assert_int_equal(ln_sysfs_meminfo("/nowhere", "HugePages_Free"), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		TEST(a_nic_is_as_far_as_its_numa_node),
		TEST(what_is_not_said_stays_unknown),
		TEST(broken_files_are_unknown),
		TEST(a_roce_device_is_found_by_its_gids),
		TEST(a_soft_roce_device_is_found_by_its_parent),
		TEST(an_infiniband_device_is_found_by_its_pci_address),
		TEST(without_rdma_nothing_is_named),
		TEST(meminfo_gives_bytes_and_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
