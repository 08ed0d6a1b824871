/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: to stderr, or to the program's sink.
 *
 * A line is formed on the stack and written with one write(2), so that lines
 * of several threads and processes do not mix and logging allocates nothing.
 * Control characters become spaces: parts of a message may come from a peer,
 * and a peer must not be able to forge a line.
 *
 * The sink is called under a read lock: when lune_log_sink() has returned, the
 * old sink is not running any more and its argument may be freed.  A sink may
 * log, but must not call lune_log_sink().
 *
 * The level is LUNE_LOG's until the program sets one; then the program's.
 */
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define LINE_BYTES 1200

/* Written by set_level and level_default, read without order by ln_log(). */
_Atomic int ln_log_level = LUNE_LOG_WARN;
static _Atomic bool set_by_program;

/* Guards sink; taken last of all locks. */
static pthread_rwlock_t sink_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	lune_log_fn *fn;
	void *arg;
} sink;

static const char *const level_names[] = { "none", "error", "warn", "info",
					   "debug" };

int ln_log_level_parse(const char *name)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(level_names); i++)
		if (!strcmp(name, level_names[i]))
			return (int)i;
	return LUNE_ERR_INVAL;
}

void ln_log_level_default(int level)
{
	if (!atomic_load(&set_by_program))
		atomic_store(&ln_log_level, level);
}

void lune_log_set_level(int level)
{
	level = ln_max(level, (int)LUNE_LOG_NONE);
	level = ln_min(level, (int)LUNE_LOG_DEBUG);
	atomic_store(&set_by_program, true);
	atomic_store(&ln_log_level, level);
}

void lune_log_sink(lune_log_fn *fn, void *arg)
{
	pthread_rwlock_wrlock(&sink_lock);
	sink.fn = fn;
	sink.arg = arg;
	pthread_rwlock_unlock(&sink_lock);
}

/* The prefix of a line on stderr: time (UTC), host, pid, level. */
static size_t prefix(char *out, size_t cap, int level)
{
	char host[65] = "?", when[32];
	struct timespec ts;
	struct tm tm;
	int n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	gethostname(host, sizeof(host) - 1);
	n = snprintf(out, cap, "%s.%03ldZ %s %d lune %s: ", when,
		     ts.tv_nsec / 1000000, host, (int)getpid(),
		     level_names[level]);
	return n < 0 ? 0 : ln_min((size_t)n, cap - 1);
}

static void to_stderr(int level, const char *text)
{
	char line[LINE_BYTES + 160];
	size_t at = prefix(line, sizeof(line) - 1, level);
	size_t n = ln_min(strlen(text), sizeof(line) - 1 - at);
	const char *p = line;

	memcpy(line + at, text, n);
	at += n;
	line[at++] = '\n';
	while (at > 0) {
		ssize_t w = write(STDERR_FILENO, p, at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return; /* There is nowhere left to complain to. */
		p += w;
		at -= (size_t)w;
	}
}

void ln_log_write(int level, const char *fmt, ...)
{
	char text[LINE_BYTES];
	int saved = errno, n;
	va_list ap;

	level = ln_min(ln_max(level, (int)LUNE_LOG_ERROR),
		       (int)LUNE_LOG_DEBUG);
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		text[0] = '\0';
	if (n >= (int)sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	pthread_rwlock_rdlock(&sink_lock);
	if (sink.fn)
		sink.fn(sink.arg, level, text);
	else
		to_stderr(level, text);
	pthread_rwlock_unlock(&sink_lock);
	errno = saved;
}
