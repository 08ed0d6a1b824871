/* SPDX-License-Identifier: Apache-2.0 */
/* The real machine, whatever it is: what must hold on any. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/unit.h"
#include "topo/topo.h"

static struct ln_topo *read_with(const char *node)
{
	static struct ln_topo t;
	struct ln_config c = { .node = (char *)node };

	assert_int_equal(ln_topo_read(&c, &t), LUNE_OK);
	return &t;
}

static void read_in_child(const char *node, uint64_t out[2])
{
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct ln_topo *t = read_with(node);

		_exit(write(fds[1], t->node, 16) == 16 ? 0 : 1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], out, 16), 16);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void it_has_a_name_cores_and_memory(void **state)
{
	struct ln_topo *t = read_with("");
	char host[256] = "";

	(void)state;
	gethostname(host, sizeof(host) - 1);
	if (host[0])
		assert_string_equal(t->host, host);
	assert_string_equal(t->node_name, t->host);
	assert_in_range(t->cores, 1, 1 << 16);
	assert_in_range(t->allowed_cores, 1, t->cores);
	assert_in_range(t->numa_nodes, 1, 4096);
	assert_int_equal(t->page_bytes, sysconf(_SC_PAGESIZE));
	assert_true(t->memory_bytes > 16 * t->page_bytes);
}

static void cores_follow_the_affinity(void **state)
{
	cpu_set_t all, one;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(read_with("")->allowed_cores, 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void every_interface_of_the_system_is_there(void **state)
{
	struct ln_topo *t = read_with("");
	struct ifaddrs *list;

	(void)state;
	assert_int_equal(getifaddrs(&list), 0);
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		int k = 0;

		while (k < t->nnics && strcmp(t->nics[k].name, i->ifa_name))
			k++;
		if (k == t->nnics && t->nnics < LN_TOPO_NICS_MAX)
			fail_msg("%s is missing", i->ifa_name);
	}
	freeifaddrs(list);
}

static bool is_link_local(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const void *)a;

	return a->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

static void addresses_are_ordered_and_link_local_ones_scoped(void **state)
{
	struct ln_topo *t = read_with("");

	(void)state;
	for (int i = 0; i < t->nnics; i++) {
		struct ln_topo_nic *nic = &t->nics[i];
		int last = 0;

		assert_in_range(nic->naddrs, 0, LN_TOPO_ADDRS_MAX);
		for (int k = 0; k < nic->naddrs; k++) {
			struct sockaddr_storage *a = &nic->addrs[k];
			int class = is_link_local(a) ? 2 :
				    a->ss_family == AF_INET6;

			assert_true(a->ss_family == AF_INET ||
				    a->ss_family == AF_INET6);
			assert_true(class >= last);
			last = class;
			if (class == 2)
				assert_int_equal(
					((struct sockaddr_in6 *)a)
						->sin6_scope_id,
					if_nametoindex(nic->name));
		}
	}
}

static void nothing_usable_comes_after_loopback(void **state)
{
	struct ln_topo *t = read_with("");
	bool lo = false;

	(void)state;
	for (int i = 0; i < t->nnics; i++) {
		struct ln_topo_nic *nic = &t->nics[i];

		assert_true(nic->selected);
		if (nic->loopback)
			lo = true;
		else
			assert_false(lo && nic->up && nic->naddrs);
	}
}

static void two_processes_have_the_same_identity(void **state)
{
	uint64_t other[2], mine[2];

	(void)state;
	memcpy(mine, read_with("")->node, sizeof(mine));
	read_in_child("", other);
	assert_memory_equal(mine, other, sizeof(mine));
	assert_true(mine[0] && mine[1] && mine[0] != mine[1]);
	/* Read again: nothing random, nothing uninitialised in it. */
	assert_memory_equal(mine, read_with("")->node, sizeof(mine));
}

static void node_names_split_a_machine(void **state)
{
	uint64_t none[2], a[2], b[2], other[2];

	(void)state;
	memcpy(none, read_with("")->node, sizeof(none));
	memcpy(a, read_with("a")->node, sizeof(a));
	assert_string_equal(read_with("a")->node_name, "a");
	memcpy(b, read_with("b")->node, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, none, sizeof(a));
	read_in_child("a", other);
	assert_memory_equal(a, other, sizeof(a));
}

static void a_node_name_that_is_too_long_is_refused(void **state)
{
	static struct ln_topo t;
	char name[300];
	struct ln_config c = { .node = name };

	(void)state;
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(ln_topo_read(&c, &t), LUNE_ERR_INVAL);
	assert_non_null(strstr(lune_last_error(), "LUNE_NODE"));
	name[255] = '\0';
	assert_int_equal(ln_topo_read(&c, &t), LUNE_OK);
	assert_string_equal(t.node_name, name);
}

static void memory_is_bound_to_nodes_that_exist(void **state)
{
	size_t n = 1 << 16;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	p[0] = 7;
	assert_int_equal(ln_topo_bind_memory(p, n, 0), LUNE_OK);
	assert_int_equal(p[0], 7);
	p[n - 1] = 8;
	assert_int_equal(ln_topo_bind_memory(p, n, -1), LUNE_ERR_INVAL);
	assert_int_equal(ln_topo_bind_memory(p, n, 1 << 20), LUNE_ERR_INVAL);
	assert_non_null(strstr(lune_last_error(), "NUMA node 1048576"));
	munmap(p, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_a_name_cores_and_memory),
		cmocka_unit_test(cores_follow_the_affinity),
		cmocka_unit_test(every_interface_of_the_system_is_there),
		cmocka_unit_test(
			addresses_are_ordered_and_link_local_ones_scoped),
		cmocka_unit_test(nothing_usable_comes_after_loopback),
		cmocka_unit_test(two_processes_have_the_same_identity),
		cmocka_unit_test(node_names_split_a_machine),
		cmocka_unit_test(a_node_name_that_is_too_long_is_refused),
		cmocka_unit_test(memory_is_bound_to_nodes_that_exist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
