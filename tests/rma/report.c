/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an operation: requests, queues, flush, LOCAL, ORDERED. */
#include "base/base.h"
#include "tests/rma/suite.h"

static void without_a_request_flush_waits(struct rma *w)
{
	const size_t piece = 5000, pieces = 40;
	uint8_t *src = malloc(piece * pieces);
	struct area a;

	CHECK(src);
	pattern_fill(src, piece * pieces, 7 + (uint64_t)w->rank);
	area_open(w, piece * pieces, &a);
	for (int round = 0; round < 10; round++) {
		memset(a.mine, 0, a.bytes);
		meet();
		for (size_t i = 0; i < pieces; i++)
			CHECK_OK(lune_put(a.there, i * piece, src + i * piece,
					  piece, NULL));
		if (round & 1)
			CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
		else
			CHECK_OK(lune_flush(w->comm, round & 2 ? w->to :
					    LUNE_ALL_RANKS, WAIT_MS));
		meet();
		pattern_check(a.mine, a.bytes, 7 + (uint64_t)w->from);
		meet();
	}
	area_close(&a);
	free(src);
}

static void a_queue_reports_each_once(struct rma *w)
{
	enum { N = 100 };
	struct lune_completion got[16];
	uint8_t src[N * 64], seen[N] = { 0 };
	struct area a;
	lune_cq *cq;
	int n = 0;

	pattern_fill(src, sizeof(src), (uint64_t)w->rank);
	area_open(w, sizeof(src), &a);
	CHECK_OK(lune_cq_open(w->ctx, N, &cq));
	for (int i = 0; i < N; i++)
		CHECK_OK(lune_put(a.there, (uint64_t)i * 64, src + i * 64, 64,
				  &(struct lune_op){ .cq = cq,
						     .user = &seen[i] }));
	while (n < N) {
		int k = lune_cq_drain(cq, got, 16, WAIT_MS);

		CHECK_GE0(k);
		CHECK(k > 0 && k <= 16);
		for (int i = 0; i < k; i++) {
			CHECK_OK(got[i].status.code);
			CHECK_EQ(got[i].status.bytes, 64);
			CHECK_EQ(*(uint8_t *)got[i].user, 0);
			*(uint8_t *)got[i].user = 1;
		}
		n += k;
	}
	CHECK_EQ(lune_cq_drain(cq, got, 16, 0), 0);
	CHECK_OK(lune_cq_close(cq));
	meet();
	pattern_check(a.mine, sizeof(src), (uint64_t)w->from);
	area_close(&a);
}

static void a_full_queue_refuses_before_it_starts(struct rma *w)
{
	struct lune_completion got[4];
	uint64_t one = 1, two = 2;
	struct area a;
	lune_cq *cq;
	int n = 0;

	area_open(w, 4096, &a);
	CHECK_OK(lune_cq_open(w->ctx, 2, &cq));
	for (int i = 0; i < 2; i++)
		CHECK_OK(lune_put(a.there, 0, &one, 8,
				  &(struct lune_op){ .cq = cq }));
	CHECK_RC(lune_put(a.there, 8, &two, 8, &(struct lune_op){ .cq = cq }),
		 LUNE_ERR_LIMIT);
	while (n < 2)
		n += lune_cq_drain(cq, got, 4, WAIT_MS);
	CHECK_EQ(n, 2);
	CHECK_OK(lune_put(a.there, 16, &two, 8, &(struct lune_op){ .cq = cq }));
	CHECK_EQ(lune_cq_drain(cq, got, 4, WAIT_MS), 1);
	CHECK_OK(lune_cq_close(cq));
	meet();
	CHECK_EQ(((uint64_t *)a.mine)[0], 1);
	CHECK_EQ(((uint64_t *)a.mine)[1], 0);
	CHECK_EQ(((uint64_t *)a.mine)[2], 2);
	area_close(&a);
}

/* LOCAL: the source may be overwritten when the request is done. */
static void local_completion_frees_the_source(struct rma *w)
{
	const size_t bytes = 200000;
	uint8_t *src = malloc(bytes);
	lune_req *req = NULL;
	struct area a;

	CHECK(src);
	area_open(w, 8 * bytes, &a);
	for (size_t i = 0; i < 8; i++) {
		pattern_fill(src, bytes, i * 10 + (uint64_t)w->rank);
		CHECK_OK(lune_put(a.there, i * bytes, src, bytes,
				  &(struct lune_op){ .req = &req,
						.flags = LUNE_OP_LOCAL }));
		CHECK_OK(lune_req_wait(&req, WAIT_MS, NULL));
		memset(src, 0, bytes);
	}
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	meet();
	for (size_t i = 0; i < 8; i++)
		pattern_check(a.mine + i * bytes, bytes,
			      i * 10 + (uint64_t)w->from);
	area_close(&a);
	free(src);
}

/* ORDERED: a large put, then its ready word by an ordered operation. */
static void ordered_puts_are_seen_in_order(struct rma *w)
{
	const size_t bytes = 1 << 20;
	uint8_t *src = malloc(bytes);
	struct area a;

	CHECK(src);
	area_open(w, bytes + 16, &a);
	for (uint64_t i = 1; i <= (uint64_t)suite_rounds(20, 1000); i++) {
		struct lune_signal s = { a.mem, bytes, LUNE_EQ, i };
		struct lune_op op = { .flags = LUNE_OP_ORDERED };

		pattern_fill(src, bytes, i * 8 + (uint64_t)w->rank);
		CHECK_OK(lune_put(a.there, 0, src, bytes, NULL));
		if (i & 1) {
			CHECK_OK(lune_signal_set(a.there, bytes, i, &op));
		} else {
			op.signal = (struct lune_signal_to){
				a.there, bytes, i, LUNE_SIGNAL_SET,
			};
			CHECK_OK(lune_put(a.there, bytes + 8, &i, 8, &op));
		}
		CHECK_OK(lune_signal_wait(&s, WAIT_MS));
		pattern_check(a.mine, bytes, i * 8 + (uint64_t)w->from);
		CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
		meet();
	}
	area_close(&a);
	free(src);
}

/* Detaching never waits, and what is in flight goes on. */
static void detaching_leaves_operations_alone(struct rma *w)
{
	const size_t bytes = 2 << 20;
	uint8_t *src = malloc(bytes);
	uint8_t ticket[LUNE_TICKET_MAX];
	size_t ticket_bytes;
	lune_req *req = NULL;
	lune_rmem *r;
	struct area a;
	struct {
		size_t n;
		uint8_t t[LUNE_TICKET_MAX];
	} *offers = ranks_scratch();

	CHECK(src);
	area_open(w, bytes, &a);
	CHECK_OK(lune_mem_ticket(a.mem, ticket, sizeof(ticket),
				 &ticket_bytes));
	memcpy(offers[w->rank].t, ticket, ticket_bytes);
	offers[w->rank].n = ticket_bytes;
	meet();
	CHECK_OK(lune_rmem_attach(w->ctx, offers[w->to].t, offers[w->to].n,
				  &r));
	pattern_fill(src, bytes, 5 + (uint64_t)w->rank);
	CHECK_OK(lune_put(r, 0, src, bytes, &(struct lune_op){ .req = &req }));
	lune_rmem_detach(r);
	finish(&req, bytes);
	meet();
	pattern_check(a.mine, bytes, 5 + (uint64_t)w->from);
	area_close(&a);
	free(src);
}

/* Nobody writes what another operation of the round reads. */
static void a_round_of_everything(struct rma *w, struct area *a, char *buf)
{
	struct lune_iov v[3] = {
		{ buf, 5000, 100 }, { buf + 100, 5500, 2000 }, { buf, 7999, 1 },
	};
	struct lune_notify n = { .rank = w->to, .bytes = 30 };
	struct lune_atomic add = { LUNE_ATOMIC_FETCH_ADD, 1, 0 };
	lune_req *req[4] = { NULL };
	uint64_t old;

	CHECK_OK(lune_put(a->there, 0, buf, 5000,
			  &(struct lune_op){ .req = &req[0] }));
	CHECK_OK(lune_get(a->there, 8192, buf + 5000, 5000,
			  &(struct lune_op){ .req = &req[1] }));
	CHECK_OK(lune_putv(a->there, v, 3,
			   &(struct lune_op){ .req = &req[2] }));
	CHECK_OK(lune_atomic(a->there, 8000, &add, &old,
			     &(struct lune_op){ .req = &req[3] }));
	CHECK_OK(lune_req_waitall(req, 4, WAIT_MS, NULL));
	CHECK_OK(lune_notify_send(w->comm, &n, NULL));
	CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
	CHECK_OK(lune_flush(w->comm, LUNE_ALL_RANKS, WAIT_MS));
}

static void nothing_is_allocated_after_warm_up(struct rma *w)
{
	char buf[10000];
	struct area a;
	uint64_t count;

	memset(buf, 1, sizeof(buf));
	area_open(w, 8192 + 5000, &a);
	for (int i = 0; i < 2000; i++)
		a_round_of_everything(w, &a, buf);
	meet();
	count = ln_alloc_count();
	for (int i = 0; i < 1000; i++)
		a_round_of_everything(w, &a, buf);
	CHECK_EQ(ln_alloc_count(), count);
	area_close(&a);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "without a request, flush waits",
		  .n = 2, .fn = without_a_request_flush_waits },
		{ .name = "a queue reports each once",
		  .n = 2, .fn = a_queue_reports_each_once },
		{ .name = "a full queue refuses before it starts",
		  .n = 2, .fn = a_full_queue_refuses_before_it_starts },
		{ .name = "local completion frees the source",
		  .n = 2, .fn = local_completion_frees_the_source },
		{ .name = "ordered puts are seen in order",
		  .n = 2, .fn = ordered_puts_are_seen_in_order },
		{ .name = "detaching leaves operations alone",
		  .n = 2, .fn = detaching_leaves_operations_alone },
		{ .name = "nothing is allocated after warm-up",
		  .n = 2, .fn = nothing_is_allocated_after_warm_up },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
