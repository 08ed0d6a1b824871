/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region table: keys, generations, rights, bounds, and pins against
 * revocation from many threads.
 */
#include <fcntl.h>
#include <pthread.h>

#include <lune/mem.h>

#include "mem/mem.h"
#include "tests/harness/unit.h"

struct fixture {
	struct ln_config conf;
	struct ln_mem_table *table;
};

static int open_table(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(ln_config_init(&f->conf), LUNE_OK);
	assert_int_equal(ln_mem_table_open(&f->conf, NULL, &f->table),
			 LUNE_OK);
	*state = f;
	return 0;
}

static int close_table(void **state)
{
	struct fixture *f = *state;

	ln_mem_table_close(f->table);
	ln_config_fini(&f->conf);
	free(f);
	return 0;
}

static struct ln_region *alloc(struct fixture *f, size_t bytes, uint32_t rights)
{
	struct ln_alloc_how how = { .rights = rights, .numa = -1,
				    .shareable = true };
	struct ln_region *r = NULL;

	assert_int_equal(ln_mem_alloc(f->table, bytes, &how, &r), LUNE_OK);
	return r;
}

static int try_pin(struct fixture *f, const struct ln_access *a)
{
	struct ln_region *r;
	char *addr;
	int rc = ln_mem_pin(f->table, a, &r, &addr);

	if (!rc) {
		assert_ptr_equal(addr, r->addr + a->offset);
		ln_mem_unpin(r);
	}
	return rc;
}

static void allocated_memory_is_zero_and_counted(void **state)
{
	struct fixture *f = *state;
	struct ln_region *r = alloc(f, 10000, LUNE_MEM_ALL);

	assert_int_equal(ln_mem_count(f->table), 1);
	assert_int_equal(r->bytes, 10000);
	assert_int_equal((uintptr_t)r->addr % 4096, 0);
	for (size_t i = 0; i < r->bytes; i++)
		assert_int_equal(r->addr[i], 0);
	memset(r->addr, 1, r->bytes);
	ln_mem_revoke(f->table, r);
	ln_mem_free(f->table, r);
	assert_int_equal(ln_mem_count(f->table), 0);
}

static void shared_memory_is_sealed_against_shrinking(void **state)
{
	struct fixture *f = *state;
	struct ln_region *r = alloc(f, 8192, LUNE_MEM_ALL);

	assert_true(r->fd >= 0);
	assert_int_equal(fcntl(r->fd, F_GET_SEALS) &
			 (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_true(ln_mem_directory_fd(f->table) >= 0);
	assert_true(fcntl(ln_mem_directory_fd(f->table), F_GET_SEALS) &
		    F_SEAL_SHRINK);
}

static void bounds_are_checked_without_overflow(void **state)
{
	struct fixture *f = *state;
	struct ln_region *r = alloc(f, 100, LUNE_MEM_ALL);
	static const struct {
		uint64_t offset, bytes;
		int rc;
	} cases[] = {
		{ 0, 100, LUNE_OK },
		{ 100, 0, LUNE_OK },
		{ 99, 1, LUNE_OK },
		{ 0, 101, LUNE_ERR_BOUNDS },
		{ 99, 2, LUNE_ERR_BOUNDS },
		{ 101, 0, LUNE_ERR_BOUNDS },
		{ 1, UINT64_MAX, LUNE_ERR_BOUNDS },
		{ UINT64_MAX, 2, LUNE_ERR_BOUNDS },
	};

	for (size_t i = 0; i < LN_ARRAY_SIZE(cases); i++) {
		struct ln_access a = { r->key, cases[i].offset, cases[i].bytes,
				       LUNE_MEM_WRITE };

		assert_int_equal(try_pin(f, &a), cases[i].rc);
	}
}

static void rights_are_checked_one_by_one(void **state)
{
	struct fixture *f = *state;

	for (uint32_t has = 1; has <= LUNE_MEM_ALL; has++) {
		struct ln_region *r = alloc(f, 8, has);

		for (uint32_t want = 0; want <= LUNE_MEM_ALL; want++) {
			struct ln_access a = { r->key, 0, 8, want };

			assert_int_equal(try_pin(f, &a),
					 (has & want) == want ?
						 LUNE_OK : LUNE_ERR_ACCESS);
		}
	}
}

static void a_revoked_key_is_stale_for_ever(void **state)
{
	struct fixture *f = *state;
	uint64_t old[100];

	for (int i = 0; i < 100; i++) {
		struct ln_region *r = alloc(f, 64, LUNE_MEM_ALL);
		struct ln_access a = { r->key, 0, 64, LUNE_MEM_READ };

		assert_int_equal(try_pin(f, &a), LUNE_OK);
		assert_true(ln_mem_valid(f->table, r->key));
		old[i] = r->key;
		ln_mem_revoke(f->table, r);
		ln_mem_revoke(f->table, r); /* idempotent */
		assert_int_equal(try_pin(f, &a), LUNE_ERR_STALE);
		ln_mem_free(f->table, r);
		for (int k = 0; k <= i; k++)
			assert_false(ln_mem_valid(f->table, old[k]));
	}
}

static void a_reused_slot_refuses_its_old_keys(void **state)
{
	struct fixture *f = *state;
	static char mine[64];
	struct ln_region *r;
	uint64_t first = 0;

	/* All slots once, then once more: every slot is reused. */
	for (int i = 0; i <= LN_REGIONS_MAX; i++) {
		assert_int_equal(ln_mem_register(f->table, mine, sizeof(mine),
						 LUNE_MEM_ALL, &r), LUNE_OK);
		if (!i)
			first = r->key;
		if (i == LN_REGIONS_MAX) {
			assert_int_equal((uint32_t)r->key, (uint32_t)first);
			assert_int_not_equal(r->key, first);
			assert_false(ln_mem_valid(f->table, first));
		}
		ln_mem_revoke(f->table, r);
		ln_mem_free(f->table, r);
	}
}

static void forged_keys_are_stale(void **state)
{
	struct fixture *f = *state;
	struct ln_region *r = alloc(f, 64, LUNE_MEM_ALL);
	const uint64_t keys[] = {
		0, UINT64_MAX, r->key + 1, r->key ^ 1ull << 32,
		r->key ^ 2ull << 32, r->key | 1u << 31,
		(uint64_t)1 << 32 | (LN_REGIONS_MAX - 1),
		(uint64_t)0 << 32 | 7, LN_REGIONS_MAX,
	};

	for (size_t i = 0; i < LN_ARRAY_SIZE(keys); i++) {
		struct ln_access a = { keys[i], 0, 1, 0 };

		assert_int_equal(try_pin(f, &a), LUNE_ERR_STALE);
		assert_false(ln_mem_valid(f->table, keys[i]));
	}
}

static void the_table_has_a_limit(void **state)
{
	struct fixture *f = *state;
	static char mine[1];
	struct ln_region *r;

	for (int i = 0; i < LN_REGIONS_MAX; i++)
		assert_int_equal(ln_mem_register(f->table, mine, 1,
						 LUNE_MEM_READ, &r), LUNE_OK);
	assert_int_equal(ln_mem_register(f->table, mine, 1, LUNE_MEM_READ, &r),
			 LUNE_ERR_LIMIT);
	ln_mem_revoke(f->table, r);
	ln_mem_free(f->table, r);
	assert_int_equal(ln_mem_register(f->table, mine, 1, LUNE_MEM_READ, &r),
			 LUNE_OK);
}

static void impossible_registrations_are_refused(void **state)
{
	struct fixture *f = *state;
	struct ln_alloc_how how = { .rights = LUNE_MEM_ALL, .numa = -1,
				    .shareable = true };
	struct ln_region *r;
	static char mine[1];

	assert_int_equal(ln_mem_register(f->table, NULL, 1, LUNE_MEM_READ, &r),
			 LUNE_ERR_INVAL);
	assert_int_equal(ln_mem_register(f->table, mine, 0, LUNE_MEM_READ, &r),
			 LUNE_ERR_INVAL);
	assert_int_equal(ln_mem_register(f->table, mine, SIZE_MAX,
					 LUNE_MEM_READ, &r), LUNE_ERR_INVAL);
	assert_int_equal(ln_mem_alloc(f->table, 0, &how, &r), LUNE_ERR_INVAL);
	assert_int_equal(ln_mem_alloc(f->table, SIZE_MAX, &how, &r),
			 LUNE_ERR_NOMEM);
	assert_int_equal(ln_mem_alloc(f->table, (size_t)1 << 46, &how, &r),
			 LUNE_ERR_NOMEM);
	assert_int_equal(ln_mem_count(f->table), 0);
}

/*
 * One thread gives memory away and takes it back, the others look through
 * keys that may be old.  While a pin holds, the word must be the key.
 */
#define RACERS 4
struct race {
	struct fixture *f;
	_Atomic uint64_t key;
	_Atomic bool stop;
	_Atomic int wrong;
	_Atomic uint64_t seen;
};

static void *racer(void *arg)
{
	struct race *race = arg;

	while (!atomic_load(&race->stop)) {
		struct ln_access a = { .key = atomic_load(&race->key),
				       .bytes = 8, .rights = LUNE_MEM_READ };
		struct ln_region *r;
		uint64_t word;
		char *addr;

		if (ln_mem_pin(race->f->table, &a, &r, &addr))
			continue;
		memcpy(&word, addr, 8);
		if (word != a.key)
			atomic_fetch_add(&race->wrong, 1);
		atomic_fetch_add(&race->seen, 1);
		ln_mem_unpin(r);
	}
	return NULL;
}

static void give_and_take(struct race *race, uint64_t *mine)
{
	struct ln_region *r;

	assert_int_equal(ln_mem_register(race->f->table, mine, 8,
					 LUNE_MEM_READ, &r), LUNE_OK);
	/* Nobody has the key yet. */
	*mine = r->key;
	atomic_store(&race->key, r->key);
	ln_mem_revoke(race->f->table, r);
	while (atomic_load(&r->users))
		;
	*mine = 0;
	ln_mem_free(race->f->table, r);
}

static void a_pin_holds_off_release(void **state)
{
	struct race race = { .f = *state };
	pthread_t threads[RACERS];
	uint64_t mine[1];
	int rounds = 0;

	for (int i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, racer,
						&race), 0);
	while (rounds < 20000)
		rounds++, give_and_take(&race, mine);
	atomic_store(&race.stop, true);
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(race.wrong, 0);
}

static void count_idle(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

/* Who waits for the last pin of a revoked region can sleep. */
static void the_last_unpin_after_revoke_calls(void **state)
{
	struct fixture *f = *state;
	struct ln_region *r = alloc(f, 64, LUNE_MEM_ALL), *pinned;
	struct ln_access a = { r->key, 0, 64, LUNE_MEM_READ };
	_Atomic int calls = 0;
	char *addr;

	ln_mem_on_idle(f->table, count_idle, &calls);
	assert_int_equal(try_pin(f, &a), LUNE_OK);
	assert_int_equal(calls, 0);
	assert_int_equal(ln_mem_pin(f->table, &a, &pinned, &addr), LUNE_OK);
	assert_int_equal(ln_mem_pin(f->table, &a, &pinned, &addr), LUNE_OK);
	ln_mem_revoke(f->table, r);
	ln_mem_unpin(pinned);
	assert_int_equal(calls, 0);
	ln_mem_unpin(pinned);
	assert_int_equal(calls, 1);
	/* A pin that is refused was a user for a moment, too. */
	assert_int_equal(try_pin(f, &a), LUNE_ERR_STALE);
	assert_int_equal(calls, 2);
	ln_mem_free(f->table, r);
}

static void every_failed_allocation_is_reported(void **state)
{
	struct fixture *f = *state;
	struct ln_mem_table *t;
	struct ln_region *r;
	static char mine[1];
	int rc;

	for (long n = 1;; n++) {
		ln_alloc_fail_after(n);
		rc = ln_mem_table_open(&f->conf, NULL, &t);
		if (!rc) {
			rc = ln_mem_register(t, mine, 1, LUNE_MEM_READ, &r);
			ln_alloc_fail_after(0);
			ln_mem_table_close(t);
		}
		if (!rc)
			break;
		assert_int_equal(rc, LUNE_ERR_NOMEM);
		assert_true(n < 100);
	}
	ln_alloc_fail_after(0);
}

#define WITH_TABLE(fn) \
	cmocka_unit_test_setup_teardown(fn, open_table, close_table)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLE(allocated_memory_is_zero_and_counted),
		WITH_TABLE(shared_memory_is_sealed_against_shrinking),
		WITH_TABLE(bounds_are_checked_without_overflow),
		WITH_TABLE(rights_are_checked_one_by_one),
		WITH_TABLE(a_revoked_key_is_stale_for_ever),
		WITH_TABLE(a_reused_slot_refuses_its_old_keys),
		WITH_TABLE(forged_keys_are_stale),
		WITH_TABLE(the_table_has_a_limit),
		WITH_TABLE(impossible_registrations_are_refused),
		WITH_TABLE(a_pin_holds_off_release),
		WITH_TABLE(the_last_unpin_after_revoke_calls),
		WITH_TABLE(every_failed_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
