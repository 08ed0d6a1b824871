/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping a peer's regions.  The owner is asked for the region's memfd once;
 * the mapping is shared by all rmems of that key and goes with the last one.
 *
 * Released memory stays harmless here: its memfd is never used for another
 * region, so a late write touches pages that nobody reads, and the generation
 * in the owner's directory tells that it was late.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include <lune/mem.h>

#include "net/shm.h"

static struct shm_map *map_find(struct shm_peer *sp, uint64_t key)
{
	struct shm_map *m;

	DL_FOREACH(sp->maps, m)
		if (m->key == key)
			return m;
	return NULL;
}

static int map_ask(struct shm_peer *sp, struct ln_rmem *r)
{
	struct ln_frame f = { .type = SHM_FRAME_FDREQ, .a = r->key };
	struct shm_map *m = ln_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return LUNE_ERR_NOMEM;
	m->sp = sp;
	m->key = r->key;
	m->bytes = r->bytes;
	m->writable = r->rights & (LUNE_MEM_WRITE | LUNE_MEM_ATOMIC);
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
	m = map_find(sp, r->key);
	rc = m ? m->code : map_ask(sp, r);
	if (m && !rc && (m->bytes < r->bytes ||
			 (!m->writable &&
			  r->rights & (LUNE_MEM_WRITE | LUNE_MEM_ATOMIC))))
		rc = LUNE_ERR_UNSUPPORTED;
	if (!rc) {
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

/* A peer asks for the memfd behind a key. */
int shm_map_request(struct ln_peer *p, const struct ln_frame *f,
		    const void *body, int fd)
{
	struct ln_frame reply = { .type = SHM_FRAME_FDREP, .a = f->a };
	struct ln_access a = { .key = f->a };
	struct ln_region *r;
	int region_fd = -1;
	char *addr;
	int rc;

	(void)body;
	if (fd >= 0)
		close(fd);
	rc = ln_mem_pin(p->net->mem, &a, &r, &addr);
	if (!rc) {
		region_fd = r->fd;
		if (region_fd < 0)
			rc = LUNE_ERR_UNSUPPORTED;
	}
	reply.b = (uint64_t)(int64_t)rc;
	/* Sending duplicates the descriptor, so the pin may go after it. */
	if (ln_link_send(p, &reply, NULL, region_fd))
		ln_debug("a peer left while it asked for memory");
	if (rc != LUNE_ERR_STALE && rc != LUNE_ERR_ACCESS &&
	    rc != LUNE_ERR_BOUNDS)
		ln_mem_unpin(r);
	return LUNE_OK;
}

static int map_it(struct shm_map *m, int fd)
{
	int prot = PROT_READ | (m->writable ? PROT_WRITE : 0);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size < m->bytes)
		return ln_error(LUNE_ERR_PROTO,
				"the memory of a region is shorter than its "
				"ticket says");
	p = mmap(NULL, m->bytes, prot, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return ln_error_errno(LUNE_ERR_NOMEM,
				      "mapping %zu bytes of a peer", m->bytes);
	m->addr = p;
	return LUNE_OK;
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
		m = map_find(sp, f->a);
		if (m && m->code == LUNE_ERR_AGAIN) {
			if (!code)
				code = map_it(m, fd);
			m->code = code;
		}
		/* A refusal is not kept: the other modes are tried. */
		if (m && m->code && m->code != LUNE_ERR_AGAIN)
			m->code = LUNE_ERR_UNSUPPORTED;
		pthread_mutex_unlock(&tp->lock);
	}
	if (fd >= 0)
		close(fd);
	ln_peer_pump(p);
	ln_net_event(p->net);
	return LUNE_OK;
}
