/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over our own metadata service, which is a process of its own. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meta/meta.h"
#include "tests/boot/worlds.h"

/* Serves until it is killed, or its parent is. */
static void serve(int to)
{
	struct ln_meta_server_opts o = { .port = 0 };
	struct ln_meta_server *s;
	int port = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ln_meta_server_start(&o, &s))
		fprintf(stderr, "%s\n", lune_last_error());
	else
		port = ln_meta_server_port(s);
	if (write(to, &port, sizeof(port)) != sizeof(port))
		return;
	while (port)
		pause();
}

int main(void)
{
	int fds[2], port = 0, failed = 1;
	char url[64];
	pid_t pid;

	if (pipe(fds))
		return 1;
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid) {
		serve(fds[1]);
		_exit(1);
	}
	if (read(fds[0], &port, sizeof(port)) == sizeof(port) && port) {
		snprintf(url, sizeof(url), "lune://127.0.0.1:%d", port);
		failed = worlds_run(url);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return failed;
}
