/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of a node over each mode of shm: what lists, offsets, rights,
 * signals and atomics do is the same whether memory is mapped, reached by CMA
 * or carried through the ring.
 */
#include "tests/net/shm_pair.h"

#include <sys/mman.h>
#include <unistd.h>

#include <lune/mem.h>
#include <lune/rma.h>

#define BYTES (6u << 20)
#define WORD BYTES /* offset of a signal */
#define GIB (1ull << 30)

struct how {
	const char *modes, *route;
	bool registered; /* else allocated */
};
static const struct how hows[] = {
	{ "map", "shm/map", false },
	{ "cma", "shm/cma", true },
	{ "ring", "shm/ring", true },
	{ "ring", "shm/ring", false },
	{ "map,cma,ring", "shm/map", false },
	{ "map,cma,ring", "shm/cma", true },
};

static struct ln_region *own(struct node *n, const struct how *h, size_t bytes,
			     uint32_t rights)
{
	struct ln_region *r;
	void *p;

	if (!h->registered)
		return node_alloc(n, bytes, rights);
	CHECK_EQ(posix_memalign(&p, 64, bytes), 0);
	memset(p, 0, bytes);
	CHECK_OK(ln_mem_register(n->mem, p, bytes,
				 rights ? rights : LUNE_MEM_ALL, &r));
	return r;
}

static void disown(struct node *n, const struct how *h, struct ln_region *r)
{
	void *p = r->addr;

	node_release(n, r);
	if (h->registered)
		free(p);
}

/* ---- lists --------------------------------------------------------------- */

static const uint32_t counts[] = { 1, 2, 15, 16, 17, 255, 256, 257, 1023, 1024,
				   1025, 5000, 100000 };

/* Entry i of n: odd places and lengths, some empty, never overlapping. */
static void entry(uint32_t i, uint32_t n, size_t *off, size_t *bytes)
{
	size_t step = BYTES / n;

	*off = i * step + i % 3;
	*bytes = i % 11 == 5 ? 0 : step - i % 3 - i % 5;
}

static void list_make(struct ln_seg *s, uint32_t n, struct ln_rmem *r,
		      char *local)
{
	size_t off, bytes;

	for (uint32_t i = 0; i < n; i++) {
		/* Remote order is the reverse of the local one. */
		entry(n - 1 - i, n, &off, &bytes);
		s[i] = (struct ln_seg){ local + off, r, off, bytes };
	}
}

static int lists_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *src = malloc(BYTES), *back = malloc(BYTES);
	struct ln_seg *segs;
	struct ln_rmem r;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &r);
	for (uint32_t k = 0; k < LN_ARRAY_SIZE(counts); k++) {
		uint32_t c = counts[k];

		segs = calloc(c, sizeof(*segs));
		fill(src, BYTES, c);
		list_make(segs, c, &r, src);
		job_list(&j, &r, LN_OP_PUT, segs, c);
		job_signal(&j, &r, WORD, k + 1, LUNE_SIGNAL_SET);
		CHECK_RC(job_run(&n, &j), LUNE_OK);
		memset(back, 0, BYTES);
		list_make(segs, c, &r, back);
		job_list(&j, &r, LN_OP_GET, segs, c);
		CHECK_RC(job_run(&n, &j), LUNE_OK);
		for (uint32_t i = 0; i < c; i++)
			CHECK(!memcmp(segs[i].local, src + segs[i].offset,
				      segs[i].bytes));
		free(segs);
		ranks_set(3, k + 1);
		ranks_wait(2, k + 1);
	}
	ln_rmem_fini(&r);
	node_close(&n);
	free(src);
	free(back);
	return 0;
}

static void check_list(const char *mem, uint32_t n)
{
	char *want = malloc(BYTES);
	size_t off, bytes, end = 0;

	fill(want, BYTES, n);
	for (uint32_t i = 0; i < n; i++) {
		entry(i, n, &off, &bytes);
		/* Nothing was written between the entries. */
		for (; end < off; end++)
			CHECK_MSG(!mem[end], "byte %zu of %u entries", end, n);
		CHECK_MSG(!memcmp(mem + off, want + off, bytes),
			  "entry %u of %u", i, n);
		end = off + bytes;
	}
	free(want);
}

static int lists_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	m = own(&n, h, BYTES + 64, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	for (uint32_t k = 0; k < LN_ARRAY_SIZE(counts); k++) {
		word_wait(&n, m->addr + WORD, k + 1);
		check_list(m->addr, counts[k]);
		ranks_wait(3, k + 1); /* it has read the list back */
		pair_settle(m);
		memset(m->addr, 0, BYTES);
		ranks_set(2, k + 1);
	}
	disown(&n, h, m);
	node_close(&n);
	return 0;
}

static void lists_of_any_length_arrive(void **state)
{
	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(hows); i++)
		assert_int_equal(pair_run(lists_aimer, lists_owner, &hows[i],
					  60000), 0);
}

/* ---- large offsets and lengths ------------------------------------------- */

#define SPARSE (6 * GIB)
#define EDGE (4 * GIB)
#define AROUND 300001

/* Memory that is only touched where the test goes. */
static char *sparse(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static int far_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *src = malloc(AROUND), *back = calloc(1, AROUND);
	uint64_t off = EDGE - AROUND / 2;
	struct ln_rmem r;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &r);
	fill(src, AROUND, 3);
	job_put(&j, &r, off, src, AROUND);
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	job_get(&j, &r, off, back, AROUND);
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	CHECK_EQ(verify(back, AROUND, 3), AROUND);
	job_put(&j, &r, SPARSE - 1, src, 2);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_BOUNDS);
	job_put(&j, &r, SPARSE - 1, src, 1);
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	ranks_set(2, 1);
	ln_rmem_fini(&r);
	node_close(&n);
	free(src);
	free(back);
	return 0;
}

static int far_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *p = sparse(SPARSE);
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	CHECK_OK(ln_mem_register(n.mem, p, SPARSE, LUNE_MEM_ALL, &m));
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	ranks_wait(2, 1);
	pair_settle(m);
	CHECK_EQ(verify(p + EDGE - AROUND / 2, AROUND, 3), AROUND);
	node_release(&n, m);
	node_close(&n);
	return 0;
}

static void offsets_beyond_four_gib_are_reached(void **state)
{
	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(hows); i++)
		if (hows[i].registered)
			assert_int_equal(pair_run(far_aimer, far_owner,
						  &hows[i], 30000), 0);
}

/*
 * More than one call's 0x7ffff000 bytes: the same pages again and again, so
 * that little memory is needed.
 */
#define WIDE (96u << 20)
#define TIMES 45 /* 4.2 GiB */

static int wide_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *src = malloc(WIDE);
	struct ln_seg segs[TIMES];
	struct ln_rmem r;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &r);
	fill(src, WIDE, 9);
	for (int i = 0; i < TIMES; i++)
		segs[i] = (struct ln_seg){ src, &r, 0, WIDE };
	job_list(&j, &r, LN_OP_PUT, segs, TIMES);
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	CHECK_EQ(j.op.bytes, (uint64_t)WIDE * TIMES);
	ranks_set(2, 1);
	ln_rmem_fini(&r);
	node_close(&n);
	free(src);
	return 0;
}

static int wide_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	m = own(&n, h, WIDE, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	ranks_wait(2, 1);
	pair_settle(m);
	CHECK_EQ(verify(m->addr, WIDE, 9), WIDE);
	disown(&n, h, m);
	node_close(&n);
	return 0;
}

static void operations_beyond_four_gib_are_whole(void **state)
{
	(void)state;
	/* TSan takes minutes to look at each byte of a copy. */
	for (size_t i = 0; i < 3; i++)
		if (ranks_scale() == 1 || !strcmp(hows[i].modes, "cma"))
			assert_int_equal(pair_run(wide_aimer, wide_owner,
						  &hows[i], 60000), 0);
}

/* ---- rights -------------------------------------------------------------- */

/* Permissions of the mapping at an address, as the kernel has them. */
static void mapping_is(const void *at, const char *perms)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long from, to;
	char line[512], got[8];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %7s", &from, &to, got) != 3 ||
		    (uintptr_t)at < from || (uintptr_t)at >= to)
			continue;
		CHECK_MSG(!strcmp(got, perms), "mapped %s, not %s", got, perms);
		fclose(f);
		return;
	}
	ranks_fail(__FILE__, __LINE__, "%p is not mapped", at);
}

static int rights_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_rmem ro, wo;
	uint64_t old, word = 7;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &ro);
	pair_attach(&n, 1, h->route, &wo);
	if (!strcmp(h->route, "shm/map"))
		mapping_is(atomic_load(&ro.map), "r--s");
	job_put(&j, &ro, 0, &word, 8);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_ACCESS);
	job_atomic(&j, &ro, 0, LUNE_ATOMIC_FETCH_ADD, 1, 0, &old);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_ACCESS);
	job_put(&j, &wo, 0, &word, 8);
	job_signal(&j, &ro, 8, 1, LUNE_SIGNAL_ADD);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_ACCESS);
	job_get(&j, &ro, 0, &word, 8);
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	CHECK_EQ(word, 5);
	job_get(&j, &wo, 0, &word, 8);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_ACCESS);
	job_put(&j, &wo, 4090, &word, 8);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_BOUNDS);
	ln_rmem_fini(&ro);
	ln_rmem_fini(&wo);
	node_close(&n);
	ranks_set(2, 1);
	return 0;
}

static int rights_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_region *ro, *wo;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ro = own(&n, h, 4096, LUNE_MEM_READ);
	wo = own(&n, h, 4096, LUNE_MEM_WRITE);
	*(uint64_t *)ro->addr = 5;
	pair_show(&n, 0, ro);
	pair_show(&n, 1, wo);
	ranks_set(1, 1);
	ranks_wait(2, 1);
	pair_settle(ro);
	CHECK_EQ(*(uint64_t *)ro->addr, 5);
	CHECK_EQ(((uint64_t *)ro->addr)[1], 0);
	disown(&n, h, ro);
	disown(&n, h, wo);
	node_close(&n);
	return 0;
}

static void rights_are_kept(void **state)
{
	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(hows); i++)
		assert_int_equal(pair_run(rights_aimer, rights_owner, &hows[i],
					  30000), 0);
}

/* A list where an entry's own memory is bad says which. */
static int hole_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *p = sparse(3 * 4096);
	struct ln_seg segs[5];
	struct ln_rmem r;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	CHECK_EQ(munmap(p + 4096, 4096), 0);
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &r);
	for (uint32_t i = 0; i < 5; i++)
		segs[i] = (struct ln_seg){ p, &r, i * 100, 100 };
	segs[3].local = p + 4096;
	job_list(&j, &r, LN_OP_PUT, segs, 5);
	CHECK_RC(job_run(&n, &j), LUNE_ERR_INVAL);
	CHECK_EQ(j.op.index, 3);
	CHECK_EQ(j.op.bytes, 300);
	ln_rmem_fini(&r);
	node_close(&n);
	ranks_set(2, 1);
	return 0;
}

static int hole_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	m = own(&n, h, 4096, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	ranks_wait(2, 1);
	disown(&n, h, m);
	node_close(&n);
	return 0;
}

static void cma_names_the_entry_that_is_not_mapped(void **state)
{
	(void)state;
	assert_int_equal(pair_run(hole_aimer, hole_owner, &hows[1], 30000), 0);
}

/* ---- signals and atomics ------------------------------------------------- */

#define ROUNDS 3000
#define BLOCK 40000

static int signals_aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *src = malloc(BLOCK);
	uint64_t old;
	struct ln_rmem r;
	struct node n;
	struct job j;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, h->route, &r);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		size_t bytes = i * 7919 % BLOCK + 1;

		memset(src, (int)(i & 0xff), bytes);
		job_put(&j, &r, 64 + i % 3, src, bytes);
		job_signal(&j, &r, 0, 1, LUNE_SIGNAL_ADD);
		CHECK_RC(job_run(&n, &j), LUNE_OK);
		job_atomic(&j, &r, 8, LUNE_ATOMIC_FETCH_ADD, 1, 0, &old);
		CHECK_RC(job_run(&n, &j), LUNE_OK);
		while (atomic_load(&pair_board()->word[0]) < i)
			CHECK_EQ(ln_net_progress(n.net) < 0, 0);
	}
	ln_rmem_fini(&r);
	node_close(&n);
	free(src);
	return 0;
}

static int signals_owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	m = own(&n, h, BLOCK + 128, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		size_t bytes = i * 7919 % BLOCK + 1;
		const uint8_t *p = (uint8_t *)m->addr + 64 + i % 3;

		word_wait(&n, m->addr, i);
		/* First and last byte suffice to see a late one. */
		CHECK_EQ(p[0], i & 0xff);
		CHECK_EQ(p[bytes - 1], i & 0xff);
		CHECK(!memcmp(p, p + 1, bytes - 1));
		/* Our poller writes after our looks: it pins, and sees it. */
		atomic_fetch_add(&m->users, 0);
		atomic_fetch_add((_Atomic uint64_t *)(m->addr + 8), 1);
		atomic_store(&pair_board()->word[0], i);
	}
	word_wait(&n, m->addr + 8, 2 * ROUNDS);
	CHECK_EQ(*(uint64_t *)(m->addr + 8), 2 * ROUNDS);
	disown(&n, h, m);
	node_close(&n);
	return 0;
}

static void signals_come_after_data_and_atomics_add_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(hows); i++)
		assert_int_equal(pair_run(signals_aimer, signals_owner,
					  &hows[i], 60000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_any_length_arrive),
		cmocka_unit_test(offsets_beyond_four_gib_are_reached),
		cmocka_unit_test(operations_beyond_four_gib_are_whole),
		cmocka_unit_test(rights_are_kept),
		cmocka_unit_test(cma_names_the_entry_that_is_not_mapped),
		cmocka_unit_test(signals_come_after_data_and_atomics_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
