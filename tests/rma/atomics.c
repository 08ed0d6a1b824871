/* SPDX-License-Identifier: Apache-2.0 */
/* Remote atomics from four ranks on one word. */
#include <pthread.h>

#include "tests/rma/suite.h"

static uint64_t atomic(lune_rmem *r, uint64_t offset,
		       const struct lune_atomic *a)
{
	uint64_t old = 0x5555;
	lune_req *req = NULL;

	CHECK_OK(lune_atomic(r, offset, a, &old,
			     &(struct lune_op){ .req = &req }));
	if (req)
		CHECK_OK(lune_req_wait(&req, WAIT_MS, NULL));
	return old;
}

static uint64_t word(struct area *a, uint64_t offset)
{
	return lune_signal_read(a->mem, offset);
}

/* Every ticket of a fetch-add counter is drawn exactly once. */
static void fetch_add_gives_each_value_once(struct rma *w)
{
	const uint64_t each = (uint64_t)suite_rounds(200, 20000);
	_Atomic uint8_t *drawn = ranks_scratch();
	struct area a;

	area_open(w, 64, &a);
	memset(ranks_scratch(), 0, w->rank ? 0 : each * (uint64_t)w->n);
	meet();
	for (uint64_t i = 0; i < each; i++) {
		struct lune_atomic add = { LUNE_ATOMIC_FETCH_ADD, 1, 0 };
		uint64_t v = atomic(a.rmem[0], 0, &add);

		CHECK(v < each * (uint64_t)w->n);
		CHECK_EQ(__atomic_fetch_add((uint8_t *)&drawn[v], 1,
					    __ATOMIC_SEQ_CST), 0);
	}
	meet();
	if (!w->rank)
		CHECK_EQ(word(&a, 0), each * (uint64_t)w->n);
	area_close(&a);
}

/* A spin lock by compare-and-swap guards a plain counter at the peer. */
static void compare_and_swap_makes_a_lock(struct rma *w)
{
	const int each = (int)suite_rounds(30, 3000);
	struct lune_atomic take = { LUNE_ATOMIC_CAS, (uint64_t)w->rank + 1,
				    0 };
	struct lune_atomic drop = { LUNE_ATOMIC_CAS, 0,
				    (uint64_t)w->rank + 1 };
	struct area a;

	area_open(w, 64, &a);
	for (int i = 0; i < each; i++) {
		uint64_t v = 0;
		lune_req *req = NULL;

		while (atomic(a.rmem[0], 0, &take))
			;
		CHECK_OK(lune_get(a.rmem[0], 8, &v, 8,
				  &(struct lune_op){ .req = &req }));
		finish(&req, 8);
		v++;
		CHECK_OK(lune_put(a.rmem[0], 8, &v, 8,
				  &(struct lune_op){ .req = &req }));
		finish(&req, 8);
		CHECK_EQ(atomic(a.rmem[0], 0, &drop), (uint64_t)w->rank + 1);
	}
	meet();
	if (!w->rank)
		CHECK_EQ(word(&a, 8), (uint64_t)(each * w->n));
	area_close(&a);
}

static void each_kind_returns_the_old_value(struct rma *w)
{
	struct area a;

	area_open(w, 64, &a);
	CHECK_EQ(atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_SWAP, 77, 0 }), 0);
	CHECK_EQ(atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_FETCH_ADD, UINT64_MAX, 0 }), 77);
	CHECK_EQ(atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_CAS, 5, 77 }), 76);
	CHECK_EQ(atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_CAS, 5, 76 }), 76);
	CHECK_EQ(atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_SWAP, 9, 0 }), 5);
	CHECK_OK(lune_atomic(a.there, 16, &(struct lune_atomic){
			 LUNE_ATOMIC_FETCH_ADD, 1, 0 }, NULL, NULL));
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	meet();
	CHECK_EQ(word(&a, 16), 10);
	CHECK_EQ(word(&a, 8), 0);
	CHECK_EQ(word(&a, 24), 0);
	CHECK_RC(lune_atomic(a.there, 60, &(struct lune_atomic){
			 LUNE_ATOMIC_SWAP, 1, 0 }, NULL, NULL),
		 LUNE_ERR_INVAL);
	CHECK_RC(lune_atomic(a.there, 64, &(struct lune_atomic){
			 LUNE_ATOMIC_SWAP, 1, 0 }, NULL, NULL),
		 LUNE_ERR_BOUNDS);
	area_close(&a);
}

/* The owner's own atomics and the peers' are coherent. */
static void the_owner_adds_too(struct rma *w)
{
	const uint64_t each = (uint64_t)suite_rounds(300, 30000);
	struct lune_atomic add = { LUNE_ATOMIC_FETCH_ADD, 1, 0 };
	struct area a;

	area_open(w, 64, &a);
	for (uint64_t i = 0; i < each; i++) {
		atomic(a.there, 0, &add);
		__atomic_fetch_add((uint64_t *)(void *)a.mine, 1,
				   __ATOMIC_SEQ_CST);
	}
	meet();
	CHECK_EQ(word(&a, 0), 2 * each);
	area_close(&a);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "fetch-add gives each value once",
		  .n = 4, .fn = fetch_add_gives_each_value_once },
		{ .name = "compare-and-swap makes a lock",
		  .n = 4, .fn = compare_and_swap_makes_a_lock },
		{ .name = "each kind returns the old value",
		  .n = 2, .fn = each_kind_returns_the_old_value },
		{ .name = "the owner adds, too",
		  .n = 2, .fn = the_owner_adds_too },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
