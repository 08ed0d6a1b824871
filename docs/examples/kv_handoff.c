/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KV-cache handoff: a prefill rank puts paged KV blocks into a decode rank's
 * pages with one call and one signal.  61 layers x K and V x 64 pages of
 * 16 KiB: 7,808 scattered blocks, 122 MiB.
 *
 *   mpirun -n 2 kv_handoff
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lune/lune.h>

#define PARTS (61 * 2) /* layers x (K, V) */
#define POOL 256       /* pages of a part in the cache */
#define MOVED 64       /* pages of this request */
#define PAGE 16384
#define CACHE ((size_t)PARTS * POOL * PAGE)
#define OK(call)                                                          \
	do {                                                              \
		if ((call) < 0) {                                         \
			fprintf(stderr, "kv_handoff: %s\n",               \
				lune_last_error());                       \
			return 1;                                         \
		}                                                         \
	} while (0)

/* What page `page` of part `part` holds, 8 bytes at a time. */
static uint64_t token(size_t part, size_t page, size_t i)
{
	return (part << 40 | page << 20 | i) * 0x9e3779b97f4a7c15ULL;
}

static uint64_t *page_at(char *cache, size_t part, size_t page)
{
	return (uint64_t *)(cache + (part * POOL + page) * PAGE);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int prefill(lune_ctx *ctx, lune_win *win, char *cache,
		   const struct lune_page_map *map)
{
	struct lune_pages_part here[PARTS], there[PARTS];
	lune_rmem *decode = lune_win_rmem(win, 1);
	lune_pages *local, *remote;
	lune_req *req;
	double t0, t;

	for (size_t p = 0; p < PARTS; p++) {
		size_t at = p * POOL * PAGE;

		here[p] = (struct lune_pages_part){ .base = cache + at,
			.stride = PAGE, .bytes = PAGE, .count = POOL };
		there[p] = (struct lune_pages_part){ .rmem = decode,
			.offset = at, .stride = PAGE, .bytes = PAGE,
			.count = POOL };
		for (size_t k = 0; k < MOVED; k++)
			for (size_t i = 0; i < PAGE / 8; i++)
				page_at(cache, p, map->local[k])[i] =
					token(p, k, i);
	}
	OK(lune_pages_open(ctx, here, PARTS, &local));
	OK(lune_pages_open(ctx, there, PARTS, &remote));
	t0 = now();
	OK(lune_put_pages(remote, local, map, &(struct lune_op){ .req = &req,
		.signal = { .rmem = decode, .offset = CACHE, .value = 1 } }));
	OK(lune_req_wait(&req, LUNE_TIMEOUT_DEFAULT, NULL));
	t = now() - t0;
	printf("prefill: %d blocks of %d bytes in %.1f ms, %.2f GB/s\n",
	       PARTS * MOVED, PAGE, t * 1e3,
	       (double)PARTS * MOVED * PAGE / t / 1e9);
	lune_pages_close(local);
	lune_pages_close(remote);
	return 0;
}

static int decode(lune_mem *mem, char *cache, const struct lune_page_map *map)
{
	size_t wrong = 0;

	OK(lune_signal_wait(&(struct lune_signal){ .mem = mem, .offset = CACHE,
		.compare = LUNE_GE, .value = 1 }, LUNE_TIMEOUT_DEFAULT));
	for (size_t p = 0; p < PARTS; p++)
		for (size_t k = 0; k < MOVED; k++)
			for (size_t i = 0; i < PAGE / 8; i++)
				wrong += page_at(cache, p, map->remote[k])[i] !=
					 token(p, k, i);
	printf("decode: one signal, %d blocks, %zu wrong words\n",
	       PARTS * MOVED, wrong);
	return wrong != 0;
}

int main(void)
{
	uint32_t local[MOVED], remote[MOVED];
	struct lune_page_map map = { local, remote, MOVED };
	lune_ctx *ctx;
	lune_mem *mem;
	lune_win *win;
	int rank, bad;

	OK(lune_ctx_open(NULL, &ctx));
	rank = lune_comm_rank(lune_ctx_world(ctx));
	if (lune_comm_size(lune_ctx_world(ctx)) != 2) {
		fprintf(stderr, "kv_handoff: start 2 ranks\n");
		return 2;
	}
	for (uint32_t k = 0; k < MOVED; k++) { /* any pages will do */
		local[k] = (k * 37 + 5) % POOL;
		remote[k] = (k * 91 + 17) % POOL;
	}
	OK(lune_mem_alloc(ctx, CACHE + 4096, NULL, &mem));
	OK(lune_win_open(lune_ctx_world(ctx), mem, LUNE_TIMEOUT_DEFAULT, &win));
	bad = rank == 0 ? prefill(ctx, win, lune_mem_addr(mem), &map) :
			  decode(mem, lune_mem_addr(mem), &map);
	OK(lune_barrier(lune_ctx_world(ctx), LUNE_TIMEOUT_DEFAULT));
	lune_win_close(win);
	OK(lune_mem_release(mem, LUNE_TIMEOUT_DEFAULT));
	OK(lune_ctx_close(ctx, 1000));
	return bad;
}
