/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the pages of regions come from.  First touch by faulting costs ten
 * times what MAP_POPULATE does, so everything is populated.  A memfd is not
 * bound by a small /dev/shm, leaves nothing behind, and is sealed so that no
 * peer can shrink it under us.  Transparent huge pages are asked for before
 * the pages are there; reserved ones only on request (LUNE_HUGETLB).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/alloc.h"

#define HUGE_BYTES (2u << 20)
/* Larger allocations are held against the memory that is free first. */
#define CHECK_BYTES (64u << 20)

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* An unlinked file in /dev/shm: space is taken now, so no SIGBUS later. */
static int shm_file(size_t bytes)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int err;

	if (fd < 0)
		return ln_error_errno(LUNE_ERR_UNSUPPORTED,
				      "memfd_create is not allowed here, and "
				      "/dev/shm");
	err = posix_fallocate(fd, 0, (off_t)bytes);
	if (err) {
		close(fd);
		errno = err;
		return ln_error_errno(LUNE_ERR_UNSUPPORTED,
				      "memfd_create is not allowed here, and "
				      "%zu bytes in /dev/shm", bytes);
	}
	return fd;
}

static int memfd(const char *name, size_t bytes, unsigned flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	int err;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return ln_error_errno(LUNE_ERR_LIMIT, "memfd_create");
	if (fd < 0)
		return flags ? LUNE_ERR_UNSUPPORTED : shm_file(bytes);
	if (ftruncate(fd, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = errno;
		close(fd);
		errno = err;
		return ln_error_errno(LUNE_ERR_NOMEM, "a memfd of %zu bytes",
				      bytes);
	}
	return fd;
}

static int map_fd(int fd, size_t bytes, bool populate, void **out)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | (populate ? MAP_POPULATE : 0), fd, 0);

	if (p == MAP_FAILED)
		return ln_error_errno(LUNE_ERR_NOMEM, "mapping %zu bytes",
				      bytes);
	*out = p;
	return LUNE_OK;
}

/*
 * Populate after advice and binding.  Where the kernel lacks
 * MADV_POPULATE_WRITE (before 5.14) touch a byte a page.
 */
static int populate(void *p, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	if (!madvise(p, bytes, MADV_POPULATE_WRITE))
		return LUNE_OK;
	if (errno == ENOMEM || errno == EFAULT)
		return ln_error_errno(LUNE_ERR_NOMEM, "populating %zu bytes",
				      bytes);
#endif
	for (size_t i = 0; i < bytes; i += page_bytes())
		((volatile char *)p)[i] = 0;
	return LUNE_OK;
}

int ln_alloc_shared(const char *name, size_t bytes, int *fd, void **out)
{
	int rc;

	bytes = round_up(bytes, page_bytes());
	*fd = memfd(name, bytes, 0);
	if (*fd < 0)
		return *fd;
	rc = map_fd(*fd, bytes, false, out);
	if (rc)
		close(*fd);
	return rc;
}

int ln_alloc_private(size_t bytes, void **out)
{
	void *p = mmap(NULL, round_up(bytes, page_bytes()),
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		return ln_error_errno(LUNE_ERR_NOMEM, "mapping %zu bytes",
				      bytes);
	*out = p;
	return LUNE_OK;
}

/*
 * Populating more than there is would not fail: the kernel would kill a
 * process to make room, perhaps this one.  The estimate is Linux' own.
 */
static int check_room(size_t bytes)
{
	FILE *f = bytes < CHECK_BYTES ? NULL : fopen("/proc/meminfo", "re");
	unsigned long long kib = 0, v;
	char line[128];

	if (!f)
		return LUNE_OK;
	while (!kib && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &v) == 1)
			kib = v;
	fclose(f);
	if (kib && bytes / 1024 > kib)
		return ln_error(LUNE_ERR_NOMEM, "%zu bytes, when %llu MiB are "
				"free on this machine", bytes, kib / 1024);
	return LUNE_OK;
}

static int alloc_pages(const struct ln_config *conf, size_t bytes,
		       bool shareable, int *fd, void **out)
{
	int rc;

	*fd = -1;
	if (!shareable)
		return ln_alloc_private(bytes, out);
	if (conf->hugetlb && bytes % HUGE_BYTES == 0) {
		*fd = memfd("lune-mem", bytes, MFD_HUGETLB);
		if (*fd >= 0) {
			/* Reserved pages may be too few: find out now. */
			rc = map_fd(*fd, bytes, true, out);
			if (!rc)
				return LUNE_OK;
			close(*fd);
		}
	}
	rc = ln_alloc_shared("lune-mem", bytes, fd, out);
	if (rc == LUNE_ERR_UNSUPPORTED) {
		ln_info("%s; peers of this node will not map this memory",
			lune_last_error());
		*fd = -1;
		rc = ln_alloc_private(bytes, out);
	}
	return rc;
}

int ln_alloc_region(const struct ln_config *conf, size_t bytes,
		    const struct ln_alloc_how *how, int *fd, void **out)
{
	bool shareable = how->shareable && strcmp(conf->alloc, "private");
	int rc;

	if (bytes > SIZE_MAX / 2)
		return ln_error(LUNE_ERR_NOMEM, "%zu bytes", bytes);
	rc = check_room(bytes);
	if (rc)
		return rc;
	rc = alloc_pages(conf, bytes, shareable, fd, out);
	if (rc)
		return rc;
	(void)madvise(*out, bytes, MADV_HUGEPAGE);
	if (how->numa >= 0)
		rc = ln_topo_bind_memory(*out, bytes, how->numa);
	if (!rc)
		rc = populate(*out, bytes);
	if (rc) {
		munmap(*out, bytes);
		if (*fd >= 0)
			close(*fd);
	}
	return rc;
}
