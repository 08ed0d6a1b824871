/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source: a file, or a directory read recursively (symbolic links to
 * files are followed: model caches are made of them).  The state of every
 * file when scanned is kept, so that a change during the copy is noticed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"

#define DEPTH_MAX 32

struct ckpt_source {
	char root[CKPT_PATH_MAX];
	struct stat *scanned; /* by file */
	size_t cap;
	int fd; /* of open_file */
	size_t open_file;
};

static int add_file(struct ckpt_source *s, struct ckpt_manifest *m,
		    const char *path, const struct stat *st)
{
	if (m->nfiles == CKPT_FILES_MAX)
		return ckpt_error(LUNE_ERR_LIMIT, "%s has more than %d files",
				  s->root, CKPT_FILES_MAX);
	if (m->nfiles == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		void *files = realloc(m->files, cap * sizeof(*m->files));
		void *stats;

		if (files)
			m->files = files;
		stats = realloc(s->scanned, cap * sizeof(*s->scanned));
		if (stats)
			s->scanned = stats;
		if (!files || !stats)
			return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
		s->cap = cap;
	}
	memset(&m->files[m->nfiles], 0, sizeof(*m->files));
	m->files[m->nfiles].path = strdup(path);
	if (!m->files[m->nfiles].path)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	m->files[m->nfiles].bytes = (uint64_t)st->st_size;
	m->files[m->nfiles].mode = st->st_mode & 0777;
	s->scanned[m->nfiles++] = *st;
	return LUNE_OK;
}

static int scan(struct ckpt_source *s, struct ckpt_manifest *m,
		const char *below, int depth);

static int scan_entry(struct ckpt_source *s, struct ckpt_manifest *m,
		      const char *path, int depth)
{
	char full[2 * CKPT_PATH_MAX];
	struct stat st;

	snprintf(full, sizeof(full), "%s/%s", s->root, path);
	if (stat(full, &st))
		return ckpt_error(LUNE_ERR_IO, "%s: %s", full, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return scan(s, m, path, depth + 1);
	if (!S_ISREG(st.st_mode))
		return ckpt_error(LUNE_ERR_INVAL,
				  "%s is neither a file nor a directory", full);
	return add_file(s, m, path, &st);
}

static int scan(struct ckpt_source *s, struct ckpt_manifest *m,
		const char *below, int depth)
{
	char full[2 * CKPT_PATH_MAX], path[CKPT_PATH_MAX];
	struct dirent **names;
	int n, rc = LUNE_OK;

	if (depth > DEPTH_MAX)
		return ckpt_error(LUNE_ERR_LIMIT,
				  "%s/%s: directories nested too deeply",
				  s->root, below);
	snprintf(full, sizeof(full), "%s/%s", s->root, below);
	n = scandir(full, &names, NULL, alphasort);
	if (n < 0)
		return ckpt_error(LUNE_ERR_IO, "%s: %s", full, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (!rc && strcmp(name, ".") && strcmp(name, "..")) {
			if (snprintf(path, sizeof(path), "%s%s%s", below,
				     *below ? "/" : "", name) >=
			    (int)sizeof(path))
				rc = ckpt_error(LUNE_ERR_LIMIT,
						"%s: path too long", full);
			else
				rc = scan_entry(s, m, path, depth);
		}
		free(names[i]);
	}
	free(names);
	return rc;
}

static void file_path(const struct ckpt_source *s,
		      const struct ckpt_manifest *m, size_t file, char *out,
		      size_t cap)
{
	if (m->directory)
		snprintf(out, cap, "%s/%s", s->root, m->files[file].path);
	else
		snprintf(out, cap, "%s", s->root);
}

static int open_file(struct ckpt_source *s, const struct ckpt_manifest *m,
		     size_t file)
{
	char path[2 * CKPT_PATH_MAX];

	if (s->fd >= 0 && s->open_file == file)
		return LUNE_OK;
	if (s->fd >= 0)
		close(s->fd);
	file_path(s, m, file, path, sizeof(path));
	s->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return ckpt_error(LUNE_ERR_IO, "%s: %s", path, strerror(errno));
	(void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	s->open_file = file;
	return LUNE_OK;
}

static int read_full(struct ckpt_source *s, const struct ckpt_manifest *m,
		     const struct ckpt_block *b, uint8_t *out)
{
	uint64_t done = 0;

	while (done < b->bytes) {
		ssize_t n = pread(s->fd, out + done, b->bytes - done,
				  (off_t)(b->offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ckpt_error(LUNE_ERR_IO, "reading %s: %s",
					  m->files[b->file].path,
					  strerror(errno));
		if (n == 0)
			return ckpt_error(LUNE_ERR_IO,
					  "%s became shorter while it was read",
					  m->files[b->file].path);
		done += (uint64_t)n;
	}
	return LUNE_OK;
}

int ckpt_source_read(struct ckpt_source *s, const struct ckpt_manifest *m,
		     uint64_t index, void *out)
{
	struct ckpt_block b;
	int rc;

	ckpt_manifest_block(m, index, &b);
	rc = open_file(s, m, b.file);
	return rc ? rc : read_full(s, m, &b, out);
}

static bool is_safetensors(const char *path)
{
	size_t n = strlen(path), k = strlen(".safetensors");

	return n >= k && !strcmp(path + n - k, ".safetensors");
}

static int check_safetensors(struct ckpt_source *s, struct ckpt_manifest *m,
			     size_t file)
{
	struct ckpt_file *f = &m->files[file];
	struct ckpt_block b = { .file = file, .bytes = 8 };
	uint8_t len_bytes[8] = { 0 }, *head;
	uint64_t len = 0, tensors;
	int rc;

	rc = open_file(s, m, file);
	if (!rc && f->bytes >= 8)
		rc = read_full(s, m, &b, len_bytes);
	if (rc)
		return rc;
	for (int i = 0; i < 8; i++)
		len |= (uint64_t)len_bytes[i] << (8 * i);
	b.bytes = f->bytes < 8 || len > f->bytes - 8 ||
			  len > CKPT_SAFETENSORS_HEADER_MAX ?
		  (f->bytes < 8 ? f->bytes : 8) : len + 8;
	head = malloc(b.bytes + 1);
	if (!head)
		return ckpt_error(LUNE_ERR_NOMEM, "no memory for the header "
				  "of %s", f->path);
	rc = read_full(s, m, &b, head);
	if (!rc)
		rc = ckpt_safetensors_check(f->path, head, b.bytes, f->bytes,
					    &tensors);
	if (!rc)
		m->tensors += tensors;
	free(head);
	return rc;
}

static int source_scan(struct ckpt_source *s, struct ckpt_manifest *m)
{
	struct stat st;
	const char *base;
	int rc;

	if (stat(s->root, &st))
		return ckpt_error(LUNE_ERR_IO, "%s: %s", s->root,
				  strerror(errno));
	m->directory = S_ISDIR(st.st_mode);
	if (m->directory) {
		rc = scan(s, m, "", 0);
	} else if (S_ISREG(st.st_mode)) {
		base = strrchr(s->root, '/');
		rc = add_file(s, m, base ? base + 1 : s->root, &st);
	} else {
		rc = ckpt_error(LUNE_ERR_INVAL,
				"%s is neither a file nor a directory",
				s->root);
	}
	if (!rc && !m->nfiles)
		rc = ckpt_error(LUNE_ERR_INVAL, "%s contains no files",
				s->root);
	return rc ? rc : ckpt_manifest_finish(m);
}

int ckpt_source_open(const struct ckpt_args *args, struct ckpt_manifest *m,
		     struct ckpt_source **out)
{
	struct ckpt_source *s = calloc(1, sizeof(*s));
	size_t n = strlen(args->source);
	int rc;

	if (!s)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory");
	s->fd = -1;
	while (n > 1 && args->source[n - 1] == '/')
		n--;
	snprintf(s->root, sizeof(s->root), "%.*s", (int)n, args->source);
	m->block = args->block;
	rc = n < sizeof(s->root) ? source_scan(s, m) :
				   ckpt_error(LUNE_ERR_LIMIT, "path too long");
	for (size_t i = 0; i < m->nfiles && !rc; i++)
		if (is_safetensors(m->files[i].path))
			rc = check_safetensors(s, m, i);
	if (rc) {
		ckpt_source_close(s);
		return rc;
	}
	*out = s;
	return LUNE_OK;
}

int ckpt_source_unchanged(struct ckpt_source *s, const struct ckpt_manifest *m)
{
	char path[2 * CKPT_PATH_MAX];
	struct stat now;

	for (size_t i = 0; i < m->nfiles; i++) {
		const struct stat *was = &s->scanned[i];

		file_path(s, m, i, path, sizeof(path));
		if (stat(path, &now))
			return ckpt_error(LUNE_ERR_IO, "%s: %s", path,
					  strerror(errno));
		if (now.st_size != was->st_size || now.st_ino != was->st_ino ||
		    now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
		    now.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
			return ckpt_error(LUNE_ERR_IO,
					  "%s changed while it was sent", path);
	}
	return LUNE_OK;
}

void ckpt_source_close(struct ckpt_source *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->scanned);
	free(s);
}
