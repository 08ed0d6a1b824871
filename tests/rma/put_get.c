/* SPDX-License-Identifier: Apache-2.0 */
/* Put and get of one piece: sizes, places, errors, threads, peers. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rma/suite.h"

#define GUARD 64

/* ---- sizes ------------------------------------------------------------- */

static const size_t sizes[] = {
	0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 63, 64, 65, 127, 128, 4095, 4096,
	4097, 65535, 65536, 65537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
	(3 << 20) + 5,
};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST ((3 << 20) + 5)

static void put_one(struct area *a, size_t offset, const void *src, size_t n)
{
	lune_req *req = NULL;

	CHECK_OK(lune_put(a->there, offset, src, n,
			  &(struct lune_op){ .req = &req }));
	finish(&req, n);
}

static void get_one(struct area *a, size_t offset, void *dst, size_t n)
{
	lune_req *req = NULL;

	CHECK_OK(lune_get(a->there, offset, dst, n,
			  &(struct lune_op){ .req = &req }));
	finish(&req, n);
}

/* Everybody puts to the next at once; the bytes around must not change. */
static void puts_of_every_size_arrive(struct rma *w)
{
	uint8_t *src = malloc(LARGEST);
	struct area a;

	CHECK(src);
	area_open(w, LARGEST + 2 * GUARD, &a);
	for (size_t i = 0; i < NSIZES; i++) {
		size_t n = sizes[i];

		memset(a.mine, 0x99, n + 2 * GUARD);
		meet();
		pattern_fill(src, n, i * 1000 + (uint64_t)w->rank);
		put_one(&a, GUARD, src, n);
		meet();
		pattern_check(a.mine + GUARD, n,
			      i * 1000 + (uint64_t)w->from);
		for (size_t k = 0; k < GUARD; k++) {
			CHECK_EQ((uint8_t)a.mine[k], 0x99);
			CHECK_EQ((uint8_t)a.mine[GUARD + n + k], 0x99);
		}
		meet();
	}
	area_close(&a);
	free(src);
}

static void the_bytes_around_a_put_stay(struct rma *w)
{
	uint8_t src[256];
	struct area a;

	memset(src, 0xee, sizeof(src));
	area_open(w, 1024, &a);
	for (size_t off = 256; off < 264; off++) {
		for (size_t n = 0; n <= sizeof(src); n += off % 3 + 1) {
			memset(a.mine, 0x11, a.bytes);
			meet();
			put_one(&a, off, src, n);
			meet();
			for (size_t k = 0; k < a.bytes; k++) {
				uint8_t want = k >= off && k < off + n ?
						       0xee : 0x11;

				CHECK_MSG((uint8_t)a.mine[k] == want,
					  "put of %zu at %zu: byte %zu is %02x",
					  n, off, k, (uint8_t)a.mine[k]);
			}
			meet();
		}
	}
	area_close(&a);
}

static void gets_of_every_size_bring_the_bytes(struct rma *w)
{
	uint8_t *dst = malloc(LARGEST + 2 * GUARD);
	struct area a;

	CHECK(dst);
	area_open(w, LARGEST, &a);
	pattern_fill(a.mine, a.bytes, (uint64_t)w->rank);
	meet();
	for (size_t i = 0; i < NSIZES; i++) {
		size_t n = sizes[i];

		memset(dst, 0x77, n + 2 * GUARD);
		get_one(&a, 0, dst + GUARD, n);
		pattern_check(dst + GUARD, n, (uint64_t)w->to);
		for (size_t k = 0; k < GUARD; k++) {
			CHECK_EQ(dst[k], 0x77);
			CHECK_EQ(dst[GUARD + n + k], 0x77);
		}
	}
	area_close(&a);
	free(dst);
}

/* The last byte, odd addresses on both sides. */
static void unaligned_pieces_arrive(struct rma *w)
{
	uint8_t src[4096 + 16], dst[4096 + 16];
	struct area a;

	area_open(w, 8192 + 16, &a);
	for (size_t off = 0; off < 16; off++) {
		size_t n = 4096 - off % 5;
		uint64_t seed = off * 100 + (uint64_t)w->rank;

		pattern_fill(src + off, n, seed);
		put_one(&a, a.bytes - n - off, src + off, n);
		memset(dst, 0, sizeof(dst));
		get_one(&a, a.bytes - n - off, dst + (15 - off), n);
		pattern_check(dst + (15 - off), n, seed);
		meet();
		pattern_check(a.mine + a.bytes - n - off, n,
			      off * 100 + (uint64_t)w->from);
		meet();
	}
	area_close(&a);
}

static void both_directions_at_once(struct rma *w)
{
	const size_t bytes = 256 << 10;
	uint8_t *buf = malloc(2 * bytes);
	lune_req *req[2] = { NULL, NULL };
	struct area a;

	CHECK(buf);
	area_open(w, 2 * bytes, &a);
	pattern_fill(a.mine + bytes, bytes, 50 + (uint64_t)w->rank);
	pattern_fill(buf, bytes, 70 + (uint64_t)w->rank);
	meet();
	for (int i = 0; i < suite_rounds(20, 2000); i++) {
		memset(buf + bytes, 0, bytes);
		CHECK_OK(lune_put(a.there, 0, buf, bytes,
				  &(struct lune_op){ .req = &req[0] }));
		CHECK_OK(lune_get(a.there, bytes, buf + bytes, bytes,
				  &(struct lune_op){ .req = &req[1] }));
		CHECK_OK(lune_req_waitall(req, 2, WAIT_MS, NULL));
		pattern_check(buf + bytes, bytes, 50 + (uint64_t)w->to);
	}
	meet();
	pattern_check(a.mine, bytes, 70 + (uint64_t)w->from);
	area_close(&a);
	free(buf);
}

/* Many reads of the same bytes, in flight together, into different places. */
static void overlapping_reads_agree(struct rma *w)
{
	enum { N = 32 };
	const size_t bytes = 100000;
	uint8_t *dst = malloc(N * bytes);
	lune_req *req[N] = { NULL };
	struct area a;

	CHECK(dst);
	area_open(w, bytes + N * 8, &a);
	pattern_fill(a.mine, a.bytes, (uint64_t)w->rank);
	meet();
	for (size_t i = 0; i < N; i++)
		CHECK_OK(lune_get(a.there, i * 8, dst + i * bytes, bytes,
				  &(struct lune_op){ .req = &req[i] }));
	CHECK_OK(lune_req_waitall(req, N, WAIT_MS, NULL));
	for (size_t i = 0; i < N; i++)
		pattern_check(dst + i * bytes, bytes, (uint64_t)w->to + i);
	area_close(&a);
	free(dst);
}

/* ---- errors ------------------------------------------------------------ */

static void what_is_out_of_bounds_is_refused_at_once(struct rma *w)
{
	char buf[64] = "";
	lune_req *req = NULL;
	struct lune_op op = { .req = &req };
	struct area a;

	area_open(w, 1000, &a);
	memset(a.mine, 0x33, a.bytes);
	meet();
	CHECK_RC(lune_put(a.there, 937, buf, 64, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put(a.there, 1001, buf, 0, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put(a.there, UINT64_MAX, buf, 2, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put(a.there, 8, buf, SIZE_MAX, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_get(a.there, 937, buf, 64, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_get(a.there, UINT64_MAX, buf, 1, &op), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put(NULL, 0, buf, 1, &op), LUNE_ERR_INVAL);
	CHECK_RC(lune_put(a.there, 0, NULL, 1, &op), LUNE_ERR_INVAL);
	CHECK_RC(lune_put(a.there, 0, buf, 1,
			  &(struct lune_op){ .flags = 0x80 }), LUNE_ERR_INVAL);
	CHECK_RC(lune_get(a.there, 0, buf, 1,
			  &(struct lune_op){ .signal = { .rmem = a.there } }),
		 LUNE_ERR_INVAL);
	CHECK_RC(lune_put(a.there, 0, buf, 1,
			  &(struct lune_op){ .signal = { .rmem = a.there,
							 .offset = 4 } }),
		 LUNE_ERR_INVAL);
	CHECK_RC(lune_put(a.there, 0, buf, 1,
			  &(struct lune_op){ .signal = { .rmem = a.there,
							 .offset = 1000 } }),
		 LUNE_ERR_BOUNDS);
	CHECK(strstr(lune_last_error(), "1000"));
	put_one(&a, 1000, buf, 0);
	meet();
	for (size_t i = 0; i < a.bytes; i++)
		CHECK_EQ(a.mine[i], 0x33);
	area_close(&a);
}

static void missing_rights_are_refused(struct rma *w)
{
	uint64_t word = 0;
	struct area a;

	area_open_rights(w, 4096, LUNE_MEM_READ, &a);
	CHECK_EQ(lune_rmem_rights(a.there), LUNE_MEM_READ);
	CHECK_EQ(lune_rmem_bytes(a.there), 4096);
	get_one(&a, 0, &word, 8);
	CHECK_RC(lune_put(a.there, 0, &word, 8, NULL), LUNE_ERR_ACCESS);
	CHECK_RC(lune_signal_add(a.there, 0, 1, NULL), LUNE_ERR_ACCESS);
	CHECK_RC(lune_atomic(a.there, 0,
			     &(struct lune_atomic){ LUNE_ATOMIC_SWAP, 1, 0 },
			     NULL, NULL), LUNE_ERR_ACCESS);
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	area_close(&a);
	area_open_rights(w, 4096, LUNE_MEM_WRITE, &a);
	put_one(&a, 0, &word, 8);
	CHECK_RC(lune_get(a.there, 0, &word, 8, NULL), LUNE_ERR_ACCESS);
	area_close(&a);
}

/* ---- threads and peers ------------------------------------------------- */

#define THREADS 8

struct worker {
	struct rma *w;
	struct area *a;
	int id;
};

static void *work(void *arg)
{
	struct worker *k = arg;
	const size_t bytes = 3000;
	uint8_t src[3000], dst[3000];
	uint64_t offset = (uint64_t)k->id * bytes;

	for (uint64_t i = 0; i < (uint64_t)suite_rounds(100, 10000); i++) {
		uint64_t seed = i * 1000 + (uint64_t)k->id +
				(uint64_t)k->w->rank * 100;
		lune_req *req = NULL;

		pattern_fill(src, bytes, seed);
		CHECK_OK(lune_put(k->a->there, offset, src, bytes,
				  &(struct lune_op){ .req = &req }));
		finish(&req, bytes);
		CHECK_OK(lune_get(k->a->there, offset, dst, bytes,
				  &(struct lune_op){ .req = &req }));
		finish(&req, bytes);
		pattern_check(dst, bytes, seed);
	}
	return NULL;
}

static void many_threads_share_an_rmem(struct rma *w)
{
	struct worker k[THREADS];
	pthread_t t[THREADS];
	struct area a;

	area_open(w, THREADS * 3000, &a);
	for (int i = 0; i < THREADS; i++) {
		k[i] = (struct worker){ w, &a, i };
		CHECK_EQ(pthread_create(&t[i], NULL, work, &k[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	area_close(&a);
}

static void many_peers_at_once(struct rma *w)
{
	const size_t bytes = 20000;
	uint8_t *src = malloc(bytes * (size_t)w->n);
	lune_req *req[RANKS_MAX] = { NULL };
	struct area a;

	CHECK(src);
	area_open(w, bytes * (size_t)w->n, &a);
	for (uint64_t round = 0; round < 10; round++) {
		for (int r = 0; r < w->n; r++) {
			uint8_t *p = src + (size_t)r * bytes;

			pattern_fill(p, bytes, round * 10000 +
				     (uint64_t)(w->rank * 100 + r));
			CHECK_OK(lune_put(a.rmem[r],
					  (uint64_t)w->rank * bytes, p, bytes,
					  &(struct lune_op){ .req = &req[r] }));
		}
		CHECK_OK(lune_req_waitall(req, (size_t)w->n, WAIT_MS, NULL));
		meet();
		for (int r = 0; r < w->n; r++)
			pattern_check(a.mine + (size_t)r * bytes, bytes,
				      round * 10000 +
				      (uint64_t)(r * 100 + w->rank));
		meet();
	}
	area_close(&a);
	free(src);
}

/* ---- very large -------------------------------------------------------- */

/*
 * More than 4 GiB in one operation.  The source is a sparse mapping of zeroes
 * with a few bytes set where 32 bits would wrap.
 */
static void one_operation_of_more_than_4_gib(struct rma *w)
{
	const size_t bytes = ((size_t)4 << 30) + ((size_t)5 << 20) + 3;
	const size_t marks[] = {
		0, ((size_t)2 << 30) - 1, (size_t)2 << 30, 0x7ffff000,
		((size_t)4 << 30) - 1, (size_t)4 << 30, bytes - 1,
	};
	struct area a = { .w = w };
	lune_req *req = NULL;
	uint8_t *src;

	if (!suite_long() || w->n > 2)
		return;
	src = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(src != MAP_FAILED);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		src[marks[i]] = (uint8_t)(i + 1);
	/* Only the last rank is aimed at: memory is dear. */
	area_open(w, w->rank == w->n - 1 ? bytes : 4096, &a);
	if (w->to == w->n - 1) {
		CHECK_OK(lune_put(a.there, 0, src, bytes,
				  &(struct lune_op){ .req = &req }));
		if (req)
			CHECK_OK(lune_req_wait(&req, 300000, NULL));
	}
	meet();
	for (size_t i = 0; w->rank == w->n - 1 &&
	     i < sizeof(marks) / sizeof(marks[0]); i++)
		CHECK_EQ(a.mine[marks[i]], i + 1);
	area_close(&a);
	munmap(src, bytes);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "puts of every size arrive",
		  .n = 2, .fn = puts_of_every_size_arrive,
		  .timeout_ms = 60000 },
		{ .name = "the bytes around a put stay",
		  .n = 2, .fn = the_bytes_around_a_put_stay },
		{ .name = "gets of every size bring the bytes",
		  .n = 2, .fn = gets_of_every_size_bring_the_bytes },
		{ .name = "unaligned pieces arrive",
		  .n = 2, .fn = unaligned_pieces_arrive },
		{ .name = "both directions at once",
		  .n = 2, .fn = both_directions_at_once },
		{ .name = "overlapping reads agree",
		  .n = 3, .fn = overlapping_reads_agree },
		{ .name = "what is out of bounds is refused at once",
		  .n = 2, .fn = what_is_out_of_bounds_is_refused_at_once },
		{ .name = "missing rights are refused",
		  .n = 2, .fn = missing_rights_are_refused },
		{ .name = "many threads share an rmem",
		  .n = 2, .fn = many_threads_share_an_rmem,
		  .timeout_ms = 60000 },
		{ .name = "many peers at once",
		  .n = 6, .fn = many_peers_at_once },
		{ .name = "one operation of more than 4 GiB",
		  .n = 2, .fn = one_operation_of_more_than_4_gib },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
