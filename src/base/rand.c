/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random bytes from the kernel.  Used for identities and challenges, so a
 * failure is an error and never a weaker source.
 */
#include "base/base.h"

#include <errno.h>
#include <sys/random.h>

int ln_random(void *buf, size_t bytes)
{
	uint8_t *p = buf;

	while (bytes > 0) {
		ssize_t n = getrandom(p, bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return ln_error_errno(LUNE_ERR_SYSTEM,
					      "getrandom of %zu bytes", bytes);
		p += n;
		bytes -= (size_t)n;
	}
	return LUNE_OK;
}
