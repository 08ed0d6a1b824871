/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of lune-ckpt.
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bcast.h"

enum { OPT_BLOCK = 256, OPT_TIMEOUT, OPT_NO_SYNC, OPT_JSON, OPT_TO };

static const struct argp_option options[] = {
	{ "to", OPT_TO, "DEST", 0,
	  "Where each copy goes; {rank} and {host} are replaced.  With {rank} "
	  "every rank gets its own copy, else every node gets one.  A path "
	  "under /dev/shm keeps it in shared memory.  Without --to the bytes "
	  "are received, verified and dropped", 0 },
	{ "verify", 'v', NULL, 0,
	  "Every rank reads its copy back and compares all blocks", 0 },
	{ "force", 'f', NULL, 0, "Replace DEST if it exists", 0 },
	{ "block", OPT_BLOCK, "BYTES", 0,
	  "Block size, 64K to 64M (default 4M)", 0 },
	{ "timeout", OPT_TIMEOUT, "SECONDS", 0,
	  "Give up when nothing moves for so long (default 60)", 0 },
	{ "no-sync", OPT_NO_SYNC, NULL, 0,
	  "Do not wait until the copies are on the disk", 0 },
	{ "json", OPT_JSON, NULL, 0, "Print the summary as one JSON object",
	  0 },
	{ "quiet", 'q', NULL, 0, "No progress, no summary", 0 },
	{ 0 }
};

static const char doc[] =
	"Copy a checkpoint (a file, or a directory with its shards, index and "
	"tokenizer) from rank 0 to every node of a job.\v"
	"Start it on every rank:\n"
	"  mpirun -n 8 lune-ckpt bcast model/ --to /dev/shm/model\n"
	"  torchrun --nproc-per-node 8 --no-python lune-ckpt bcast model/ "
	"--to '/data/{host}/model'\n\n"
	"Only rank 0 reads SRC.  DEST appears when it is complete and "
	"verified.  Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 "
	"verification failed, 130 interrupted.";

static int parse_size(const char *text, uint64_t *out)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-')
		return -1;
	if (*end && strchr("kKmM", *end))
		v <<= strchr("kK", *end++) ? 10 : 20;
	*out = v;
	return *end ? -1 : 0;
}

static void parse_timeout(struct ckpt_args *a, const char *text,
			  struct argp_state *state)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < 1 || v > 86400)
		argp_error(state, "--timeout %s: give 1 to 86400 seconds",
			   text);
	a->timeout_ms = (int)v * 1000;
}

static void parse_word(struct ckpt_args *a, const char *text,
		       struct argp_state *state)
{
	if (state->arg_num == 0 && strcmp(text, "bcast"))
		argp_error(state, "unknown command %s (there is: bcast)", text);
	else if (state->arg_num == 1)
		a->source = text;
	else if (state->arg_num > 1)
		argp_error(state, "one SRC only, what is %s?", text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ckpt_args *a = state->input;

	switch (key) {
	case OPT_TO:
		if (!*arg)
			argp_error(state, "--to: empty path");
		a->to = arg;
		return 0;
	case OPT_BLOCK:
		if (parse_size(arg, &a->block) || a->block < CKPT_BLOCK_MIN ||
		    a->block > CKPT_BLOCK_MAX)
			argp_error(state, "--block %s: give 64K to 64M", arg);
		return 0;
	case OPT_TIMEOUT:
		parse_timeout(a, arg, state);
		return 0;
	case 'v':
		a->verify = true;
		return 0;
	case 'f':
		a->force = true;
		return 0;
	case OPT_NO_SYNC:
		a->sync = false;
		return 0;
	case OPT_JSON:
		a->json = true;
		return 0;
	case 'q':
		a->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		parse_word(a, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (!a->source)
			argp_error(state, "say what to copy: bcast SRC");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void on_signal(int sig)
{
	(void)sig;
	ckpt_interrupted = 1;
}

int main(int argc, char **argv)
{
	struct argp argp = { options, parse, "bcast SRC", doc, NULL, NULL,
			     NULL };
	struct ckpt_args args = { .block = CKPT_BLOCK_DEFAULT,
				  .timeout_ms = 60000, .sync = true };
	struct sigaction sa = { .sa_handler = on_signal };

	argp_program_version = "lune-ckpt " PACKAGE_VERSION;
	argp_err_exit_status = CKPT_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	/* The tool owns its process: it cleans up before it ends. */
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	return ckpt_bcast(&args);
}
