/* SPDX-License-Identifier: Apache-2.0 */
/* Order, local completion, cancel, release while bytes are on their way. */
#include "tests/net/duo.h"

#include <pthread.h>

#include <lune/mem.h>
#include <lune/rma.h>

#define BIG (16u << 20)

static struct node a, b;
static struct ln_region *mem;
static struct ln_rmem rmem;

static void both_open(int streams)
{
	struct node_opts o = { .streams = streams, .slice = 262144 };

	node_open(&a, &o);
	node_open(&b, &o);
	mem = node_alloc(&b, BIG + 4096, 0);
	node_attach(&a, &b, mem, &rmem);
}

static void both_close(void)
{
	ln_rmem_fini(&rmem);
	node_close(&a);
	node_close(&b);
}

/* A large put, then an ordered flag: seen only after all bytes. */
static void an_ordered_op_is_seen_after_all_before_it(void **state)
{
	char *src = malloc(BIG);
	struct job j[3];

	(void)state;
	both_open(4);
	for (uint64_t round = 1; round <= 20; round++) {
		fill(src, BIG, round);
		job_put(&j[0], &rmem, 0, src, BIG);
		job_list(&j[1], &rmem, LN_OP_PUT, NULL, 0);
		job_signal(&j[1], &rmem, BIG, round, LUNE_SIGNAL_SET);
		j[1].op.flags = LN_OP_ORDERED;
		job_put(&j[2], &rmem, BIG + 8, &round, 8);
		for (int i = 0; i < 3; i++)
			job_post(&j[i]);
		word_wait(&b, mem->addr + BIG, round);
		CHECK_EQ(verify(mem->addr, BIG, round), BIG);
		for (int i = 0; i < 3; i++)
			CHECK_RC(job_wait(&a, &j[i]), LUNE_OK);
	}
	free(src);
	both_close();
}

static bool all_counted(void *arg)
{
	struct ln_peer *p = arg;

	return atomic_load(&p->posted) == atomic_load(&p->finished);
}

/* The buffer may be reused at once, and the peer sees the old bytes. */
static void a_local_put_is_done_when_its_buffer_is_free(void **state)
{
	enum { N = 64, PART = BIG / N };
	char *src = malloc(PART);
	struct job j;

	(void)state;
	both_open(4);
	for (uint64_t i = 0; i < N; i++) {
		fill(src, PART, i);
		job_put(&j, &rmem, i * PART, src, PART);
		j.op.flags = LN_OP_LOCAL;
		CHECK_RC(job_run(&a, &j), LUNE_OK);
		CHECK_EQ(j.op.bytes, PART);
		memset(src, 0, PART);
	}
	CHECK_OK(ln_net_wait(a.net, all_counted, rmem.peer,
			     ln_now_ns() + 20000000000u));
	for (uint64_t i = 0; i < N; i++)
		CHECK_EQ(verify(mem->addr + i * PART, PART, i), PART);
	free(src);
	both_close();
}

/* Canceled anywhere on its way: one end, and the link is good afterwards. */
static void a_canceled_op_ends_once_and_hurts_nobody(void **state)
{
	enum { N = 8 };
	char *buf = malloc(BIG), *to = malloc((size_t)BIG * (N / 2));
	struct job j[N], k;
	int canceled = 0;

	(void)state;
	both_open(4);
	for (int round = 0; round < 30; round++) {
		for (int i = 0; i < N; i++) {
			if (i % 2)
				job_put(&j[i], &rmem, 0, buf, BIG);
			else
				job_get(&j[i], &rmem, 0,
					to + (size_t)(i / 2) * BIG, BIG);
			job_post(&j[i]);
		}
		for (int i = N; i-- > 0;)
			ln_op_cancel(&j[i].op);
		for (int i = 0; i < N; i++) {
			int rc = job_wait(&a, &j[i]);

			CHECK(rc == LUNE_OK || rc == LUNE_ERR_CANCELED);
			canceled += rc != LUNE_OK;
		}
		/* No one touches buf any more. */
		fill(buf, BIG, (uint64_t)round);
		job_put(&k, &rmem, 0, buf, BIG);
		CHECK_RC(job_run(&a, &k), LUNE_OK);
		CHECK_EQ(verify(buf, BIG, (uint64_t)round), BIG);
	}
	CHECK(canceled > 0);
	CHECK_OK(ln_net_wait(a.net, all_counted, rmem.peer,
			     ln_now_ns() + 20000000000u));
	CHECK_EQ(atomic_load(&a.counters.peers_lost), 0);
	free(buf);
	free(to);
	both_close();
}

/* Region by region: put and get while the owner releases it. */
static void released_memory_is_never_touched_again(void **state)
{
	enum { PART = 4 << 20 };
	char *src = malloc(PART), *dst = malloc(PART);
	int stale = 0;

	(void)state;
	both_open(2);
	for (int round = 0; round < 60; round++) {
		struct ln_region *r = node_alloc(&b, PART, 0);
		char *copy = malloc(PART);
		struct ln_rmem m;
		struct job j[2];
		int rc;

		/* Registered memory stays ours after the release. */
		node_release(&b, r);
		memset(copy, 0x55, PART);
		CHECK_OK(ln_mem_register(b.mem, copy, PART, LUNE_MEM_ALL, &r));
		node_attach(&a, &b, r, &m);
		memset(src, 0xaa, PART);
		memset(dst, 0, PART);
		job_put(&j[0], &m, 0, src, PART);
		job_get(&j[1], &m, 0, dst, PART);
		job_post(&j[round % 2]);
		job_post(&j[1 - round % 2]);
		ln_mem_revoke(b.mem, r);
		CHECK_OK(ln_net_fence_region(b.net, r,
					     ln_now_ns() + 10000000000u));
		ln_mem_free(b.mem, r);
		memset(copy, 0x77, PART);
		for (int i = 0; i < 2; i++) {
			rc = job_wait(&a, &j[i]);
			CHECK_MSG(rc == LUNE_OK || rc == LUNE_ERR_STALE,
				  "code %d", rc);
			stale += rc != LUNE_OK;
			if (i == 0 || rc)
				continue;
			/* A good get has no byte from after the release. */
			for (int k = 0; k < PART; k++)
				CHECK(dst[k] == 0x55 ||
				      (uint8_t)dst[k] == 0xaa);
		}
		for (int k = 0; k < PART; k++)
			CHECK(copy[k] == 0x77);
		ln_rmem_fini(&m);
		free(copy);
	}
	CHECK(stale > 0);
	free(src);
	free(dst);
	both_close();
}

/* ---- threads ------------------------------------------------------------- */

struct worker {
	pthread_t t;
	int id;
};

static void *work(void *arg)
{
	enum { PART = 65536 };
	struct worker *w = arg;
	size_t at = (size_t)w->id * PART * 2;
	char *src = malloc(PART), *dst = malloc(PART);
	struct job j;

	for (uint64_t i = 0; i < 200; i++) {
		size_t n = (i * 7919 + 1) % PART;

		fill(src, n, i);
		job_put(&j, &rmem, at, src, n);
		CHECK_RC(job_run(&a, &j), LUNE_OK);
		job_get(&j, &rmem, at, dst, n);
		CHECK_RC(job_run(&a, &j), LUNE_OK);
		CHECK_EQ(verify(dst, n, i), n);
		job_atomic(&j, &rmem, BIG, LUNE_ATOMIC_FETCH_ADD, 1, 0, NULL);
		CHECK_RC(job_run(&a, &j), LUNE_OK);
	}
	free(src);
	free(dst);
	return NULL;
}

static void many_threads_share_a_peer(void **state)
{
	enum { N = 8 };
	struct worker w[N];

	(void)state;
	both_open(2);
	memset(mem->addr + BIG, 0, 8);
	for (int i = 0; i < N; i++) {
		w[i].id = i;
		CHECK(!pthread_create(&w[i].t, NULL, work, &w[i]));
	}
	for (int i = 0; i < N; i++)
		pthread_join(w[i].t, NULL);
	CHECK_EQ(*(uint64_t *)(mem->addr + BIG), N * 200);
	both_close();
}

/* Once warm, ops allocate nothing. */
static void nothing_is_allocated_per_op(void **state)
{
	char *buf = calloc(1, BIG);
	uint64_t before = 0;
	struct job j;

	(void)state;
	both_open(1);
	for (int round = 0; round < 2; round++) {
		before = ln_alloc_count();
		for (size_t n = 1; n <= BIG; n *= 4) {
			job_put(&j, &rmem, 0, buf, n);
			CHECK_RC(job_run(&a, &j), LUNE_OK);
			job_get(&j, &rmem, 0, buf, n);
			CHECK_RC(job_run(&a, &j), LUNE_OK);
		}
	}
	CHECK_EQ(ln_alloc_count(), before);
	free(buf);
	both_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordered_op_is_seen_after_all_before_it),
		cmocka_unit_test(a_local_put_is_done_when_its_buffer_is_free),
		cmocka_unit_test(a_canceled_op_ends_once_and_hurts_nobody),
		cmocka_unit_test(released_memory_is_never_touched_again),
		cmocka_unit_test(many_threads_share_a_peer),
		cmocka_unit_test(nothing_is_allocated_per_op),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
