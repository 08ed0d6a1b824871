/* SPDX-License-Identifier: Apache-2.0 */
/* putv and getv: lists of 1 to 100,000 entries. */
#include "tests/rma/suite.h"

#define MAX_BYTES (16 << 20)

/*
 * Cut [0, bytes) into count pieces and shuffle which piece goes where: entry
 * i is local piece i, and remote piece perm[i]'s place.
 */
struct cut {
	struct lune_iov *v;
	size_t count, bytes, piece;
	uint32_t *perm;
};

static void cut_make(struct cut *c, char *local, size_t count, size_t piece)
{
	uint64_t rnd = count;

	c->count = count;
	c->piece = piece;
	c->bytes = count * piece;
	c->v = calloc(count, sizeof(*c->v));
	c->perm = calloc(count, sizeof(*c->perm));
	CHECK(c->v && c->perm);
	for (size_t i = 0; i < count; i++)
		c->perm[i] = (uint32_t)i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t k = next_random(&rnd) % (i + 1);
		uint32_t t = c->perm[i];

		c->perm[i] = c->perm[k];
		c->perm[k] = t;
	}
	for (size_t i = 0; i < count; i++)
		c->v[i] = (struct lune_iov){ local + i * piece,
					     c->perm[i] * piece, piece };
}

static void cut_free(struct cut *c)
{
	free(c->v);
	free(c->perm);
}

static const struct {
	size_t count, piece;
} shapes[] = {
	{ 1, 1 }, { 2, 7 }, { 3, 4096 }, { 100, 16384 }, { 128, 1 },
	{ 255, 64 }, { 256, 64 }, { 257, 65 }, { 1000, 8 }, { 1024, 4097 },
	{ 1025, 100 }, { 20000, 33 },
};
#define NSHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void putv_once(struct area *a, size_t count, size_t piece)
{
	char *local = malloc(count * piece), *got = malloc(count * piece);
	struct rma *w = a->w;
	lune_req *req = NULL;
	struct cut c;

	CHECK(local && got);
	cut_make(&c, local, count, piece);
	pattern_fill(local, c.bytes, count + (uint64_t)w->rank);
	CHECK_OK(lune_putv(a->there, c.v, count,
			   &(struct lune_op){ .req = &req }));
	/* The list may be reused at once; the bytes not. */
	memset(c.v, 0, count * sizeof(*c.v));
	finish(&req, c.bytes);
	meet();
	for (size_t i = 0; i < count; i++)
		memcpy(got + i * piece, a->mine + c.perm[i] * piece, piece);
	pattern_check(got, c.bytes, count + (uint64_t)w->from);
	meet();
	cut_free(&c);
	free(local);
	free(got);
}

static void putv_scatters_every_entry(struct rma *w)
{
	struct area a;

	area_open(w, MAX_BYTES, &a);
	for (size_t i = 0; i < NSHAPES; i++)
		putv_once(&a, shapes[i].count, shapes[i].piece);
	area_close(&a);
}

static void a_list_of_100000_entries(struct rma *w)
{
	struct area a;

	area_open(w, 100000 * 24, &a);
	putv_once(&a, 100000, 24);
	area_close(&a);
}

static void getv_gathers_every_entry(struct rma *w)
{
	struct area a;

	area_open(w, MAX_BYTES, &a);
	pattern_fill(a.mine, a.bytes, (uint64_t)w->rank);
	meet();
	for (size_t i = 0; i < NSHAPES; i++) {
		size_t piece = shapes[i].piece, bytes = shapes[i].count * piece;
		char *local = calloc(1, bytes), *got = malloc(bytes);
		lune_req *req = NULL;
		struct cut c;

		CHECK(local && got);
		cut_make(&c, local, shapes[i].count, piece);
		CHECK_OK(lune_getv(a.there, c.v, c.count,
				   &(struct lune_op){ .req = &req }));
		memset(c.v, 0, c.count * sizeof(*c.v));
		finish(&req, bytes);
		for (size_t k = 0; k < c.count; k++)
			memcpy(got + c.perm[k] * piece, local + k * piece,
			       piece);
		pattern_check(got, bytes, (uint64_t)w->to);
		cut_free(&c);
		free(local);
		free(got);
	}
	area_close(&a);
}

/* Different sizes in one list, empty ones among them. */
static void mixed_and_empty_entries(struct rma *w)
{
	enum { N = 300 };
	struct lune_iov v[N];
	char *local = malloc(1 << 20);
	uint64_t at = 0, rnd = 1;
	lune_req *req = NULL;
	struct area a;

	CHECK(local);
	area_open(w, 1 << 20, &a);
	for (int i = 0; i < N; i++) {
		size_t n = i % 3 ? next_random(&rnd) % 5000 : 0;

		if (at + n > a.bytes)
			n = 0;
		v[i] = (struct lune_iov){ local + at, at, n };
		at += n;
	}
	pattern_fill(local, at, 3 + (uint64_t)w->rank);
	CHECK_OK(lune_putv(a.there, v, N, &(struct lune_op){ .req = &req }));
	finish(&req, at);
	meet();
	pattern_check(a.mine, at, 3 + (uint64_t)w->from);
	memset(local, 0, at);
	CHECK_OK(lune_getv(a.there, v, N, &(struct lune_op){ .req = &req }));
	finish(&req, at);
	pattern_check(local, at, 3 + (uint64_t)w->rank);
	area_close(&a);
	free(local);
}

static void a_bad_entry_refuses_the_whole_list(struct rma *w)
{
	struct lune_iov v[10];
	char local[1000];
	struct area a;

	memset(local, 0x55, sizeof(local));
	area_open(w, 1000, &a);
	for (size_t i = 0; i < 10; i++)
		v[i] = (struct lune_iov){ local + i * 100, i * 100, 100 };
	v[7].bytes = 301;
	CHECK_RC(lune_putv(a.there, v, 10, NULL), LUNE_ERR_BOUNDS);
	CHECK(strstr(lune_last_error(), "entry 7"));
	CHECK_RC(lune_getv(a.there, v, 10, NULL), LUNE_ERR_BOUNDS);
	v[7].bytes = 100;
	v[3].addr = NULL;
	CHECK_RC(lune_putv(a.there, v, 10, NULL), LUNE_ERR_INVAL);
	CHECK_RC(lune_putv(a.there, v, 0, NULL), LUNE_ERR_INVAL);
	CHECK_RC(lune_putv(a.there, v, (size_t)LUNE_LIST_MAX + 1, NULL),
		 LUNE_ERR_LIMIT);
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	meet();
	for (size_t i = 0; i < a.bytes; i++)
		CHECK_EQ(a.mine[i], 0);
	area_close(&a);
}

/* Lists that share local and remote bytes, in flight together. */
static void many_lists_at_once(struct rma *w)
{
	enum { LISTS = 16, N = 200, PIECE = 500 };
	struct lune_iov v[N];
	lune_req *req[LISTS] = { NULL };
	char *dst = malloc((size_t)LISTS * N * PIECE);
	struct area a;

	CHECK(dst);
	area_open(w, N * PIECE, &a);
	pattern_fill(a.mine, a.bytes, (uint64_t)w->rank);
	meet();
	for (size_t l = 0; l < LISTS; l++) {
		for (size_t i = 0; i < N; i++)
			v[i] = (struct lune_iov){
				dst + l * N * PIECE + i * PIECE, i * PIECE,
				PIECE,
			};
		CHECK_OK(lune_getv(a.there, v, N,
				   &(struct lune_op){ .req = &req[l] }));
	}
	CHECK_OK(lune_req_waitall(req, LISTS, WAIT_MS, NULL));
	for (size_t l = 0; l < LISTS; l++)
		pattern_check(dst + l * N * PIECE, N * PIECE, (uint64_t)w->to);
	area_close(&a);
	free(dst);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "putv scatters every entry",
		  .n = 2, .fn = putv_scatters_every_entry },
		{ .name = "a list of 100,000 entries",
		  .n = 2, .fn = a_list_of_100000_entries },
		{ .name = "getv gathers every entry",
		  .n = 2, .fn = getv_gathers_every_entry },
		{ .name = "mixed and empty entries",
		  .n = 2, .fn = mixed_and_empty_entries },
		{ .name = "a bad entry refuses the whole list",
		  .n = 2, .fn = a_bad_entry_refuses_the_whole_list },
		{ .name = "many lists at once",
		  .n = 3, .fn = many_lists_at_once },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
