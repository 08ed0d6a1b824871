/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: all tickets at once, on any communicator. */
#include "tests/rma/suite.h"

static void put_word(struct rma *w, lune_rmem *r, uint64_t offset, uint64_t v)
{
	lune_req *req = NULL;

	(void)w;
	CHECK_OK(lune_put(r, offset, &v, 8, &(struct lune_op){ .req = &req }));
	finish(&req, 8);
}

static void everyone_reaches_everyone(struct rma *w)
{
	uint64_t *mine;
	lune_mem *mem;
	lune_win *win;

	CHECK_OK(lune_mem_alloc(w->ctx, 4096, NULL, &mem));
	CHECK_OK(lune_win_open(w->comm, mem, WAIT_MS, &win));
	mine = lune_mem_addr(mem);
	for (int r = 0; r < w->n; r++)
		put_word(w, lune_win_rmem(win, r), (uint64_t)w->rank * 8,
			 (uint64_t)(w->rank * 100 + r));
	CHECK(!lune_win_rmem(win, -1));
	CHECK(!lune_win_rmem(win, w->n));
	meet();
	for (int r = 0; r < w->n; r++)
		CHECK_EQ(mine[r], r * 100 + w->rank);
	/* Not collective: each when it likes. */
	lune_win_close(win);
	meet();
	CHECK_OK(lune_mem_release(mem, WAIT_MS));
}

static void a_rank_may_share_nothing(struct rma *w)
{
	bool shares = w->rank % 2 == 0;
	lune_mem *mem = NULL;
	lune_win *win;

	if (shares)
		CHECK_OK(lune_mem_alloc(w->ctx, 4096, NULL, &mem));
	CHECK_OK(lune_win_open(w->comm, mem, WAIT_MS, &win));
	for (int r = 0; r < w->n; r++)
		CHECK_EQ(lune_win_rmem(win, r) != NULL, r % 2 == 0);
	put_word(w, lune_win_rmem(win, 0), (uint64_t)w->rank * 8, 7);
	meet();
	if (w->rank == 0)
		for (int r = 0; r < w->n; r++)
			CHECK_EQ(lune_signal_read(mem, (uint64_t)r * 8), 7);
	lune_win_close(win);
	meet();
	CHECK_OK(lune_mem_release(mem, WAIT_MS));
}

static void windows_of_a_split_stay_apart(struct rma *w)
{
	struct lune_split how = { .color = w->rank % 2, .key = -w->rank };
	lune_comm *half;
	lune_mem *mem;
	lune_win *win;
	int n;

	CHECK_OK(lune_comm_split(w->comm, &how, WAIT_MS, &half));
	n = lune_comm_size(half);
	CHECK_OK(lune_mem_alloc(w->ctx, 4096, NULL, &mem));
	CHECK_OK(lune_win_open(half, mem, WAIT_MS, &win));
	for (int r = 0; r < n; r++)
		put_word(w, lune_win_rmem(win, r), (uint64_t)w->rank * 8, 1);
	meet();
	for (int r = 0; r < w->n; r++)
		CHECK_EQ(lune_signal_read(mem, (uint64_t)r * 8),
			 r % 2 == w->rank % 2);
	lune_win_close(win);
	meet();
	CHECK_OK(lune_mem_release(mem, WAIT_MS));
	lune_comm_close(half);
}

static void many_windows_one_after_the_other(struct rma *w)
{
	for (int i = 0; i < suite_rounds(20, 1000); i++) {
		lune_mem *mem;
		lune_win *win;

		CHECK_OK(lune_mem_alloc(w->ctx, 4096, NULL, &mem));
		CHECK_OK(lune_win_open(w->comm, mem, WAIT_MS, &win));
		put_word(w, lune_win_rmem(win, w->to), 0, (uint64_t)i + 1);
		meet();
		CHECK_EQ(lune_signal_read(mem, 0), (uint64_t)i + 1);
		lune_win_close(win);
		meet();
		CHECK_OK(lune_mem_release(mem, WAIT_MS));
	}
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "everyone reaches everyone",
		  .n = 4, .fn = everyone_reaches_everyone },
		{ .name = "a rank may share nothing",
		  .n = 3, .fn = a_rank_may_share_nothing },
		{ .name = "windows of a split stay apart",
		  .n = 4, .fn = windows_of_a_split_stay_apart },
		{ .name = "many windows, one after the other",
		  .n = 2, .fn = many_windows_one_after_the_other },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
