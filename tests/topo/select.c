/* SPDX-License-Identifier: Apache-2.0 */
/* LUNE_NET_DEVICES and the order of interfaces, on made-up machines. */
#include <netinet/in.h>

#include "tests/harness/unit.h"
#include "topo/internal.h"

static struct ln_topo topo;
static char warned[1024];

static void note(void *arg, int level, const char *line)
{
	size_t len = strlen(warned);

	(void)arg;
	assert_int_equal(level, LUNE_LOG_WARN);
	snprintf(warned + len, sizeof(warned) - len, "%s\n", line);
}

/* A usable interface; the caller changes what is different. */
static struct ln_topo_nic *add(const char *name, int speed_mbps)
{
	struct ln_topo_nic *nic = &topo.nics[topo.nnics++];

	snprintf(nic->name, sizeof(nic->name), "%s", name);
	nic->speed_mbps = speed_mbps;
	nic->numa = nic->distance = -1;
	nic->up = true;
	nic->naddrs = 1;
	nic->addrs[0].ss_family = AF_INET;
	return nic;
}

/* lo, eth0, ib0 with mlx5_0 over it, and eth1, which is down. */
static int machine(void **state)
{
	(void)state;
	memset(&topo, 0, sizeof(topo));
	warned[0] = '\0';
	add("lo", 0)->loopback = true;
	add("eth0", 1000);
	snprintf(add("ib0", 100000)->rdma, 8, "mlx5_0");
	add("eth1", 10000)->up = false;
	lune_log_sink(note, NULL);
	return 0;
}

static int machine_end(void **state)
{
	(void)state;
	lune_log_sink(NULL, NULL);
	return 0;
}

static void selects(const char *filter, const char *want)
{
	char got[256] = "";

	ln_select_nics(filter, &topo);
	for (int i = 0; i < topo.nnics; i++) {
		size_t n = strlen(got);

		if (topo.nics[i].selected)
			snprintf(got + n, sizeof(got) - n, "%s ",
				 topo.nics[i].name);
	}
	assert_string_equal(got, want);
}

static void no_filter_selects_all(void **state)
{
	(void)state;
	selects("", "lo eth0 ib0 eth1 ");
	selects("^", "lo eth0 ib0 eth1 ");
	selects(",", "lo eth0 ib0 eth1 ");
	assert_string_equal(warned, "");
}

static void names_select_only_these(void **state)
{
	(void)state;
	selects("eth0", "eth0 ");
	selects("ib0,eth0", "eth0 ib0 ");
	selects("ib0, eth0,", "eth0 ib0 ");
	assert_string_equal(warned, "");
}

static void a_name_is_matched_whole(void **state)
{
	(void)state;
	selects("eth,ib0", "ib0 ");
	assert_non_null(strstr(warned, "no network device eth;"));
	selects("ib01,eth0", "eth0 ");
}

static void a_caret_excludes_them(void **state)
{
	(void)state;
	selects("^eth0", "lo ib0 eth1 ");
	selects("^eth0,lo", "ib0 eth1 ");
	assert_string_equal(warned, "");
}

static void an_rdma_device_means_the_interface_over_it(void **state)
{
	(void)state;
	selects("mlx5_0", "ib0 ");
	selects("^mlx5_0", "lo eth0 eth1 ");
	assert_string_equal(warned, "");
}

static void an_unknown_name_warns_with_what_exists(void **state)
{
	(void)state;
	selects("eth7,eth0", "eth0 ");
	assert_non_null(strstr(warned, "eth7"));
	assert_non_null(strstr(warned, "lo, eth0, ib0 (mlx5_0), eth1"));
	warned[0] = '\0';
	selects("^eth7", "lo eth0 ib0 eth1 ");
	assert_non_null(strstr(warned, "eth7"));
}

static void loopback_is_kept_as_the_last_resort(void **state)
{
	(void)state;
	/* Nothing by that name; only one that is down; none at all. */
	selects("eth7", "lo ");
	selects("eth1", "lo eth1 ");
	assert_non_null(strstr(warned, "this host only"));
	selects("^lo,eth0,ib0", "lo eth1 ");
}

static void ordered(const char *want)
{
	char got[256] = "";

	ln_select_sort(&topo);
	for (int i = 0; i < topo.nnics; i++) {
		size_t n = strlen(got);

		snprintf(got + n, sizeof(got) - n, "%s ", topo.nics[i].name);
	}
	assert_string_equal(got, want);
}

static void the_fastest_usable_one_is_first_and_loopback_last(void **state)
{
	(void)state;
	selects("", "lo eth0 ib0 eth1 ");
	ordered("ib0 eth0 lo eth1 ");
}

static void selected_ones_come_first(void **state)
{
	(void)state;
	selects("eth0", "eth0 ");
	ordered("eth0 ib0 lo eth1 ");
}

static void near_ones_come_before_far_ones(void **state)
{
	(void)state;
	add("eth2", 100000)->distance = 0;
	add("eth3", 100000)->distance = 2;
	selects("", "lo eth0 ib0 eth1 eth2 eth3 ");
	/* ib0 does not tell its distance: one hop. */
	ordered("eth2 ib0 eth3 eth0 lo eth1 ");
}

static void a_bridge_comes_after_real_ones(void **state)
{
	struct ln_topo_nic *br = add("docker0", 10000);

	(void)state;
	br->bridge = true;
	selects("", "lo eth0 ib0 eth1 docker0 ");
	ordered("ib0 eth0 docker0 lo eth1 ");
}

static void an_interface_without_address_is_not_usable(void **state)
{
	(void)state;
	add("eth2", 400000)->naddrs = 0;
	selects("", "lo eth0 ib0 eth1 eth2 ");
	ordered("ib0 eth0 lo eth2 eth1 ");
}

static void equal_ones_are_ordered_by_name(void **state)
{
	(void)state;
	add("z0", 1000);
	add("a0", 0); /* a speed that is unknown counts as 1000 */
	selects("", "lo eth0 ib0 eth1 z0 a0 ");
	ordered("ib0 a0 eth0 z0 lo eth1 ");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, machine, machine_end)
	const struct CMUnitTest tests[] = {
		TEST(no_filter_selects_all),
		TEST(names_select_only_these),
		TEST(a_name_is_matched_whole),
		TEST(a_caret_excludes_them),
		TEST(an_rdma_device_means_the_interface_over_it),
		TEST(an_unknown_name_warns_with_what_exists),
		TEST(loopback_is_kept_as_the_last_resort),
		TEST(the_fastest_usable_one_is_first_and_loopback_last),
		TEST(selected_ones_come_first),
		TEST(near_ones_come_before_far_ones),
		TEST(a_bridge_comes_after_real_ones),
		TEST(an_interface_without_address_is_not_usable),
		TEST(equal_ones_are_ordered_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
