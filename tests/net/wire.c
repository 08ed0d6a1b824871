/* SPDX-License-Identifier: Apache-2.0 */
/* Operations end to end between two nets, over each kind of stream. */
#include "tests/net/duo.h"

#include <lune/mem.h>
#include <lune/rma.h>

#define BIG (8u << 20)

static struct node a, b;
static struct ln_region *mem;
static struct ln_rmem rmem;

/* Messages that b got. */
static _Atomic uint64_t got_count, got_bad;
static _Atomic uint64_t got_next[LN_CHAN_MAX];

static void on_message(void *arg, struct ln_peer *from, int chan,
		       const uint64_t args[LN_MSG_ARGS], const void *body,
		       uint32_t bytes)
{
	(void)arg;
	(void)from;
	if (args[0] != atomic_load(&got_next[chan]) ||
	    verify(body, bytes, args[0]) != bytes)
		atomic_fetch_add(&got_bad, 1);
	atomic_fetch_add(&got_next[chan], 1);
	atomic_fetch_add(&got_count, 1);
}

static void both_open(const struct node_opts *o)
{
	struct node_opts ob = *o;

	ob.cb.message = on_message;
	ob.manual = false;
	node_open(&a, o);
	node_open(&b, &ob);
	mem = node_alloc(&b, BIG + 4096, 0);
	node_attach(&a, &b, mem, &rmem);
	atomic_store(&got_count, 0);
	atomic_store(&got_bad, 0);
	for (int i = 0; i < LN_CHAN_MAX; i++)
		atomic_store(&got_next[i], 0);
}

static void both_close(void)
{
	ln_rmem_fini(&rmem);
	node_close(&a);
	node_release(&b, mem);
	node_close(&b);
}

static const size_t sizes[] = { 0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097,
	8191, 8192, 8193, 65535, 65536, 65537, 262143, 262144, 262145, 1048577,
	BIG };

static void puts_and_gets(void)
{
	char *src = malloc(BIG), *back = malloc(BIG);
	struct job j;

	for (size_t i = 0; i < LN_ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i], off = i * 3 + 1;

		fill(src, n, i);
		memset(mem->addr, 0xee, BIG + 4096);
		job_put(&j, &rmem, off, src, n);
		CHECK_RC(job_run(&a, &j), LUNE_OK);
		CHECK_EQ(j.op.bytes, n);
		CHECK_EQ(verify(mem->addr + off, n, i), n);
		CHECK_EQ((uint8_t)mem->addr[off - 1], 0xee);
		CHECK_EQ((uint8_t)mem->addr[off + n], 0xee);
		memset(back, 0, n);
		job_get(&j, &rmem, off, back, n);
		CHECK_RC(job_run(&a, &j), LUNE_OK);
		CHECK_EQ(j.op.bytes, n);
		CHECK_EQ(verify(back, n, i), n);
	}
	free(src);
	free(back);
}

/* Many scattered blocks, odd sizes, some empty. */
static void lists(uint32_t count)
{
	struct ln_seg *segs = calloc(count, sizeof(*segs));
	char *src = malloc(BIG), *back = calloc(1, BIG);
	size_t at = 0, step = BIG / count;
	struct job j;

	fill(src, BIG, count);
	memset(mem->addr, 0, BIG);
	for (uint32_t i = 0; i < count; i++, at += step) {
		size_t n = i % 7 == 3 ? 0 : step - i % 3 % step;

		segs[count - 1 - i] = (struct ln_seg){ src + at, &rmem, at, n };
	}
	job_list(&j, &rmem, LN_OP_PUT, segs, count);
	job_signal(&j, &rmem, BIG, 1, LUNE_SIGNAL_ADD);
	memset(mem->addr + BIG, 0, 8);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	word_wait(&b, mem->addr + BIG, 1);
	for (uint32_t i = 0; i < count; i++) {
		CHECK(!memcmp(segs[i].local, mem->addr + segs[i].offset,
			      segs[i].bytes));
		segs[i].local = back + (segs[i].local - src);
	}
	job_list(&j, &rmem, LN_OP_GET, segs, count);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	for (uint32_t i = 0; i < count; i++)
		CHECK(!memcmp(segs[i].local, mem->addr + segs[i].offset,
			      segs[i].bytes));
	free(segs);
	free(src);
	free(back);
}

static void atomics(void)
{
	uint64_t *w = (uint64_t *)mem->addr, old = 99;
	struct job j;

	*w = 5;
	job_atomic(&j, &rmem, 0, LUNE_ATOMIC_FETCH_ADD, 3, 0, &old);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	CHECK_EQ(old, 5);
	CHECK_EQ(*w, 8);
	job_atomic(&j, &rmem, 0, LUNE_ATOMIC_CAS, 100, 7, &old);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	CHECK_EQ(old, 8);
	CHECK_EQ(*w, 8);
	job_atomic(&j, &rmem, 0, LUNE_ATOMIC_CAS, 100, 8, &old);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	CHECK_EQ(*w, 100);
	job_atomic(&j, &rmem, 0, LUNE_ATOMIC_SWAP, 1, 0, &old);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	CHECK_EQ(old, 100);
	CHECK_EQ(*w, 1);
}

static void messages(void)
{
	enum { N = 600 };
	struct job *j = calloc(N, sizeof(*j));
	char *body = malloc(N * 512 + LN_MSG_MAX);

	for (int i = 0; i < N; i++) {
		uint32_t bytes = i == 7 ? 0 : (uint32_t)(i * 37 % 500);

		fill(body + i * 512, bytes, (uint64_t)(i / 3));
		job_msg(&j[i], rmem.peer, i % 3, (uint64_t)(i / 3),
			body + i * 512, bytes);
		job_post(&j[i]);
	}
	for (int i = 0; i < N; i++)
		CHECK_RC(job_wait(&a, &j[i]), LUNE_OK);
	CHECK_EQ(atomic_load(&got_count), N);
	fill(body, LN_MSG_MAX, N / 3);
	job_msg(j, rmem.peer, 1, N / 3, body, LN_MSG_MAX);
	CHECK_RC(job_run(&a, j), LUNE_OK);
	CHECK_EQ(atomic_load(&got_bad), 0);
	free(j);
	free(body);
}

/* The signal never comes before the bytes, whatever the striping. */
static void signals(int rounds, size_t bytes)
{
	char *src = malloc(bytes);
	struct job j;

	memset(mem->addr + BIG, 0, 8);
	for (int i = 1; i <= rounds; i++) {
		fill(src, bytes, (uint64_t)i);
		job_put(&j, &rmem, 0, src, bytes);
		job_signal(&j, &rmem, BIG, (uint64_t)i, LUNE_SIGNAL_SET);
		job_post(&j);
		word_wait(&b, mem->addr + BIG, (uint64_t)i);
		CHECK_EQ(verify(mem->addr, bytes, (uint64_t)i), bytes);
		CHECK_RC(job_wait(&a, &j), LUNE_OK);
	}
	free(src);
}

static void refusals(void)
{
	struct ln_region *ro = node_alloc(&b, 4096, LUNE_MEM_READ);
	char buf[4096] = { 0 };
	struct ln_seg segs[3];
	struct ln_rmem r;
	uint64_t old;
	struct job j;

	node_attach(&a, &b, ro, &r);
	job_put(&j, &r, 0, buf, 8);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_ACCESS);
	job_get(&j, &r, 4090, buf, 8);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_BOUNDS);
	job_get(&j, &r, UINT64_MAX - 3, buf, 8);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_BOUNDS);
	job_atomic(&j, &r, 0, LUNE_ATOMIC_SWAP, 1, 0, &old);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_ACCESS);
	job_atomic(&j, &rmem, 4, LUNE_ATOMIC_SWAP, 1, 0, &old);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_INVAL);
	/* The second of three is bad. */
	segs[0] = (struct ln_seg){ buf, &rmem, 0, 100 };
	segs[1] = (struct ln_seg){ buf, &r, 0, 100 };
	segs[2] = (struct ln_seg){ buf, &rmem, 200, 100 };
	job_list(&j, &rmem, LN_OP_PUT, segs, 3);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_ACCESS);
	CHECK_EQ(j.op.index, 1);
	CHECK_EQ(j.op.bytes, 100);
	segs[1].offset = 5000;
	job_list(&j, &rmem, LN_OP_GET, segs, 3);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_BOUNDS);
	CHECK_EQ(j.op.index, 1);
	node_release(&b, ro);
	job_get(&j, &r, 0, buf, 8);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_STALE);
	r.key ^= 0x100000000ull * 6;
	job_get(&j, &r, 0, buf, 8);
	CHECK_RC(job_run(&a, &j), LUNE_ERR_STALE);
	ln_rmem_fini(&r);
}

static void suite(const struct node_opts *o)
{
	both_open(o);
	puts_and_gets();
	lists(1);
	lists(3);
	lists(500);
	lists(100000);
	atomics();
	messages();
	signals(200, 8);
	signals(20, 3u << 20);
	refusals();
	both_close();
}

static void tcp_v4_carries_everything(void **state)
{
	struct node_opts o = { .family = AF_INET };

	(void)state;
	suite(&o);
}

static void tcp_v6_carries_everything(void **state)
{
	struct node_opts o = { .family = AF_INET6 };

	(void)state;
	suite(&o);
}

static void four_streams_carry_everything(void **state)
{
	struct node_opts o = { .streams = 4, .slice = 65536 };

	(void)state;
	suite(&o);
}

static void a_unix_control_connection_carries_everything(void **state)
{
	struct node_opts o = { .transports = "self,shm", .modes = "" };

	(void)state;
	suite(&o);
}

static void memory_is_mapped(void **state)
{
	struct node_opts o = { .transports = "self,shm", .modes = "map" };

	(void)state;
	suite(&o);
}

static void memory_is_reached_by_cma(void **state)
{
	struct node_opts o = { .transports = "self,shm", .modes = "cma" };

	(void)state;
	suite(&o);
}

static void memory_is_reached_by_the_ring(void **state)
{
	struct node_opts o = { .transports = "self,shm", .modes = "ring" };

	(void)state;
	suite(&o);
}

/* The initiator without a thread: only its waits make progress. */
static void manual_progress_carries_everything(void **state)
{
	struct node_opts o = { .manual = true };

	(void)state;
	suite(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_v4_carries_everything),
		cmocka_unit_test(tcp_v6_carries_everything),
		cmocka_unit_test(four_streams_carry_everything),
		cmocka_unit_test(a_unix_control_connection_carries_everything),
		cmocka_unit_test(memory_is_mapped),
		cmocka_unit_test(memory_is_reached_by_cma),
		cmocka_unit_test(memory_is_reached_by_the_ring),
		cmocka_unit_test(manual_progress_carries_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
