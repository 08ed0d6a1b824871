/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Re-read a finished copy and compare every block with what rank 0 read: what
 * is checked is what a reader will get, page cache, disk and names included.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"

static int check_file(const char *path, const struct ckpt_manifest *m,
		      const struct ckpt_file *f, const uint64_t *hashes)
{
	uint64_t left = f->bytes, index = f->first;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *buf = malloc(m->block);
	int rc = LUNE_OK;

	if (fd < 0 || !buf)
		rc = ckpt_error(LUNE_ERR_IO, "verifying %s: %s", path,
				strerror(errno));
	for (; !rc && left; index++) {
		size_t want = left < m->block ? left : m->block, done = 0;
		ssize_t n = 1;

		while (done < want && n > 0) {
			n = read(fd, buf + done, want - done);
			if (n > 0)
				done += (size_t)n;
		}
		if (done < want || ckpt_hash(buf, want) != hashes[index])
			rc = ckpt_error(LUNE_ERR_CORRUPT,
					"%s: block %llu differs from the "
					"source", path,
					(unsigned long long)(index - f->first));
		left -= want;
		if (!rc && ckpt_interrupted)
			rc = ckpt_error(LUNE_ERR_CANCELED, "interrupted");
	}
	if (!rc && read(fd, buf, 1) != 0)
		rc = ckpt_error(LUNE_ERR_CORRUPT,
				"%s is longer than the source", path);
	free(buf);
	if (fd >= 0)
		close(fd);
	return rc;
}

int ckpt_verify(const char *path, const struct ckpt_manifest *m,
		const uint64_t *hashes)
{
	char full[2 * CKPT_PATH_MAX];
	int rc = LUNE_OK;

	for (size_t i = 0; i < m->nfiles && !rc; i++) {
		if (m->directory)
			snprintf(full, sizeof(full), "%s/%s", path,
				 m->files[i].path);
		else
			snprintf(full, sizeof(full), "%s", path);
		rc = check_file(full, m, &m->files[i], hashes);
	}
	return rc;
}
