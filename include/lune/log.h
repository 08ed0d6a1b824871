/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log.  The library writes nothing to stdout; by default warnings and errors
 * go to stderr, one line each, with time, host, pid and level.  LUNE_LOG=
 * error|warn|info|debug sets the level; a program may take the lines itself.
 */
#ifndef LUNE_LOG_H
#define LUNE_LOG_H

#include <lune/decls.h>

LUNE_DECLS_BEGIN

enum lune_log_level {
	LUNE_LOG_NONE = 0,
	LUNE_LOG_ERROR = 1,
	LUNE_LOG_WARN = 2,
	LUNE_LOG_INFO = 3,
	LUNE_LOG_DEBUG = 4,
};

/*
 * `line` is the message (no time, host or level, no newline, no control
 * characters), valid during the call only.  Called by any thread.  It may log
 * itself, but not call lune_log_sink.
 */
typedef void lune_log_fn(void *arg, int level, const char *line);

/*
 * Send lines to fn (NULL restores stderr).  Process-wide.  When it returns,
 * the sink before is not running any more.
 */
void lune_log_sink(lune_log_fn *fn, void *arg);
/* Process-wide; from then on LUNE_LOG is not looked at. */
void lune_log_set_level(int level);

LUNE_DECLS_END
#endif
