/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: order, bodies, back-pressure, several communicators. */
#include "tests/rma/suite.h"

static void send_one(struct rma *w, int to, uint64_t tag, uint32_t bytes)
{
	struct lune_notify n = { .rank = to, .bytes = bytes, .tag = tag };

	pattern_fill(n.body, bytes, tag + (uint64_t)w->rank);
	CHECK_OK(lune_notify_send(w->comm, &n, NULL));
}

static void check_one(const struct lune_notify *n, uint64_t tag, uint32_t bytes)
{
	CHECK_EQ(n->tag, tag);
	CHECK_EQ(n->bytes, bytes);
	pattern_check(n->body, bytes, tag + (uint64_t)n->rank);
}

/* Everybody sends to everybody; per sender the tags count up. */
static void they_come_once_and_in_order(struct rma *w)
{
	const uint64_t each = (uint64_t)suite_rounds(300, 30000);
	uint64_t next[RANKS_MAX] = { 0 };
	struct lune_notify n;

	for (uint64_t i = 0; i < each; i++) {
		for (int r = 0; r < w->n; r++)
			send_one(w, r, i,
				 (uint32_t)(i % (LUNE_NOTIFY_MAX + 1)));
		/* Take as many as were sent: nobody's window fills up. */
		for (int r = 0; r < w->n; r++) {
			CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
			CHECK(n.rank >= 0 && n.rank < w->n);
			check_one(&n, next[n.rank],
				  (uint32_t)(next[n.rank] %
					     (LUNE_NOTIFY_MAX + 1)));
			next[n.rank]++;
		}
	}
	for (int r = 0; r < w->n; r++)
		CHECK_EQ(next[r], each);
	CHECK_RC(lune_notify_recv(w->comm, 0, &n), LUNE_ERR_TIMEOUT);
	meet();
}

static void a_full_window_holds_the_sender(struct rma *w)
{
	struct lune_notify n = { .rank = w->to, .bytes = 8 };
	struct lune_op nowait = { .flags = LUNE_OP_NOWAIT };
	uint64_t sent = 0, got = 0;
	int rc = LUNE_OK;

	while (!rc) {
		n.tag = sent;
		rc = lune_notify_send(w->comm, &n, &nowait);
		sent += !rc;
		CHECK(sent <= LUNE_NOTIFY_WINDOW);
	}
	CHECK_RC(rc, LUNE_ERR_AGAIN);
	CHECK_EQ(sent, LUNE_NOTIFY_WINDOW);
	meet();
	/* Taking half of them lets the peer go on, and us. */
	for (; got < LUNE_NOTIFY_WINDOW / 2; got++) {
		CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
		CHECK_EQ(n.tag, got);
	}
	n = (struct lune_notify){ .rank = w->to, .tag = sent };
	CHECK_OK(lune_notify_send(w->comm, &n, NULL));
	for (; got <= LUNE_NOTIFY_WINDOW; got++) {
		CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
		CHECK_EQ(n.tag, got);
	}
	CHECK_RC(lune_notify_recv(w->comm, 0, &n), LUNE_ERR_TIMEOUT);
	meet();
}

/* A slow receiver, a sender that never looks: all arrive. */
static void a_sender_that_waits_goes_on(struct rma *w)
{
	const uint64_t all = 5 * LUNE_NOTIFY_WINDOW + 7;
	struct lune_notify n;

	if (w->rank == 0) {
		for (uint64_t i = 0; i < all; i++)
			send_one(w, 1, i, 16);
	} else {
		for (uint64_t i = 0; i < all; i++) {
			CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
			CHECK_EQ(n.rank, 0);
			check_one(&n, i, 16);
		}
	}
	meet();
}

static void communicators_do_not_mix(struct rma *w)
{
	lune_comm *dup;
	struct lune_notify n;

	CHECK_OK(lune_comm_dup(w->comm, WAIT_MS, &dup));
	n = (struct lune_notify){ .rank = w->to, .tag = 1 };
	CHECK_OK(lune_notify_send(w->comm, &n, NULL));
	n.tag = 2;
	CHECK_OK(lune_notify_send(dup, &n, NULL));
	CHECK_OK(lune_notify_recv(dup, WAIT_MS, &n));
	CHECK_EQ(n.tag, 2);
	CHECK_EQ(n.rank, w->from);
	CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
	CHECK_EQ(n.tag, 1);
	CHECK_RC(lune_notify_recv(dup, 0, &n), LUNE_ERR_TIMEOUT);
	meet();
	lune_comm_close(dup);
}

/* An ordered notification after a put: its bytes are there. */
static void ordered_after_a_put(struct rma *w)
{
	const size_t bytes = 300000;
	uint8_t *src = malloc(bytes);
	struct lune_op ordered = { .flags = LUNE_OP_ORDERED };
	struct lune_notify n;
	struct area a;

	CHECK(src);
	area_open(w, bytes, &a);
	for (uint64_t i = 0; i < 20; i++) {
		pattern_fill(src, bytes, i * 8 + (uint64_t)w->rank);
		CHECK_OK(lune_put(a.there, 0, src, bytes, NULL));
		n = (struct lune_notify){ .rank = w->to, .tag = i };
		CHECK_OK(lune_notify_send(w->comm, &n, &ordered));
		CHECK_OK(lune_notify_recv(w->comm, WAIT_MS, &n));
		CHECK_EQ(n.tag, i);
		pattern_check(a.mine, bytes, i * 8 + (uint64_t)w->from);
		CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
		meet();
	}
	area_close(&a);
	free(src);
}

static void bad_calls_are_refused(struct rma *w)
{
	struct lune_notify n = { .rank = w->n };

	CHECK_RC(lune_notify_send(w->comm, &n, NULL), LUNE_ERR_INVAL);
	n.rank = -1;
	CHECK_RC(lune_notify_send(w->comm, &n, NULL), LUNE_ERR_INVAL);
	n.rank = 0;
	n.bytes = LUNE_NOTIFY_MAX + 1;
	CHECK_RC(lune_notify_send(w->comm, &n, NULL), LUNE_ERR_INVAL);
	CHECK_RC(lune_notify_recv(w->comm, 1, &n), LUNE_ERR_TIMEOUT);
	meet();
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "they come once and in order",
		  .n = 4, .fn = they_come_once_and_in_order },
		{ .name = "a full window holds the sender",
		  .n = 2, .fn = a_full_window_holds_the_sender },
		{ .name = "a sender that waits goes on",
		  .n = 2, .fn = a_sender_that_waits_goes_on, .not_self = true },
		{ .name = "communicators do not mix",
		  .n = 3, .fn = communicators_do_not_mix },
		{ .name = "ordered after a put",
		  .n = 2, .fn = ordered_after_a_put },
		{ .name = "bad calls are refused",
		  .n = 2, .fn = bad_calls_are_refused },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
