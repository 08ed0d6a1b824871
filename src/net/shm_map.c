/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping a peer's regions.  The owner is asked for the region's memfd once;
 * the mapping is shared by all rmems of that key and goes with the last one.
 * (Tickets that only let read have a mapping of their own, read-only.)
 *
 * Large mappings are populated by the poller in steps, between other work, so
 * that neither heartbeats nor other peers wait for it.
 *
 * Released memory stays harmless here: its memfd is never used for another
 * region, so a late write touches pages that nobody reads, and the generation
 * in the owner's directory tells that it was late.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include <lune/mem.h>

#include "net/shm.h"

#define STEP_BYTES (64u << 20)

static bool wants_write(const struct ln_rmem *r)
{
	return r->rights & (LUNE_MEM_WRITE | LUNE_MEM_ATOMIC);
}

static struct shm_map *map_find(struct shm_peer *sp, uint64_t key,
				bool writable)
{
	struct shm_map *m;

	DL_FOREACH(sp->maps, m)
		if (m->key == key && m->writable == writable)
			return m;
	return NULL;
}

static int map_ask(struct shm_peer *sp, struct ln_rmem *r)
{
	struct ln_frame f = { .type = SHM_FRAME_FDREQ, .a = r->key,
			      .index = wants_write(r) };
	struct shm_map *m = ln_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return LUNE_ERR_NOMEM;
	m->sp = sp;
	m->key = r->key;
	m->bytes = r->bytes;
	m->writable = wants_write(r);
	m->code = LUNE_ERR_AGAIN;
	DL_APPEND(sp->maps, m);
	rc = ln_link_send(sp->peer, &f, NULL, -1);
	if (rc) {
		DL_DELETE(sp->maps, m);
		ln_free(m);
		return rc;
	}
	return LUNE_ERR_AGAIN;
}

int shm_map_import(struct shm_peer *sp, struct ln_rmem *r)
{
	struct shm_tp *tp = shm_of(r->peer->net);
	struct shm_map *m;
	int rc;

	pthread_mutex_lock(&tp->lock);
	m = map_find(sp, r->key, wants_write(r));
	rc = m ? m->code : map_ask(sp, r);
	if (m && rc && rc != LUNE_ERR_AGAIN) {
		/* A refusal is not kept: the other modes are tried. */
		DL_DELETE(sp->maps, m);
		ln_free(m);
		m = NULL;
	}
	if (m && !rc && m->bytes < r->bytes)
		rc = LUNE_ERR_UNSUPPORTED;
	if (m && !rc) {
		m->refs++;
		sp->refs++;
		r->tp = m;
		r->mode = SHM_MAP;
		r->gen = &sp->dir->gen[(uint32_t)r->key];
		atomic_store_explicit(&r->map, m->addr, memory_order_release);
	}
	pthread_mutex_unlock(&tp->lock);
	return rc;
}

void shm_map_forget(struct shm_tp *tp, struct shm_map *m)
{
	struct shm_peer *sp = m->sp;

	if (--m->refs == 0) {
		DL_DELETE(sp->maps, m);
		munmap(m->addr, m->bytes);
		ln_free(m);
	}
	shm_peer_put(tp, sp);
}

/*
 * The descriptor to hand out: one that cannot be mapped for writing where
 * the region does not grant it.  `*mine`: close it.
 */
static int region_fd(const struct ln_region *r, bool *mine)
{
	char path[32];
	int fd;

	*mine = false;
	if (r->rights & (LUNE_MEM_WRITE | LUNE_MEM_ATOMIC))
		return r->fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*mine = fd >= 0;
	return fd; /* without /proc it goes another way */
}

/* A peer asks for the memfd behind a key. */
int shm_map_request(struct ln_peer *p, const struct ln_frame *f,
		    const void *body, int fd)
{
	struct ln_frame reply = { .type = SHM_FRAME_FDREP, .a = f->a,
				  .index = f->index };
	struct ln_access a = { .key = f->a };
	struct ln_region *r = NULL;
	bool mine = false;
	int out = -1;
	char *addr;
	int rc;

	(void)body;
	if (fd >= 0)
		close(fd);
	rc = ln_mem_pin(p->net->mem, &a, &r, &addr);
	if (!rc && r->fd >= 0)
		out = region_fd(r, &mine);
	if (!rc && out < 0)
		rc = LUNE_ERR_UNSUPPORTED;
	reply.b = (uint64_t)(int64_t)rc;
	/* Sending duplicates the descriptor, so the pin may go after it. */
	if (ln_link_send(p, &reply, NULL, out))
		ln_debug("a peer left while it asked for memory");
	if (mine)
		close(out);
	if (r)
		ln_mem_unpin(r);
	return LUNE_OK;
}

static int map_it(struct shm_map *m, int fd)
{
	int prot = PROT_READ | (m->writable ? PROT_WRITE : 0);
	int flags = MAP_SHARED | (m->bytes > STEP_BYTES ? 0 : MAP_POPULATE);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size < m->bytes)
		return ln_error(LUNE_ERR_PROTO,
				"the memory of a region is shorter than its "
				"ticket says");
	p = mmap(NULL, m->bytes, prot, flags, fd, 0);
	if (p == MAP_FAILED)
		return ln_error_errno(LUNE_ERR_NOMEM,
				      "mapping %zu bytes of a peer", m->bytes);
	m->addr = p;
	return m->bytes > STEP_BYTES ? LUNE_ERR_AGAIN : LUNE_OK;
}

/* Where the kernel lacks MADV_POPULATE_* (before 5.14), read a byte a page. */
static void populate(char *p, size_t bytes, bool writable)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

#ifdef MADV_POPULATE_WRITE
	if (!madvise(p, bytes,
		     writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return;
#else
	(void)writable;
#endif
	for (size_t i = 0; i < bytes; i += page)
		(void)((volatile char *)p)[i];
}

static struct shm_map *map_unpopulated(struct shm_peer *sp)
{
	struct shm_map *m;

	DL_FOREACH(sp->maps, m)
		if (m->addr && m->code == LUNE_ERR_AGAIN)
			return m;
	return NULL;
}

int shm_map_progress(struct shm_peer *sp)
{
	struct ln_peer *p = sp->peer;
	struct shm_tp *tp = shm_of(p->net);
	struct shm_map *m;
	size_t n;

	pthread_mutex_lock(&tp->lock);
	m = map_unpopulated(sp);
	pthread_mutex_unlock(&tp->lock);
	if (!m)
		return 0;
	/* Nobody but the poller frees or settles it while it is AGAIN. */
	n = ln_min(m->bytes - m->populated, (size_t)STEP_BYTES);
	populate(m->addr + m->populated, n, m->writable);
	m->populated += n;
	if (m->populated < m->bytes)
		return 1;
	pthread_mutex_lock(&tp->lock);
	m->code = LUNE_OK;
	pthread_mutex_unlock(&tp->lock);
	atomic_fetch_sub(&tp->populating, 1);
	ln_peer_pump(p);
	ln_net_event(p->net);
	return 1;
}

int shm_map_reply(struct ln_peer *p, const struct ln_frame *f,
		  const void *body, int fd)
{
	struct shm_peer *sp = shm_peer_of(p);
	struct shm_tp *tp = shm_of(p->net);
	int code = (int)(int64_t)f->b;
	struct shm_map *m = NULL;

	(void)body;
	if (sp) {
		pthread_mutex_lock(&tp->lock);
		m = map_find(sp, f->a, f->index);
		if (m && m->code == LUNE_ERR_AGAIN && !m->addr) {
			if (!code)
				code = map_it(m, fd);
			if (m->addr && code)
				atomic_fetch_add(&tp->populating, 1);
			else
				m->code = code ? LUNE_ERR_UNSUPPORTED : LUNE_OK;
		}
		pthread_mutex_unlock(&tp->lock);
	}
	if (fd >= 0)
		close(fd);
	ln_peer_pump(p);
	ln_net_event(p->net);
	return LUNE_OK;
}
