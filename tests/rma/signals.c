/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: never seen before the data, on any route, and the ways of waiting
 * for them.
 */
#include <pthread.h>

#include "tests/rma/suite.h"

/* ---- never before the data --------------------------------------------- */

#define BLOCK 4096
#define SIGNAL 0	 /* to: data is there */
#define TAKEN 8		 /* from: data was looked at */
#define DATA 64

static void wait_for(struct area *a, uint64_t offset, uint64_t value)
{
	struct lune_signal s = { a->mem, offset, LUNE_GE, value };

	CHECK_OK(lune_signal_wait(&s, WAIT_MS));
}

/*
 * Everybody sends blocks to the next and looks at those of the previous.  Each
 * block's bytes are of its round, so that one stale byte shows.  A block is
 * overwritten only after it was taken.
 */
static void ping(struct area *a, size_t bytes, uint64_t rounds,
		 enum lune_signal_how how)
{
	struct rma *w = a->w;
	uint8_t *src = malloc(bytes ? bytes : 1);
	lune_rmem *back = a->rmem[w->from];

	CHECK(src);
	for (uint64_t i = 1; i <= rounds; i++) {
		struct lune_op op = {
			.signal = { a->there, SIGNAL,
				    how == LUNE_SIGNAL_ADD ? 1 : i, how },
		};

		pattern_fill(src, bytes, i * 64 + (uint64_t)w->rank);
		wait_for(a, TAKEN, i - 1);
		CHECK_OK(lune_put(a->there, DATA, src, bytes, &op));
		wait_for(a, SIGNAL, i);
		pattern_check(a->mine + DATA, bytes,
			      i * 64 + (uint64_t)w->from);
		CHECK_OK(lune_signal_add(back, TAKEN, 1, NULL));
		/* src is ours again when the next one has taken it. */
		wait_for(a, TAKEN, i);
	}
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	CHECK_EQ(lune_signal_read(a->mem, SIGNAL), rounds);
	meet();
	CHECK_OK(lune_signal_write(a->mem, SIGNAL, 0));
	CHECK_OK(lune_signal_write(a->mem, TAKEN, 0));
	meet();
	free(src);
}

static void a_signal_is_never_seen_before_its_data(struct rma *w)
{
	struct area a;

	area_open(w, DATA + BLOCK, &a);
	ping(&a, BLOCK, (uint64_t)suite_rounds(2000, 1000000),
	     LUNE_SIGNAL_ADD);
	ping(&a, 8, (uint64_t)suite_rounds(1000, 100000), LUNE_SIGNAL_SET);
	ping(&a, 0, (uint64_t)suite_rounds(200, 10000), LUNE_SIGNAL_ADD);
	area_close(&a);
}

/* Larger than any slice, so striped where there are streams. */
static void a_striped_put_signals_at_its_end(struct rma *w)
{
	struct area a;

	area_open(w, DATA + (5 << 20), &a);
	ping(&a, (5 << 20) - 13, (uint64_t)suite_rounds(15, 2000),
	     LUNE_SIGNAL_SET);
	area_close(&a);
}

/* The signal of a list comes after its last entry. */
static void a_list_signals_at_its_end(struct rma *w)
{
	enum { N = 300, PIECE = 1000 };
	struct lune_iov v[N];
	char *src = malloc(N * PIECE);
	struct area a;

	CHECK(src);
	area_open(w, DATA + N * PIECE, &a);
	for (size_t i = 0; i < N; i++)
		v[i] = (struct lune_iov){ src + i * PIECE,
					  DATA + (N - 1 - i) * PIECE, PIECE };
	for (uint64_t i = 1; i <= (uint64_t)suite_rounds(50, 10000); i++) {
		struct lune_op op = {
			.signal = { a.there, SIGNAL, i, LUNE_SIGNAL_SET },
		};

		memset(src, (int)(i * 2 + (uint64_t)w->rank), N * PIECE);
		CHECK_OK(lune_putv(a.there, v, N, &op));
		wait_for(&a, SIGNAL, i);
		for (size_t k = 0; k < N * PIECE; k++)
			CHECK_EQ((uint8_t)a.mine[DATA + k],
				 (uint8_t)(i * 2 + (uint64_t)w->from));
		CHECK_OK(lune_signal_add(a.rmem[w->from], TAKEN, 1, NULL));
		wait_for(&a, TAKEN, i);
	}
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	area_close(&a);
	free(src);
}

/* Data in one region, the signal in another of the same peer. */
static void the_signal_may_lie_in_another_region(struct rma *w)
{
	uint8_t src[10000];
	struct area data, words;

	area_open(w, sizeof(src), &data);
	area_open(w, 4096, &words);
	for (uint64_t i = 1; i <= 200; i++) {
		struct lune_op op = {
			.signal = { words.there, 4088, 1, LUNE_SIGNAL_ADD },
		};

		pattern_fill(src, sizeof(src), i * 8 + (uint64_t)w->rank);
		CHECK_OK(lune_put(data.there, 0, src, sizeof(src), &op));
		wait_for(&words, 4088, i);
		pattern_check(data.mine, sizeof(src),
			      i * 8 + (uint64_t)w->from);
		CHECK_OK(lune_signal_add(words.rmem[w->from], 0, 1, NULL));
		wait_for(&words, 0, i);
	}
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	area_close(&words);
	area_close(&data);
}

/* ---- counting ---------------------------------------------------------- */

static void adds_of_all_ranks_add_up(struct rma *w)
{
	const uint64_t each = (uint64_t)suite_rounds(500, 50000);
	struct area a;

	area_open(w, 4096, &a);
	for (uint64_t i = 0; i < each; i++)
		for (int r = 0; r < w->n; r++)
			CHECK_OK(lune_signal_add(a.rmem[r], 8,
						 (uint64_t)w->rank + 1, NULL));
	wait_for(&a, 8, each * (uint64_t)(w->n * (w->n + 1) / 2));
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	CHECK_EQ(lune_signal_read(a.mem, 8),
		 each * (uint64_t)(w->n * (w->n + 1) / 2));
	area_close(&a);
}

/* ---- waiting ----------------------------------------------------------- */

static void tests_and_timeouts(struct rma *w)
{
	struct lune_signal s = { .compare = LUNE_EQ, .value = 5 };
	struct area a;
	int64_t start;
	size_t index;

	area_open(w, 4096, &a);
	s.mem = a.mem;
	CHECK_RC(lune_signal_test(&s), LUNE_ERR_AGAIN);
	CHECK_RC(lune_signal_wait(&s, 0), LUNE_ERR_TIMEOUT);
	start = ranks_now_ms();
	CHECK_RC(lune_signal_wait(&s, 50), LUNE_ERR_TIMEOUT);
	CHECK(ranks_now_ms() - start >= 50);
	CHECK_RC(lune_signal_waitany(&s, 1, 10, &index), LUNE_ERR_TIMEOUT);
	CHECK_OK(lune_signal_write(a.mem, 0, 5));
	CHECK_OK(lune_signal_test(&s));
	CHECK_OK(lune_signal_wait(&s, 0));
	for (int c = LUNE_EQ; c <= LUNE_LT; c++) {
		for (uint64_t v = 4; v <= 6; v++) {
			/* word 5 against 4, 5, 6 */
			bool want;

			s.compare = (enum lune_compare)c;
			s.value = v;
			want = c == LUNE_EQ ? 5 == v : c == LUNE_NE ? 5 != v :
			       c == LUNE_GE ? 5 >= v : c == LUNE_GT ? 5 > v :
			       c == LUNE_LE ? 5 <= v : 5 < v;
			CHECK_EQ(lune_signal_test(&s) == LUNE_OK, want);
		}
	}
	s.offset = 4;
	CHECK_RC(lune_signal_wait(&s, 0), LUNE_ERR_INVAL);
	s.offset = 4096;
	CHECK_RC(lune_signal_wait(&s, 0), LUNE_ERR_BOUNDS);
	CHECK_RC(lune_signal_waitany(&s, 0, 0, &index), LUNE_ERR_INVAL);
	area_close(&a);
}

static void waitany_names_the_one_that_came(struct rma *w)
{
	enum { N = 100 };
	struct lune_signal s[N];
	struct area a;
	size_t index = N;

	area_open(w, N * 8, &a);
	for (size_t i = 0; i < N; i++)
		s[i] = (struct lune_signal){ a.mem, i * 8, LUNE_NE, 0 };
	for (size_t k = 0; k < N; k++) {
		/* Everybody in the same order, so that one word is set. */
		size_t i = (k * 37) % N;

		CHECK_OK(lune_signal_set(a.there, i * 8, k + 1, NULL));
		CHECK_OK(lune_signal_waitany(s, N, WAIT_MS, &index));
		CHECK_EQ(index, i);
		CHECK_EQ(lune_signal_read(a.mem, i * 8), k + 1);
		CHECK_OK(lune_signal_write(a.mem, i * 8, 0));
		meet();
	}
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	area_close(&a);
}

/* A sleeper is woken: the signal comes only when all are waiting. */
struct sleeper {
	struct area *a;
	int id;
};

static void *sleep_for_signal(void *arg)
{
	struct sleeper *k = arg;
	struct lune_signal s = { k->a->mem, (uint64_t)k->id * 8, LUNE_GE, 1 };

	ranks_add(1, 1);
	CHECK_OK(lune_signal_wait(&s, WAIT_MS));
	return NULL;
}

static void every_sleeping_thread_is_woken(struct rma *w)
{
	enum { N = 8 };
	struct sleeper k[N];
	pthread_t t[N];
	struct area a;

	area_open(w, 4096, &a);
	for (int i = 0; i < N; i++) {
		k[i] = (struct sleeper){ &a, i };
		CHECK_EQ(pthread_create(&t[i], NULL, sleep_for_signal, &k[i]),
			 0);
	}
	ranks_wait(1, (uint32_t)(N * w->n));
	for (int i = N - 1; i >= 0; i--)
		CHECK_OK(lune_signal_add(a.there, (uint64_t)i * 8, 1, NULL));
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
	area_close(&a);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "a signal is never seen before its data",
		  .n = 2, .fn = a_signal_is_never_seen_before_its_data,
		  .timeout_ms = 60000 },
		{ .name = "a striped put signals at its end",
		  .n = 2, .fn = a_striped_put_signals_at_its_end },
		{ .name = "a list signals at its end",
		  .n = 2, .fn = a_list_signals_at_its_end },
		{ .name = "the signal may lie in another region",
		  .n = 2, .fn = the_signal_may_lie_in_another_region },
		{ .name = "adds of all ranks add up",
		  .n = 4, .fn = adds_of_all_ranks_add_up },
		{ .name = "tests and timeouts",
		  .n = 2, .fn = tests_and_timeouts },
		{ .name = "waitany names the one that came",
		  .n = 2, .fn = waitany_names_the_one_that_came },
		{ .name = "every sleeping thread is woken",
		  .n = 2, .fn = every_sleeping_thread_is_woken },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
