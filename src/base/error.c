/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's last error: one sentence in thread-local storage.
 *
 * The text lives in a fixed buffer, because a failure must be describable when
 * there is no memory left.  A sentence is always formed in a second buffer
 * first, so that the arguments may point into the old one.  A sentence longer
 * than the buffer is cut.  errno is the same after these calls as before.
 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>

#define SENTENCE_BYTES 1024

static _Thread_local char sentence[SENTENCE_BYTES];

/* Cut text at the end of the buffer. */
static void commit(const char *text)
{
	size_t n = strnlen(text, SENTENCE_BYTES - 1);

	memmove(sentence, text, n);
	sentence[n] = '\0';
}

/* Add ": tail" to a text of SENTENCE_BYTES, as far as it fits. */
static void append(char *text, const char *tail)
{
	size_t at = strlen(text), n;

	if (at + 3 > SENTENCE_BYTES)
		return;
	memcpy(text + at, ": ", 2);
	at += 2;
	n = strnlen(tail, SENTENCE_BYTES - 1 - at);
	memcpy(text + at, tail, n);
	text[at + n] = '\0';
}

int ln_error(int code, const char *fmt, ...)
{
	char text[SENTENCE_BYTES];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	commit(text);
	errno = saved;
	return code;
}

int ln_error_errno(int code, const char *fmt, ...)
{
	char text[SENTENCE_BYTES], buf[128];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(text, strerror_r(saved, buf, sizeof(buf)));
	commit(text);
	errno = saved;
	return code;
}

int ln_error_prefix(int code, const char *fmt, ...)
{
	char text[SENTENCE_BYTES];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(text, sentence[0] ? sentence : lune_strerror(code));
	commit(text);
	errno = saved;
	return code;
}

void ln_error_set(const char *text)
{
	commit(text);
}

const char *lune_last_error(void)
{
	return sentence;
}
