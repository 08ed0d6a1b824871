/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination.  Everything is written below DEST.partial-<pid>, space
 * reserved first, and renamed to DEST once it is complete and verified: the
 * final name never shows a half checkpoint.  What is not committed is
 * removed, also after an error or an interrupt.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt.h"
#include "tree.h"

struct ckpt_dest {
	char final[CKPT_PATH_MAX], partial[CKPT_PATH_MAX + 64];
	char replaced[CKPT_PATH_MAX + 64]; /* what --force moved away */
	bool directory, force, sync, committed;
	int fd;
	size_t open_file;
};

static int expand(const char **p, int rank, const char *host, char *out,
		  size_t cap)
{
	if (!strncmp(*p, "{rank}", 6)) {
		*p += 6;
		return snprintf(out, cap, "%d", rank);
	}
	if (!strncmp(*p, "{host}", 6)) {
		*p += 6;
		return snprintf(out, cap, "%s", host);
	}
	if (cap > 1) {
		out[0] = **p;
		out[1] = 0;
	}
	(*p)++;
	return 1;
}

int ckpt_dest_path(const char *to, int rank, const char *host, char *out,
		   size_t cap)
{
	size_t at = 0;

	while (*to) {
		int n = expand(&to, rank, host, out + at, cap - at);

		at += (size_t)n;
		if (at >= cap)
			return ckpt_error(LUNE_ERR_LIMIT,
					  "--to: path too long");
	}
	while (at > 1 && out[at - 1] == '/')
		at--;
	out[at] = 0;
	return LUNE_OK;
}

static int check_space(const struct ckpt_dest *d, const struct ckpt_manifest *m)
{
	char parent[CKPT_PATH_MAX], need[32], have[32], *slash;
	struct statvfs fs;
	uint64_t avail;

	snprintf(parent, sizeof(parent), "%s", d->final);
	slash = strrchr(parent, '/');
	if (!slash)
		snprintf(parent, sizeof(parent), ".");
	else
		slash[slash == parent] = 0;
	if (statvfs(parent, &fs))
		return ckpt_error(LUNE_ERR_IO, "%s: %s", parent,
				  strerror(errno));
	avail = (uint64_t)fs.f_bavail * fs.f_frsize;
	ckpt_size_text(m->total, need, sizeof(need));
	ckpt_size_text(avail, have, sizeof(have));
	if (avail < m->total)
		return ckpt_error(LUNE_ERR_IO,
				  "%s: the checkpoint needs %s and %s are free",
				  parent, need, have);
	return LUNE_OK;
}

static void file_path(const struct ckpt_dest *d, const struct ckpt_manifest *m,
		      size_t file, char *out, size_t cap)
{
	if (d->directory)
		snprintf(out, cap, "%s/%s", d->partial, m->files[file].path);
	else
		snprintf(out, cap, "%s", d->partial);
}

static int create_file(struct ckpt_dest *d, const struct ckpt_manifest *m,
		       size_t file)
{
	char path[2 * CKPT_PATH_MAX];
	uint64_t bytes = m->files[file].bytes;
	int fd, err = 0;

	file_path(d, m, file, path, sizeof(path));
	if (d->directory && tree_make_parents(path, strlen(d->partial)))
		return ckpt_error(LUNE_ERR_IO, "%s: %s", path, strerror(errno));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return ckpt_error(LUNE_ERR_IO, "%s: %s", path, strerror(errno));
	/* Reserve now: a full disk shows before the first byte moves. */
	if (bytes)
		err = posix_fallocate(fd, 0, (off_t)bytes);
	if (err == EOPNOTSUPP || err == EINVAL)
		err = ftruncate(fd, (off_t)bytes) ? errno : 0;
	close(fd);
	if (err)
		return ckpt_error(LUNE_ERR_IO,
				  "reserving %llu bytes for %s: %s",
				  (unsigned long long)bytes, path,
				  strerror(err));
	return LUNE_OK;
}

static int dest_prepare(struct ckpt_dest *d, const struct ckpt_manifest *m)
{
	struct stat st;
	int rc;

	if (!lstat(d->final, &st) && !d->force)
		return ckpt_error(LUNE_ERR_EXIST,
				  "%s exists (--force replaces it)", d->final);
	rc = check_space(d, m);
	if (rc)
		return rc;
	if (d->directory && mkdir(d->partial, 0777))
		return ckpt_error(LUNE_ERR_IO, "%s: %s", d->partial,
				  strerror(errno));
	for (size_t i = 0; i < m->nfiles && !rc; i++)
		rc = create_file(d, m, i);
	return rc;
}

int ckpt_dest_open(const struct ckpt_args *args, const char *path,
		   const struct ckpt_manifest *m, struct ckpt_dest **out)
{
	struct ckpt_dest *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	d->fd = -1;
	d->directory = m->directory;
	d->force = args->force;
	d->sync = args->sync;
	snprintf(d->final, sizeof(d->final), "%s", path);
	snprintf(d->partial, sizeof(d->partial), "%s.partial-%ld", path,
		 (long)getpid());
	rc = dest_prepare(d, m);
	if (rc) {
		ckpt_dest_close(d);
		return rc;
	}
	*out = d;
	return LUNE_OK;
}

static int open_file(struct ckpt_dest *d, const struct ckpt_manifest *m,
		     size_t file)
{
	char path[2 * CKPT_PATH_MAX];

	if (d->fd >= 0 && d->open_file == file)
		return LUNE_OK;
	if (d->fd >= 0)
		close(d->fd);
	file_path(d, m, file, path, sizeof(path));
	d->fd = open(path, O_WRONLY | O_CLOEXEC);
	d->open_file = file;
	if (d->fd < 0)
		return ckpt_error(LUNE_ERR_IO, "%s: %s", path, strerror(errno));
	return LUNE_OK;
}

int ckpt_dest_write(struct ckpt_dest *d, const struct ckpt_manifest *m,
		    uint64_t index, const void *p)
{
	struct ckpt_block b;
	uint64_t done = 0;
	int rc;

	ckpt_manifest_block(m, index, &b);
	rc = open_file(d, m, b.file);
	while (!rc && done < b.bytes) {
		ssize_t n = pwrite(d->fd, (const char *)p + done,
				   b.bytes - done, (off_t)(b.offset + done));

		if (n < 0 && errno != EINTR)
			rc = ckpt_error(LUNE_ERR_IO, "writing %s/%s: %s",
					d->partial, m->files[b.file].path,
					strerror(errno));
		if (n > 0)
			done += (uint64_t)n;
	}
	return rc;
}

int ckpt_dest_finish(struct ckpt_dest *d, const struct ckpt_manifest *m)
{
	int rc = LUNE_OK;

	for (size_t i = 0; i < m->nfiles && !rc; i++) {
		rc = open_file(d, m, i);
		if (!rc && ((d->sync && fsync(d->fd)) ||
			    fchmod(d->fd, m->files[i].mode)))
			rc = ckpt_error(LUNE_ERR_IO, "finishing %s: %s",
					m->files[i].path, strerror(errno));
	}
	if (d->fd >= 0 && close(d->fd) && !rc)
		rc = ckpt_error(LUNE_ERR_IO, "closing %s: %s", d->partial,
				strerror(errno));
	d->fd = -1;
	return rc;
}

/* With --force: whatever stands at DEST is moved aside, removed later. */
static int move_old(struct ckpt_dest *d)
{
	struct stat st;

	if (!d->force || lstat(d->final, &st))
		return 0;
	if (!d->directory && S_ISREG(st.st_mode))
		return 0; /* rename replaces a file atomically */
	snprintf(d->replaced, sizeof(d->replaced), "%s.old-%ld", d->final,
		 (long)getpid());
	return rename(d->final, d->replaced);
}

static void sync_parent(const struct ckpt_dest *d)
{
	char parent[CKPT_PATH_MAX];
	char *slash;
	int fd;

	snprintf(parent, sizeof(parent), "%s", d->final);
	slash = strrchr(parent, '/');
	if (!slash)
		snprintf(parent, sizeof(parent), ".");
	else
		slash[slash == parent] = 0;
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

int ckpt_dest_commit(struct ckpt_dest *d)
{
	if (move_old(d) || rename(d->partial, d->final))
		return ckpt_error(LUNE_ERR_IO, "naming %s: %s", d->final,
				  strerror(errno));
	d->committed = true;
	if (d->sync)
		sync_parent(d);
	if (*d->replaced)
		tree_remove(d->replaced);
	return LUNE_OK;
}

void ckpt_dest_close(struct ckpt_dest *d)
{
	if (!d)
		return;
	if (d->fd >= 0)
		close(d->fd);
	if (!d->committed)
		tree_remove(d->partial);
	free(d);
}
