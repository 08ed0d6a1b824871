/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Release against late access, over each mode of shm.  The owner gives memory
 * out, takes it back while the other process reads and writes, and uses it for
 * itself at once.  Then a read that was reported as good must hold bytes of
 * its own generation only, and no late write may reach the owner's memory.
 */
#include "tests/net/shm_pair.h"

#include <sched.h>
#include <unistd.h>

#include <lune/mem.h>

#define BYTES (1u << 20)
#define WORDS (BYTES / 8)
#define PRIVATE 0xfeedfacecafebeefull

/* Words of the board. */
enum { SHOWN, TOUCHED, REFUSED, GOOD };

struct how {
	const char *modes, *route;
	bool registered;
	uint64_t rounds;
};

static _Atomic uint64_t *word(int i)
{
	return &pair_board()->word[i];
}

/* The other process is a few instructions away, not a system call. */
static void until(int i, uint64_t value)
{
	uint64_t deadline = ln_now_ns() + 20000000000ull *
						  (uint64_t)ranks_scale();

	while (atomic_load(word(i)) < value) {
		CHECK_MSG(ln_now_ns() < deadline, "word %d is %llu, not %llu",
			  i, (unsigned long long)atomic_load(word(i)),
			  (unsigned long long)value);
		sched_yield();
	}
}

static void words_set(void *p, uint64_t value)
{
	for (size_t i = 0; i < WORDS; i++)
		((uint64_t *)p)[i] = value;
}

/* ---- the one that reads and writes --------------------------------------- */

static void check_read(const uint64_t *p, uint64_t round)
{
	for (size_t i = 0; i < WORDS; i++)
		CHECK_MSG(p[i] >> 1 == round,
			  "round %llu read word %zu of round %llu (%llx)",
			  (unsigned long long)round, i,
			  (unsigned long long)(p[i] >> 1),
			  (unsigned long long)p[i]);
}

/* Until the first refusal. */
static void access_until_stale(struct node *n, struct ln_rmem *r,
			       uint64_t *buf, uint64_t round)
{
	struct job j;
	int rc;

	for (uint64_t i = 0;; i++) {
		bool put = (i + round) % 2;

		if (put)
			words_set(buf, round << 1 | 1);
		if (put)
			job_put(&j, r, 0, buf, BYTES);
		else
			job_get(&j, r, 0, buf, BYTES);
		rc = job_run(n, &j);
		if (rc)
			break;
		if (!put)
			check_read(buf, round);
		atomic_fetch_add(word(GOOD), 1);
		atomic_store(word(TOUCHED), round);
	}
	CHECK_RC(rc, LUNE_ERR_STALE);
	atomic_store(word(REFUSED), round);
}

static int aimer(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	uint64_t *buf = malloc(BYTES);
	struct ln_rmem r;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	for (uint64_t round = 1; round <= h->rounds; round++) {
		until(SHOWN, round);
		pair_attach(&n, 0, h->route, &r);
		access_until_stale(&n, &r, buf, round);
		ln_rmem_fini(&r);
	}
	/* A ticket of the past is refused, however it is carried. */
	CHECK_OK(ln_rmem_init(n.net, &pair_board()->ticket[0], &r));
	CHECK_OK(ln_rmem_resolve(&r, ln_now_ns() + 10000000000ull));
	atomic_store(word(TOUCHED), h->rounds);
	access_until_stale(&n, &r, buf, h->rounds + 1);
	ln_rmem_fini(&r);
	node_close(&n);
	ranks_set(1, 1);
	free(buf);
	return 0;
}

/* ---- the owner ----------------------------------------------------------- */

static uint64_t rolled = 88172645463325252ull;

static uint64_t roll(void)
{
	rolled ^= rolled << 13;
	rolled ^= rolled >> 7;
	return rolled ^= rolled << 17;
}

static void relax_a_while(void)
{
	for (volatile uint64_t i = roll() % 60000; i; i--)
		;
}

static void round_registered(struct node *n, char *mem, uint64_t round)
{
	struct ln_region *r;

	words_set(mem, round << 1);
	CHECK_OK(ln_mem_register(n->mem, mem, BYTES, LUNE_MEM_ALL, &r));
	pair_show(n, 0, r);
	atomic_store(word(SHOWN), round);
	until(TOUCHED, round);
	relax_a_while();
	node_release(n, r);
	/* From here on it is ours.  Backwards, so that a late copy is met. */
	for (size_t i = WORDS; i--;)
		((uint64_t *)mem)[i] = PRIVATE;
	until(REFUSED, round);
	for (size_t i = 0; i < WORDS; i++)
		CHECK_MSG(((uint64_t *)mem)[i] == PRIVATE,
			  "round %llu: word %zu was written after release",
			  (unsigned long long)round, i);
}

static void round_allocated(struct node *n, uint64_t round)
{
	struct ln_region *r = node_alloc(n, BYTES, 0);

	words_set(r->addr, round << 1);
	pair_show(n, 0, r);
	atomic_store(word(SHOWN), round);
	until(TOUCHED, round);
	relax_a_while();
	node_release(n, r);
	/* The next region comes while the other may be late still. */
	if (round % 4 == 0)
		until(REFUSED, round);
}

static int owner(int rank, int nranks, void *arg)
{
	const struct how *h = arg;
	char *mem = malloc(BYTES);
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, h->modes);
	for (uint64_t round = 1; round <= h->rounds; round++) {
		if (h->registered)
			round_registered(&n, mem, round);
		else
			round_allocated(&n, round);
	}
	ranks_wait(1, 1);
	CHECK(atomic_load(word(GOOD)) >= h->rounds);
	node_close(&n);
	free(mem);
	return 0;
}

static void late_access_by_a_mapping_is_seen(void **state)
{
	struct how h = { "map", "shm/map", false, 1000 };

	(void)state;
	assert_int_equal(pair_run(aimer, owner, &h, 60000), 0);
}

static void late_access_by_cma_is_waited_for(void **state)
{
	struct how h = { "cma", "shm/cma", true, 2000 };

	(void)state;
	assert_int_equal(pair_run(aimer, owner, &h, 60000), 0);
}

static void late_access_by_the_ring_is_refused(void **state)
{
	struct how h = { "ring", "shm/ring", true, 1500 };

	(void)state;
	assert_int_equal(pair_run(aimer, owner, &h, 60000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_access_by_a_mapping_is_seen),
		cmocka_unit_test(late_access_by_cma_is_waited_for),
		cmocka_unit_test(late_access_by_the_ring_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
