/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lune-info meta-serve: the embedded metadata server alone.  The signals that
 * end it are blocked before the server makes its thread and taken by sigwait,
 * so that none can be lost.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <lune/meta.h>

#include "lune_info.h"

static void say_where(const struct info_args *a, int port)
{
	const char *host = a->host ? a->host : "127.0.0.1";
	bool v6 = strchr(host, ':') && *host != '[';

	printf("lune-info: metadata server at lune://%s%s%s:%d\n",
	       v6 ? "[" : "", host, v6 ? "]" : "", port);
	fflush(stdout);
	if (!a->key_file && a->host)
		fprintf(stderr,
			"lune-info: without --key-file whoever reaches this "
			"port can read and change the records\n");
}

int info_meta_serve(const struct info_args *a)
{
	struct lune_meta_server_opts o = {
		.size = sizeof(o),
		.host = a->host,
		.port = a->port,
		.key_file = a->key_file,
	};
	lune_meta_server *server;
	sigset_t set;
	int rc, sig;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	rc = lune_meta_server_open(&o, &server);
	if (rc)
		return info_fail("starting the metadata server", rc);
	say_where(a, lune_meta_server_port(server));
	sigwait(&set, &sig);
	lune_meta_server_close(server);
	printf("lune-info: metadata server stopped by %s\n", strsignal(sig));
	return 0;
}
