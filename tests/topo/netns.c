/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Node identity across namespaces, held against what it promises: whether an
 * abstract unix socket of one process is reached by the other.  And the
 * interfaces of a namespace that we made, while /sys still shows the old one.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/unit.h"
#include "topo/topo.h"

struct view {
	uint64_t node[2];
	bool reaches;
	int up, nnics, naddrs;
	char first[32];
};

static struct sockaddr_un name;
static socklen_t name_len;

static int listen_abstract(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	/* The kernel chooses a free name: autobind. */
	name.sun_family = AF_UNIX;
	name_len = sizeof(name);
	if (fd < 0 || bind(fd, (void *)&name, sizeof(sa_family_t)) ||
	    listen(fd, 4) || getsockname(fd, (void *)&name, &name_len))
		return -1;
	return fd;
}

static void look(const char *node, struct view *v)
{
	static struct ln_topo t;
	struct ln_config c = { .node = (char *)node };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(v, 0, sizeof(*v));
	v->reaches = !connect(fd, (void *)&name, name_len);
	close(fd);
	if (ln_topo_read(&c, &t))
		_exit(3);
	memcpy(v->node, t.node, sizeof(v->node));
	v->nnics = t.nnics;
	for (int i = 0; i < t.nnics; i++)
		v->up += t.nics[i].up;
	v->naddrs = t.nics[0].naddrs;
	memcpy(v->first, t.nics[0].name, sizeof(v->first));
}

/* Up, and with more addresses, labelled lo:1 and so on, than topo keeps. */
static void raise_loopback(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct sockaddr_in *a = (void *)&r.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (ioctl(fd, SIOCSIFFLAGS, &r))
		_exit(4);
	for (int i = 1; i <= 2 * LN_TOPO_ADDRS_MAX; i++) {
		snprintf(r.ifr_name, sizeof(r.ifr_name), "lo:%d", i);
		memset(a, 0, sizeof(*a));
		a->sin_family = AF_INET;
		a->sin_addr.s_addr = htonl(0x7f000100u + (unsigned)i);
		if (ioctl(fd, SIOCSIFADDR, &r))
			_exit(4);
	}
	close(fd);
}

/* Look from a child in namespaces of its own; false: not permitted. */
static bool look_from(int flags, const char *node, struct view *out)
{
	int fds[2], status = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct view v;

		if (flags && unshare(flags))
			_exit(77);
		if (flags & CLONE_NEWNET)
			raise_loopback();
		look(node, &v);
		_exit(write(fds[1], &v, sizeof(v)) == sizeof(v) ? 0 : 5);
	}
	close(fds[1]);
	if (read(fds[0], out, sizeof(*out)) != sizeof(*out))
		memset(out, 0, sizeof(*out));
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return false;
	assert_int_equal(status, 0);
	return true;
}

static bool same(const struct view *a, const struct view *b)
{
	return !memcmp(a->node, b->node, sizeof(a->node));
}

static void identity_means_that_the_socket_reaches(void **state)
{
	static const int flags[] = { 0, CLONE_NEWNET, CLONE_NEWNS,
				     CLONE_NEWUTS, CLONE_NEWNET | CLONE_NEWNS };
	struct view here, there;

	(void)state;
	look("", &here);
	assert_true(here.reaches);
	for (size_t i = 0; i < LN_ARRAY_SIZE(flags); i++) {
		assert_true(look_from(flags[i], "", &there));
		assert_int_equal(same(&here, &there), there.reaches);
		assert_int_equal(there.reaches, !(flags[i] & CLONE_NEWNET));
	}
}

static void a_common_node_name_does_not_join_namespaces(void **state)
{
	struct view here, there;

	(void)state;
	look("n", &here);
	assert_true(look_from(CLONE_NEWNET, "n", &there));
	assert_false(there.reaches);
	assert_false(same(&here, &there));
}

static void interfaces_are_those_of_our_namespace(void **state)
{
	struct view there;

	(void)state;
	assert_true(look_from(CLONE_NEWNET, "", &there));
	assert_string_equal(there.first, "lo");
	assert_int_equal(there.up, 1);
	assert_int_equal(there.naddrs, LN_TOPO_ADDRS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_means_that_the_socket_reaches),
		cmocka_unit_test(a_common_node_name_does_not_join_namespaces),
		cmocka_unit_test(interfaces_are_those_of_our_namespace),
	};
	struct view v;

	if (listen_abstract() < 0)
		return 1;
	if (!look_from(CLONE_NEWNET | CLONE_NEWNS, "", &v)) {
		printf("skipped: no permission to make a network namespace\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
