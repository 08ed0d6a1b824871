/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest: what is sent.  On the wire, little-endian:
 *
 *   u32 magic, u32 flags (1: directory), u64 block, u64 tensors, u64 nfiles,
 *   then per file: u64 bytes, u32 mode, u32 path length, path
 *
 * Files are cut into blocks one after the other; a block never spans files,
 * so block i of a file starts at i * block and only its last is shorter.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "ckpt.h"

#define MAGIC 0x314d434cu /* "LCM1" */
#define HEAD_BYTES 32
#define FILE_BYTES 16

uint64_t ckpt_hash(const void *p, uint64_t bytes)
{
	return XXH3_64bits(p, bytes);
}

void ckpt_root_hash(const uint64_t *hashes, uint64_t n, char out[33])
{
	XXH128_hash_t h = XXH3_128bits(hashes, n * sizeof(*hashes));

	snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}

int ckpt_manifest_finish(struct ckpt_manifest *m)
{
	m->total = 0;
	m->nblocks = 0;
	for (size_t i = 0; i < m->nfiles; i++) {
		struct ckpt_file *f = &m->files[i];

		if (f->bytes > (1ULL << 60) || m->total > (1ULL << 60))
			return ckpt_error(LUNE_ERR_LIMIT, "%s is too large",
					  f->path);
		f->first = m->nblocks;
		m->nblocks += (f->bytes + m->block - 1) / m->block;
		m->total += f->bytes;
	}
	return LUNE_OK;
}

void ckpt_manifest_block(const struct ckpt_manifest *m, uint64_t index,
			 struct ckpt_block *out)
{
	size_t lo = 0, hi = m->nfiles;
	const struct ckpt_file *f;

	/* The last file whose first block is <= index; empty files share
	 * their `first` with the file behind them, which is the later one. */
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->files[mid].first <= index)
			lo = mid;
		else
			hi = mid;
	}
	while (m->files[lo].bytes == 0 && lo > 0)
		lo--;
	f = &m->files[lo];
	out->file = lo;
	out->offset = (index - f->first) * m->block;
	out->bytes = f->bytes - out->offset;
	if (out->bytes > m->block)
		out->bytes = m->block;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		*p++ = (uint8_t)(v >> (8 * i));
	return p;
}

static uint8_t *put64(uint8_t *p, uint64_t v)
{
	return put32(put32(p, (uint32_t)v), (uint32_t)(v >> 32));
}

static uint32_t get32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

int ckpt_manifest_pack(const struct ckpt_manifest *m, uint8_t **out,
		       uint64_t *bytes)
{
	uint64_t n = HEAD_BYTES;
	uint8_t *buf, *p;

	for (size_t i = 0; i < m->nfiles; i++)
		n += FILE_BYTES + strlen(m->files[i].path);
	buf = malloc(n);
	if (!buf)
		return ckpt_error(LUNE_ERR_NOMEM, "no memory for the manifest");
	p = put32(buf, MAGIC);
	p = put32(p, m->directory ? 1 : 0);
	p = put64(p, m->block);
	p = put64(p, m->tensors);
	p = put64(p, m->nfiles);
	for (size_t i = 0; i < m->nfiles; i++) {
		const struct ckpt_file *f = &m->files[i];
		size_t len = strlen(f->path);

		p = put64(p, f->bytes);
		p = put32(p, f->mode);
		p = put32(p, (uint32_t)len);
		memcpy(p, f->path, len);
		p += len;
	}
	*out = buf;
	*bytes = n;
	return LUNE_OK;
}

/* Relative, no empty, "." or ".." component: it must stay below DEST. */
static bool path_is_safe(const char *path, size_t len)
{
	size_t start = 0;

	if (len == 0 || len >= CKPT_PATH_MAX || memchr(path, 0, len))
		return false;
	for (size_t i = 0; i <= len; i++) {
		size_t n = i - start;

		if (i < len && path[i] != '/')
			continue;
		if (n == 0 || (n == 1 && path[start] == '.') ||
		    (n == 2 && path[start] == '.' && path[start + 1] == '.'))
			return false;
		start = i + 1;
	}
	return true;
}

static int unpack_file(const uint8_t **p, const uint8_t *end,
		       struct ckpt_file *f)
{
	uint32_t len;

	if (end - *p < FILE_BYTES)
		return LUNE_ERR_PROTO;
	f->bytes = get64(*p);
	f->mode = get32(*p + 8) & 0777;
	len = get32(*p + 12);
	*p += FILE_BYTES;
	if (len > (size_t)(end - *p) || !path_is_safe((const char *)*p, len))
		return LUNE_ERR_PROTO;
	f->path = strndup((const char *)*p, len);
	*p += len;
	return f->path ? LUNE_OK : LUNE_ERR_NOMEM;
}

int ckpt_manifest_unpack(const uint8_t *p, uint64_t bytes,
			 struct ckpt_manifest *out)
{
	const uint8_t *end = p + bytes;
	uint64_t nfiles;
	int rc = LUNE_OK;

	memset(out, 0, sizeof(*out));
	if (bytes < HEAD_BYTES || get32(p) != MAGIC)
		goto bad;
	out->directory = get32(p + 4) & 1;
	out->block = get64(p + 8);
	out->tensors = get64(p + 16);
	nfiles = get64(p + 24);
	if (out->block < CKPT_BLOCK_MIN || out->block > CKPT_BLOCK_MAX ||
	    nfiles > CKPT_FILES_MAX || (!out->directory && nfiles != 1))
		goto bad;
	out->files = calloc(nfiles ? nfiles : 1, sizeof(*out->files));
	if (!out->files)
		return ckpt_error(LUNE_ERR_NOMEM, "no memory for the manifest");
	p += HEAD_BYTES;
	for (uint64_t i = 0; i < nfiles && !rc; i++) {
		rc = unpack_file(&p, end, &out->files[i]);
		out->nfiles = i + 1;
	}
	if (rc || p != end)
		goto bad;
	return ckpt_manifest_finish(out);
bad:
	ckpt_manifest_fini(out);
	return ckpt_error(rc ? rc : LUNE_ERR_PROTO,
			  "the manifest from rank 0 is damaged");
}

void ckpt_manifest_fini(struct ckpt_manifest *m)
{
	for (size_t i = 0; i < m->nfiles; i++)
		free(m->files[i].path);
	free(m->files);
	memset(m, 0, sizeof(*m));
}
