/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job key: 32 bytes that prove membership.  Either made at random by the
 * first rank and handed on through the launcher's store, or, where that store
 * or the network is open to others, derived from the bytes of a file that all
 * ranks can read.  HMAC-SHA256 makes 32 bytes of any number; the label keeps
 * the key from being the MAC of anything else over the same secret.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "boot/internal.h"

#define KEY_FILE_MAX 65536

static int bad_file(const char *path)
{
	return ln_error_errno(LUNE_ERR_INVAL, "LUNE_JOB_KEY_FILE=%.200s", path);
}

static int read_file(const char *path, uint8_t *buf, size_t cap, size_t *out)
{
	size_t len = 0;
	ssize_t n = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return bad_file(path);
	while (n > 0 && len < cap) {
		n = read(fd, buf + len, cap - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			len += (size_t)n;
	}
	if (n < 0) {
		bad_file(path);
		close(fd);
		return LUNE_ERR_INVAL;
	}
	close(fd);
	*out = len;
	return LUNE_OK;
}

int ln_key_load(const struct ln_config *conf, uint8_t key[LN_KEY_BYTES],
		bool *have)
{
	static const uint8_t label[LN_KEY_BYTES] = "lune job key v1";
	uint8_t *buf;
	size_t len = 0;
	int rc;

	*have = *conf->job_key_file;
	if (!*have)
		return LUNE_OK;
	buf = ln_malloc(KEY_FILE_MAX + 1);
	if (!buf)
		return LUNE_ERR_NOMEM;
	rc = read_file(conf->job_key_file, buf, KEY_FILE_MAX + 1, &len);
	if (!rc && (!len || len > KEY_FILE_MAX))
		rc = ln_error(LUNE_ERR_INVAL,
			      "LUNE_JOB_KEY_FILE=%.200s: must have 1 to %d "
			      "bytes", conf->job_key_file, KEY_FILE_MAX);
	if (!rc)
		ln_hmac(label, buf, len, key);
	explicit_bzero(buf, KEY_FILE_MAX + 1);
	ln_free(buf);
	return rc;
}
