/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region table.  Slots hold pointers to regions; the generation of a slot
 * lives in the directory, where peers of the node read it.
 *
 *   slot i:  gen even -> free            regions[i] NULL
 *            gen odd  -> live            regions[i] set, key = gen << 32 | i
 *   revoke:  gen + 1 (even), region stays until the last pin is gone
 *
 * Pinning takes no lock: users is incremented first, then the generation is
 * read again; revoke changes the generation first, then free waits for users
 * to be 0.  Both sides are seq_cst, so one of them sees the other.  A region
 * struct itself is never freed while the table is open, only recycled, so a
 * late pin may touch its counter harmlessly.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/alloc.h"
#include "mem/mem.h"

#define DIRECTORY_MAGIC 0x4c4e4449u /* "LNDI" */
#define GEN_LAST 0xfffffffdu	    /* a slot past it is not used again */

struct ln_mem_table {
	const struct ln_config *conf;
	struct ln_directory *dir;
	int dir_fd;
	/* Guards the slots' allocation, not access; leaf lock. */
	pthread_mutex_t lock;
	uint32_t next; /* where the search for a free slot begins */
	unsigned count;
	void (*_Atomic idle_fn)(void *arg); /* release after idle_arg */
	void *_Atomic idle_arg;
	struct ln_region *_Atomic regions[LN_REGIONS_MAX];
};

int ln_mem_table_open(const struct ln_config *conf, const struct ln_topo *topo,
		      struct ln_mem_table **out)
{
	struct ln_mem_table *t = ln_calloc(1, sizeof(*t));
	void *p;
	int rc;

	if (!t)
		return LUNE_ERR_NOMEM;
	t->conf = conf;
	(void)topo; /* binding asks hwloc by itself */
	rc = ln_alloc_shared("lune-directory", sizeof(*t->dir), &t->dir_fd, &p);
	if (rc == LUNE_ERR_UNSUPPORTED) {
		t->dir_fd = -1;
		rc = ln_alloc_private(sizeof(*t->dir), &p);
	}
	if (rc) {
		ln_free(t);
		return rc;
	}
	t->dir = p;
	t->dir->magic = DIRECTORY_MAGIC;
	t->dir->version = 1;
	pthread_mutex_init(&t->lock, NULL);
	*out = t;
	return LUNE_OK;
}

static void region_drop(struct ln_region *r)
{
	if (r->ours && r->addr)
		munmap(r->addr, r->bytes);
	if (r->fd >= 0)
		close(r->fd);
	r->addr = NULL;
	r->fd = -1;
}

void ln_mem_table_close(struct ln_mem_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < LN_REGIONS_MAX; i++) {
		struct ln_region *r = atomic_load(&t->regions[i]);

		if (!r)
			continue;
		region_drop(r);
		ln_free(r);
	}
	munmap(t->dir, sizeof(*t->dir));
	if (t->dir_fd >= 0)
		close(t->dir_fd);
	pthread_mutex_destroy(&t->lock);
	ln_free(t);
}

struct ln_directory *ln_mem_directory(struct ln_mem_table *t)
{
	return t->dir;
}

int ln_mem_directory_fd(struct ln_mem_table *t)
{
	return t->dir_fd;
}

unsigned ln_mem_count(struct ln_mem_table *t)
{
	unsigned n;

	pthread_mutex_lock(&t->lock);
	n = t->count;
	pthread_mutex_unlock(&t->lock);
	return n;
}

/* A free slot with its (recycled) region struct; lock held. */
static int slot_take(struct ln_mem_table *t, uint32_t *slot,
		     struct ln_region **out)
{
	for (uint32_t n = 0; n < LN_REGIONS_MAX; n++) {
		uint32_t i = (t->next + n) % LN_REGIONS_MAX;
		uint32_t gen = atomic_load(&t->dir->gen[i]);
		struct ln_region *r = atomic_load(&t->regions[i]);

		if ((gen & 1) || gen > GEN_LAST || (r && r->key))
			continue;
		if (!r) {
			r = ln_calloc(1, sizeof(*r));
			if (!r)
				return LUNE_ERR_NOMEM;
			r->table = t;
			atomic_store(&t->regions[i], r);
		}
		t->next = (i + 1) % LN_REGIONS_MAX;
		*slot = i;
		*out = r;
		return LUNE_OK;
	}
	return ln_error(LUNE_ERR_LIMIT, "%u memory regions exist already",
			LN_REGIONS_MAX);
}

/* Publish a region described by *desc (key unset). */
static int table_add(struct ln_mem_table *t, const struct ln_region *desc,
		     struct ln_region **out)
{
	struct ln_region *r = NULL;
	uint32_t slot = 0, gen;
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = slot_take(t, &slot, &r);
	if (!rc) {
		gen = atomic_load(&t->dir->gen[slot]) + 1;
		r->addr = desc->addr;
		r->bytes = desc->bytes;
		r->rights = desc->rights;
		r->fd = desc->fd;
		r->ours = desc->ours;
		atomic_store(&r->revoked, false);
		r->key = (uint64_t)gen << 32 | slot;
		t->count++;
		/* From here on peers may come. */
		atomic_store(&t->dir->gen[slot], gen);
		*out = r;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int ln_mem_alloc(struct ln_mem_table *t, size_t bytes,
		 const struct ln_alloc_how *how, struct ln_region **out)
{
	struct ln_region desc = { .rights = how->rights, .fd = -1,
				  .ours = true };
	void *p;
	int rc;

	if (!bytes)
		return ln_error(LUNE_ERR_INVAL, "0 bytes to allocate");
	rc = ln_alloc_region(t->conf, bytes, how, &desc.fd, &p);
	if (rc)
		return rc;
	desc.addr = p;
	desc.bytes = bytes;
	rc = table_add(t, &desc, out);
	if (rc)
		region_drop(&desc);
	return rc;
}

int ln_mem_register(struct ln_mem_table *t, void *addr, size_t bytes,
		    uint32_t rights, struct ln_region **out)
{
	struct ln_region desc = { .addr = addr, .bytes = bytes,
				  .rights = rights, .fd = -1 };

	if (!addr || !bytes || (uintptr_t)addr + bytes < (uintptr_t)addr)
		return ln_error(LUNE_ERR_INVAL,
				"memory to register: %zu bytes at %p", bytes,
				addr);
	return table_add(t, &desc, out);
}

void ln_mem_revoke(struct ln_mem_table *t, struct ln_region *r)
{
	uint32_t slot = (uint32_t)r->key, gen = (uint32_t)(r->key >> 32);

	atomic_store(&r->revoked, true);
	/* Seq_cst, like the pin's pair: see the top of the file. */
	atomic_compare_exchange_strong(&t->dir->gen[slot], &gen, gen + 1);
}

void ln_mem_free(struct ln_mem_table *t, struct ln_region *r)
{
	/* Unmapping takes long; while the key is set the slot is not taken. */
	region_drop(r);
	pthread_mutex_lock(&t->lock);
	r->key = 0;
	t->count--;
	pthread_mutex_unlock(&t->lock);
}

bool ln_mem_valid(struct ln_mem_table *t, uint64_t key)
{
	uint32_t slot = (uint32_t)key;

	return slot < LN_REGIONS_MAX && (key >> 32) & 1 &&
	       atomic_load(&t->dir->gen[slot]) == key >> 32;
}

static int check(const struct ln_region *r, const struct ln_access *a)
{
	if ((r->rights & a->rights) != a->rights)
		return ln_error(LUNE_ERR_ACCESS,
				"the region grants rights %x, %x are needed",
				r->rights, a->rights);
	if (a->offset > r->bytes || a->bytes > r->bytes - a->offset)
		return ln_error(LUNE_ERR_BOUNDS,
				"offset %llu + %llu bytes in a region of %zu",
				(unsigned long long)a->offset,
				(unsigned long long)a->bytes, r->bytes);
	return LUNE_OK;
}

int ln_mem_pin(struct ln_mem_table *t, const struct ln_access *a,
	       struct ln_region **out, char **addr)
{
	uint32_t slot = (uint32_t)a->key;
	struct ln_region *r = NULL;
	int rc;

	if (slot < LN_REGIONS_MAX)
		r = atomic_load(&t->regions[slot]);
	if (!r)
		return ln_error(LUNE_ERR_STALE, "no region has key %llx",
				(unsigned long long)a->key);
	atomic_fetch_add(&r->users, 1);
	if (!ln_mem_valid(t, a->key)) {
		ln_mem_unpin(r);
		return ln_error(LUNE_ERR_STALE,
				"the region with key %llx was released",
				(unsigned long long)a->key);
	}
	rc = check(r, a);
	if (rc) {
		ln_mem_unpin(r);
		return rc;
	}
	*out = r;
	*addr = r->addr + a->offset;
	return LUNE_OK;
}

void ln_mem_on_idle(struct ln_mem_table *t, void (*fn)(void *arg), void *arg)
{
	atomic_store(&t->idle_arg, arg);
	atomic_store(&t->idle_fn, fn);
}

void ln_mem_unpin(struct ln_region *r)
{
	struct ln_mem_table *t = r->table;
	void (*fn)(void *arg);

	/*
	 * Seq_cst against a release that sets revoked, then looks at users:
	 * it sees us gone, or we see it coming.  The struct is never freed
	 * before the table, but r's other fields are no longer ours.
	 */
	if (atomic_fetch_sub(&r->users, 1) != 1 || !atomic_load(&r->revoked))
		return;
	fn = atomic_load(&t->idle_fn);
	if (fn)
		fn(atomic_load(&t->idle_arg));
}
