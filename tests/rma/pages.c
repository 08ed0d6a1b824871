/* SPDX-License-Identifier: Apache-2.0 */
/* Paged KV caches: parts x pages, scattered, one signal. */
#include "tests/rma/suite.h"

enum { LAYERS = 61, PARTS = 2 * LAYERS, PAGES = 96 };

struct cache {
	size_t page, stride, part;
	char *local;
	lune_pages *here, *there;
};

static void cache_open(struct area *a, struct cache *c, char *local)
{
	struct lune_pages_part parts[PARTS];

	memset(parts, 0, sizeof(parts));
	c->part = c->stride * PAGES;
	c->local = local;
	for (size_t i = 0; i < PARTS; i++)
		parts[i] = (struct lune_pages_part){
			.base = local + i * c->part, .stride = c->stride,
			.bytes = c->page, .count = PAGES,
		};
	CHECK_OK(lune_pages_open(a->w->ctx, parts, PARTS, &c->here));
	for (size_t i = 0; i < PARTS; i++)
		parts[i] = (struct lune_pages_part){
			.rmem = a->there, .offset = 64 + i * c->part,
			.stride = c->stride, .bytes = c->page, .count = PAGES,
		};
	CHECK_OK(lune_pages_open(a->w->ctx, parts, PARTS, &c->there));
}

static void cache_close(struct cache *c)
{
	lune_pages_close(c->here);
	lune_pages_close(c->there);
}

/* A permutation of the pages; runs > 1 keeps neighbours together. */
static void choose(uint32_t *out, size_t count, uint64_t seed, uint32_t run)
{
	for (uint32_t i = 0; i < PAGES; i++)
		out[i] = i;
	for (uint32_t i = PAGES / run - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(next_random(&seed) % (i + 1));

		for (uint32_t j = 0; j < run; j++) {
			uint32_t t = out[i * run + j];

			out[i * run + j] = out[k * run + j];
			out[k * run + j] = t;
		}
	}
	(void)count;
}

static uint64_t seed_of(int rank, size_t part, uint32_t page)
{
	return (uint64_t)rank << 40 | part << 20 | page << 10;
}

static void cache_fill(struct rma *w, struct cache *c)
{
	for (size_t i = 0; i < PARTS; i++)
		for (uint32_t p = 0; p < PAGES; p++)
			pattern_fill(c->local + i * c->part + p * c->stride,
				     c->page, seed_of(w->rank, i, p));
}

static void move(struct rma *w, size_t page, size_t gap, uint32_t run)
{
	enum { COUNT = 64 };
	struct cache c = { .page = page, .stride = page + gap };
	uint32_t from[PAGES], to[PAGES];
	struct lune_page_map map = { from, to, COUNT };
	size_t bytes = (page + gap) * PAGES * PARTS;
	char *local = malloc(bytes);
	struct lune_signal s;
	struct area a;

	CHECK(local);
	area_open(w, bytes + 64, &a);
	cache_open(&a, &c, local);
	cache_fill(w, &c);
	choose(from, COUNT, 1, run);
	choose(to, COUNT, 2, run);
	meet();
	CHECK_OK(lune_put_pages(c.there, c.here, &map, &(struct lune_op){
			 .signal = { a.there, 0, 1, LUNE_SIGNAL_ADD } }));
	s = (struct lune_signal){ a.mem, 0, LUNE_GE, 1 };
	CHECK_OK(lune_signal_wait(&s, WAIT_MS));
	for (size_t i = 0; i < PARTS; i++)
		for (size_t k = 0; k < COUNT; k++)
			pattern_check(a.mine + 64 + i * c.part +
					      to[k] * c.stride,
				      page, seed_of(w->from, i, from[k]));
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	meet();
	cache_close(&c);
	area_close(&a);
	free(local);
}

static void a_handoff_moves_every_block(struct rma *w)
{
	move(w, suite_long() ? 16384 : 1024, 0, 1);
}

static void pages_with_gaps_keep_the_gaps(struct rma *w)
{
	move(w, 1000, 24, 2);
}

static void neighbours_travel_together(struct rma *w)
{
	move(w, 1024, 0, 8);
}

/* Consecutive on one side, with holes on the other: nothing may be merged. */
static void holes_on_one_side(struct rma *w)
{
	enum { COUNT = 30 };
	struct cache c = { .page = 256, .stride = 256 };
	uint32_t one[COUNT], two[COUNT];
	size_t bytes = (size_t)256 * PAGES * PARTS;
	char *local = malloc(bytes);
	lune_req *req = NULL;
	struct area a;

	CHECK(local);
	for (uint32_t i = 0; i < COUNT; i++)
		one[i] = i, two[i] = i * 2 + i / 10;
	area_open(w, bytes + 64, &a);
	cache_open(&a, &c, local);
	cache_fill(w, &c);
	for (int turn = 0; turn < 2; turn++) {
		uint32_t *from = turn ? one : two, *to = turn ? two : one;
		struct lune_page_map map = { from, to, COUNT };

		memset(a.mine, 0, a.bytes);
		meet();
		CHECK_OK(lune_put_pages(c.there, c.here, &map,
					&(struct lune_op){ .req = &req }));
		finish(&req, (uint64_t)256 * PARTS * COUNT);
		meet();
		for (size_t i = 0; i < PARTS; i++)
			for (size_t k = 0; k < COUNT; k++)
				pattern_check(a.mine + 64 + i * c.part +
						      to[k] * c.stride, 256,
					      seed_of(w->from, i, from[k]));
		meet();
	}
	cache_close(&c);
	area_close(&a);
	free(local);
}

static void get_pages_brings_them_back(struct rma *w)
{
	enum { COUNT = 50 };
	struct cache c = { .page = 512, .stride = 512 };
	uint32_t here[PAGES], there[PAGES];
	struct lune_page_map map = { here, there, COUNT };
	size_t bytes = (size_t)512 * PAGES * PARTS;
	char *local = calloc(1, bytes);
	lune_req *req = NULL;
	struct area a;

	CHECK(local);
	area_open(w, bytes + 64, &a);
	c.local = a.mine + 64;
	c.part = c.stride * PAGES;
	cache_fill(w, &c);
	meet();
	cache_open(&a, &c, local);
	choose(here, COUNT, 3, 1);
	choose(there, COUNT, 4, 1);
	CHECK_OK(lune_get_pages(c.there, c.here, &map,
				&(struct lune_op){ .req = &req }));
	/* The map may be reused at once. */
	choose(here, COUNT, 3, 1);
	finish(&req, (uint64_t)512 * PARTS * COUNT);
	for (size_t i = 0; i < PARTS; i++)
		for (size_t k = 0; k < COUNT; k++)
			pattern_check(local + i * c.part + here[k] * 512, 512,
				      seed_of(w->to, i, there[k]));
	cache_close(&c);
	area_close(&a);
	free(local);
}

/* Parts in two regions of one peer, of different page sizes. */
static void parts_may_lie_in_two_regions(struct rma *w)
{
	struct lune_pages_part l[2], r[2];
	uint32_t here[] = { 3, 0, 2 }, there[] = { 1, 2, 0 };
	struct lune_page_map map = { here, there, 3 };
	char local[4 * 100 + 4 * 60];
	lune_pages *lp, *rp;
	lune_req *req = NULL;
	struct area a, b;

	area_open(w, 4096, &a);
	area_open(w, 4096, &b);
	pattern_fill(local, sizeof(local), (uint64_t)w->rank);
	l[0] = (struct lune_pages_part){ .base = local, .stride = 100,
					 .bytes = 100, .count = 4 };
	l[1] = (struct lune_pages_part){ .base = local + 400, .stride = 60,
					 .bytes = 60, .count = 4 };
	r[0] = (struct lune_pages_part){ .rmem = a.there, .stride = 128,
					 .bytes = 100, .count = 4 };
	r[1] = (struct lune_pages_part){ .rmem = b.there, .offset = 8,
					 .stride = 60, .bytes = 60,
					 .count = 3 };
	CHECK_OK(lune_pages_open(w->ctx, l, 2, &lp));
	CHECK_OK(lune_pages_open(w->ctx, r, 2, &rp));
	CHECK_OK(lune_put_pages(rp, lp, &map,
				&(struct lune_op){ .req = &req }));
	finish(&req, 3 * 160);
	meet();
	pattern_fill(local, sizeof(local), (uint64_t)w->from);
	for (int k = 0; k < 3; k++) {
		CHECK(!memcmp(a.mine + there[k] * 128, local + here[k] * 100,
			      100));
		CHECK(!memcmp(b.mine + 8 + there[k] * 60,
			      local + 400 + here[k] * 60, 60));
	}
	there[0] = 3; /* good for the first part, not for the second */
	CHECK_RC(lune_put_pages(rp, lp, &map, NULL), LUNE_ERR_BOUNDS);
	lune_pages_close(rp);
	lune_pages_close(lp);
	area_close(&b);
	area_close(&a);
}

static void refuse_shape(struct rma *w, struct lune_pages_part p)
{
	lune_pages *pages = NULL;
	int rc = lune_pages_open(w->ctx, &p, 1, &pages);

	CHECK(rc == LUNE_ERR_INVAL || rc == LUNE_ERR_BOUNDS);
	CHECK(!pages);
}

static void impossible_shapes_are_refused(struct rma *w)
{
	struct lune_pages_part good = { .stride = 64, .bytes = 64, .count = 4 };
	struct lune_pages_part p;
	lune_pages *lp, *rp;
	char local[256];
	uint32_t one[] = { 1 }, four[] = { 4 };
	struct area a;

	area_open(w, 256, &a);
	refuse_shape(w, good);
	p = good, p.rmem = a.there, p.offset = 1, refuse_shape(w, p);
	p = good, p.rmem = a.there, p.count = 5, refuse_shape(w, p);
	p = good, p.rmem = a.there, p.count = UINT32_MAX,
	p.stride = UINT64_MAX / 2, refuse_shape(w, p);
	p = good, p.rmem = a.there, p.base = local, refuse_shape(w, p);
	p = good, p.base = local, p.stride = 63, refuse_shape(w, p);
	p = good, p.base = local, p.bytes = 0, refuse_shape(w, p);
	p = good, p.base = local, p.count = 0, refuse_shape(w, p);
	p = good, p.base = local;
	CHECK_OK(lune_pages_open(w->ctx, &p, 1, &lp));
	p = good, p.rmem = a.there;
	CHECK_OK(lune_pages_open(w->ctx, &p, 1, &rp));
	CHECK_RC(lune_put_pages(rp, lp, &(struct lune_page_map){ four, one, 1 },
				NULL), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put_pages(rp, lp, &(struct lune_page_map){ one, four, 1 },
				NULL), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_put_pages(lp, rp, &(struct lune_page_map){ one, one, 1 },
				NULL), LUNE_ERR_INVAL);
	/* No page at all is a signal alone. */
	CHECK_OK(lune_put_pages(rp, lp, &(struct lune_page_map){ one, one, 0 },
				&(struct lune_op){ .signal = {
					a.there, 0, 3, LUNE_SIGNAL_SET } }));
	CHECK_OK(lune_signal_wait(&(struct lune_signal){ a.mem, 0, LUNE_EQ, 3 },
				  WAIT_MS));
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	lune_pages_close(rp);
	lune_pages_close(lp);
	area_close(&a);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "a handoff moves every block",
		  .n = 2, .fn = a_handoff_moves_every_block },
		{ .name = "pages with gaps keep the gaps",
		  .n = 2, .fn = pages_with_gaps_keep_the_gaps },
		{ .name = "neighbours travel together",
		  .n = 2, .fn = neighbours_travel_together },
		{ .name = "holes on one side",
		  .n = 2, .fn = holes_on_one_side },
		{ .name = "get_pages brings them back",
		  .n = 2, .fn = get_pages_brings_them_back },
		{ .name = "parts may lie in two regions",
		  .n = 2, .fn = parts_may_lie_in_two_regions },
		{ .name = "impossible shapes are refused",
		  .n = 2, .fn = impossible_shapes_are_refused },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
