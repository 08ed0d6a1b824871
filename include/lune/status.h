/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes.  Every call that can fail returns an int: LUNE_OK (0) or one
 * of the negative codes below; calls that count return a value >= 0 instead.
 * The codes are grouped by what is lost when one is returned:
 *
 *   the call     nothing was started, the arguments or the moment were wrong;
 *   the request  this operation failed, the peer and the context are fine;
 *   the peer     nothing more can be had from that process (incarnation);
 *   the context  close it and open another.
 *
 * The sentence behind a code is lune_strerror(); the sentence that names the
 * rank, host, address, transport and cause of the last failure in this thread
 * is lune_last_error().
 */
#ifndef LUNE_STATUS_H
#define LUNE_STATUS_H

#include <lune/decls.h>

LUNE_DECLS_BEGIN

/* X(name, value, sentence) */
#define LUNE_STATUS_MAP(X)                                                     \
	X(OK, 0, "success")                                                    \
	/* the call */                                                         \
	X(ERR_INVAL, -1, "invalid argument")                                   \
	X(ERR_NOMEM, -2, "out of memory")                                      \
	X(ERR_UNSUPPORTED, -3, "not supported by this build or machine")       \
	X(ERR_AGAIN, -4, "nothing to deliver now, try again")                  \
	X(ERR_BUSY, -5, "the object is in use")                                \
	X(ERR_LIMIT, -6, "a limit was reached")                                \
	X(ERR_EXIST, -7, "the name is taken")                                  \
	X(ERR_NOTFOUND, -8, "no such name")                                    \
	X(ERR_SYSTEM, -9, "a system call failed")                              \
	X(ERR_IO, -10, "reading or writing a file failed")                     \
	/* the request */                                                      \
	X(ERR_TIMEOUT, -20, "the deadline passed")                             \
	X(ERR_CANCELED, -21, "canceled")                                       \
	X(ERR_BOUNDS, -22, "outside the memory region")                        \
	X(ERR_ACCESS, -23, "the region does not grant this right")             \
	X(ERR_STALE, -24, "the memory region was released")                    \
	X(ERR_CORRUPT, -25, "the data does not match its checksum")            \
	X(ERR_CONFLICT, -26, "a concurrent change won")                        \
	X(ERR_COMPACTED, -27, "the revision is no longer kept")                \
	/* the peer */                                                         \
	X(ERR_PEER, -40, "the peer process is gone or does not answer")        \
	X(ERR_UNREACHABLE, -41, "no transport reaches the peer")               \
	X(ERR_AUTH, -42, "the job key does not match")                         \
	X(ERR_PROTO, -43, "the peer broke the protocol")                       \
	/* the context */                                                      \
	X(ERR_BOOT, -60, "the bootstrap failed")                               \
	X(ERR_META, -61, "the metadata service does not answer")               \
	X(ERR_FORKED, -62, "the context belongs to the parent process")        \
	X(ERR_CLOSED, -63, "the context is closed")

enum lune_status_code {
#define LUNE_STATUS_ENUM(name, value, text) LUNE_##name = (value),
	LUNE_STATUS_MAP(LUNE_STATUS_ENUM)
#undef LUNE_STATUS_ENUM
};

/* The sentence for a code; never NULL, static storage. Any thread. */
const char *lune_strerror(int code);

/* The name of a code ("LUNE_ERR_PEER"); never NULL, static storage. */
const char *lune_strcode(int code);

/*
 * What went wrong last in this thread, with names and causes. Never NULL; ""
 * when nothing has. Valid until the next failing Lune call of this thread.
 */
const char *lune_last_error(void);

LUNE_DECLS_END
#endif
