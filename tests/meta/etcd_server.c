/* SPDX-License-Identifier: Apache-2.0 */
/* A real etcd for tests. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/meta/etcd_server.h"
#include "tests/meta/suite.h"

int etcd_free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    getsockname(fd, (struct sockaddr *)&a, &n)) {
		perror("free port");
		exit(1);
	}
	close(fd);
	return ntohs(a.sin_port);
}

void etcd_find(struct etcd *e)
{
	const char *given = getenv("ETCD"), *path = getenv("PATH");
	size_t n;

	memset(e, 0, sizeof(*e));
	if (given && *given) {
		snprintf(e->program, sizeof(e->program), "%s", given);
		return;
	}
	while (path && *path) {
		n = strcspn(path, ":");
		snprintf(e->program, sizeof(e->program), "%.*s/etcd", (int)n,
			 path);
		if (!access(e->program, X_OK))
			return;
		path += n + (path[n] == ':');
	}
	fprintf(stderr, "skipped: no etcd here (Debian: etcd-server)\n");
	exit(77);
}

/* ---- one member --------------------------------------------------------- */

static void run_member(const struct etcd *e, int i)
{
	char name[16], data[96], client[64], peer[64], log[96];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "m%d", i);
	snprintf(data, sizeof(data), "%s/m%d", e->folder, i);
	snprintf(log, sizeof(log), "%s/m%d.log", e->folder, i);
	snprintf(client, sizeof(client), "http://127.0.0.1:%d",
		 e->member[i].port);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%d",
		 e->member[i].peer_port);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	/* The machine does not crash in a test: no fsync is needed. */
	execl(e->program, e->program, "--name", name, "--data-dir", data,
	      "--listen-client-urls", client, "--advertise-client-urls",
	      client, "--listen-peer-urls", peer,
	      "--initial-advertise-peer-urls", peer, "--initial-cluster",
	      e->cluster, "--unsafe-no-fsync=true", (char *)NULL);
	_exit(127);
}

static void print_log(const struct etcd *e, int i)
{
	char command[160];

	snprintf(command, sizeof(command), "tail -n 5 %s/m%d.log >&2",
		 e->folder, i);
	if (system(command))
		perror("tail");
}

static int start_member(struct etcd *e, int i)
{
	int pid = fork();

	if (pid < 0)
		return -1;
	if (!pid)
		run_member(e, i);
	e->member[i].pid = pid;
	return 0;
}

static int wait_ready(const struct etcd *e, int i)
{
	struct ln_meta_record r;
	struct ln_meta *m;
	char url[64];
	int rc;

	snprintf(url, sizeof(url), "etcd://127.0.0.1:%d", e->member[i].port);
	rc = ln_meta_open(url, &m);
	if (rc)
		return rc;
	rc = ln_meta_get(m, "is it there", LONG, &r);
	ln_meta_close(m);
	if (rc == LUNE_ERR_NOTFOUND)
		return 0;
	fprintf(stderr, "etcd does not start: %s\n", lune_last_error());
	print_log(e, i);
	return -1;
}

void etcd_kill(struct etcd *e, int member)
{
	int pid = e->member[member].pid;

	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	e->member[member].pid = 0;
	e->member[member].frozen = false;
}

int etcd_restart(struct etcd *e, int member)
{
	etcd_kill(e, member);
	return start_member(e, member);
}

/* A stop takes a moment to reach all threads: what we say after it may not. */
void etcd_freeze(struct etcd *e, int member, bool on)
{
	int pid = e->member[member].pid;

	if (pid <= 0)
		return;
	kill(pid, on ? SIGSTOP : SIGCONT);
	while (waitpid(pid, NULL, on ? WUNTRACED : WCONTINUED) < 0 &&
	       errno == EINTR)
		;
	e->member[member].frozen = on;
}

int etcd_mend(struct etcd *e)
{
	for (int i = 0; i < e->members; i++) {
		if (e->member[i].frozen)
			etcd_freeze(e, i, false);
		if (!e->member[i].pid && start_member(e, i))
			return -1;
	}
	return 0;
}

static void remove_tree(const char *path)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	if (system(command))
		fprintf(stderr, "%s stays\n", path);
}

void etcd_wipe(struct etcd *e, int member)
{
	char data[96];

	snprintf(data, sizeof(data), "%s/m%d", e->folder, member);
	remove_tree(data);
}

/* ---- all ---------------------------------------------------------------- */

/* In memory if possible: the disk may be busy with everybody's writes. */
static int make_folder(struct etcd *e)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(e->folder, sizeof(e->folder), "/dev/shm/lune-etcd-XXXXXX");
	if (mkdtemp(e->folder))
		return 0;
	snprintf(e->folder, sizeof(e->folder), "%.40s/lune-etcd-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	return mkdtemp(e->folder) ? 0 : -1;
}

int etcd_start(struct etcd *e, int members)
{
	size_t at = 0;

	if (make_folder(e))
		return -1;
	e->members = members;
	for (int i = 0; i < members; i++) {
		e->member[i].port = etcd_free_port();
		e->member[i].peer_port = etcd_free_port();
		at += (size_t)snprintf(e->cluster + at,
				       sizeof(e->cluster) - at,
				       "%sm%d=http://127.0.0.1:%d",
				       i ? "," : "", i,
				       e->member[i].peer_port);
	}
	for (int i = 0; i < members; i++)
		if (start_member(e, i))
			return -1;
	for (int i = 0; i < members; i++)
		if (wait_ready(e, i))
			return -1;
	return 0;
}

void etcd_stop(struct etcd *e)
{
	for (int i = 0; i < e->members; i++)
		etcd_kill(e, i);
	remove_tree(e->folder);
}
