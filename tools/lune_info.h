/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of lune-info share. */
#ifndef LUNE_INFO_TOOL_H
#define LUNE_INFO_TOOL_H

#include <jansson.h>
#include <stdbool.h>

#include <lune/info.h>
#include <lune/lune.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct info_args {
	bool config, json, routes, meta_serve;
	const char *bootstrap;
	int timeout_ms; /* of joining and connecting (--routes) */
	/* meta-serve */
	const char *host, *key_file;
	int port;
};

/* Each runs one mode and returns the exit status. */
int info_overview(const struct info_args *a);
int info_config(const struct info_args *a);
int info_routes(const struct info_args *a);
int info_meta_serve(const struct info_args *a);

/* Say what failed, with the cause that Lune knows; returns EXIT_FAILED. */
int info_fail(const char *what, int code);
/* "12.5 GiB", "4 KiB": at most 16 bytes with the NUL. */
const char *info_bytes(uint64_t bytes, char out[16]);
/* Print and free; returns the exit status. */
int info_print_json(json_t *j);
/* A string for JSON whatever bytes it has (control bytes become '?'). */
json_t *info_json_text(const char *text);

#endif
