/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lune-info: what this build, machine, environment and job look like, and why
 * each choice was made.  This file is the command line.
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lune_info.h"

enum { OPT_JSON = 256, OPT_HOST, OPT_PORT, OPT_KEY_FILE, OPT_TIMEOUT };

static const struct argp_option options[] = {
	{ "config", 'c', NULL, 0,
	  "Every LUNE_* variable with type, default, value and source", 0 },
	{ "routes", 'r', NULL, 0,
	  "Join the job, connect to every rank and print how each is reached "
	  "(start it on every rank)", 0 },
	{ "json", OPT_JSON, NULL, 0, "Print one JSON object", 0 },
	{ "bootstrap", 'b', "URL", 0,
	  "World to join or explain (default: LUNE_BOOTSTRAP, else detect)",
	  0 },
	{ "timeout", OPT_TIMEOUT, "SECONDS", 0,
	  "With --routes: give up after so long (default 30)", 0 },
	{ NULL, 0, NULL, 0, "Options of meta-serve:", 1 },
	{ "host", OPT_HOST, "ADDRESS", 0,
	  "Listen there (default: 127.0.0.1; 0.0.0.0 or :: for all)", 1 },
	{ "port", OPT_PORT, "PORT", 0,
	  "Listen there (default: any free port, which is printed)", 1 },
	{ "key-file", OPT_KEY_FILE, "FILE", 0,
	  "Serve only those who have the same LUNE_JOB_KEY_FILE", 1 },
	{ 0 }
};

static const char doc[] =
	"Show what Lune sees: version and features of this build, this "
	"machine, its network devices, and the bootstrap that would be chosen "
	"and why.\v"
	"meta-serve runs the metadata server for jobs without etcd, until it "
	"gets SIGINT or SIGTERM.\n\n"
	"  lune-info\n"
	"  lune-info --config\n"
	"  mpirun -n 4 lune-info --routes\n"
	"  lune-info meta-serve --host 0.0.0.0 --port 7777 --key-file key\n\n"
	"Exit codes: 0 done, 1 failed, 2 wrong arguments.";

static int number(struct argp_state *state, const char *name, const char *text,
		  int lo, int hi)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < lo || v > hi)
		argp_error(state, "--%s %s: give a number from %d to %d", name,
			   text, lo, hi);
	return (int)v;
}

static void check(const struct info_args *a, struct argp_state *state)
{
	bool serve_only = a->host || a->key_file || a->port;

	if (serve_only && !a->meta_serve)
		argp_error(state, "--host, --port and --key-file belong to "
				  "meta-serve");
	if (a->meta_serve && (a->config || a->routes || a->json))
		argp_error(state, "meta-serve goes with --host, --port and "
				  "--key-file only");
	if (a->config && a->routes)
		argp_error(state, "choose one of --config and --routes");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info_args *a = state->input;

	switch (key) {
	case 'c':
		a->config = true;
		return 0;
	case 'r':
		a->routes = true;
		return 0;
	case 'b':
		a->bootstrap = arg;
		return 0;
	case OPT_JSON:
		a->json = true;
		return 0;
	case OPT_TIMEOUT:
		a->timeout_ms = 1000 * number(state, "timeout", arg, 1, 86400);
		return 0;
	case OPT_HOST:
		a->host = arg;
		return 0;
	case OPT_PORT:
		a->port = number(state, "port", arg, 1, 65535);
		return 0;
	case OPT_KEY_FILE:
		a->key_file = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (a->meta_serve || strcmp(arg, "meta-serve"))
			argp_error(state, "unknown command %s (there is: "
					  "meta-serve)", arg);
		a->meta_serve = true;
		return 0;
	case ARGP_KEY_END:
		check(a, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	struct argp argp = { options, parse, "[meta-serve]", doc, NULL, NULL,
			     NULL };
	struct info_args args = { .timeout_ms = 30000 };

	argp_program_version = "lune-info " PACKAGE_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (args.meta_serve)
		return info_meta_serve(&args);
	if (args.config)
		return info_config(&args);
	if (args.routes)
		return info_routes(&args);
	return info_overview(&args);
}
