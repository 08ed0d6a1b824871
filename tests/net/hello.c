/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a connection, and who does not. */
#include "tests/net/duo.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/un.h>
#include <unistd.h>

#include <lune/mem.h>

static struct node a, b;

static uint64_t count_of(_Atomic uint64_t *c)
{
	return atomic_load(c);
}

/* A connection of our own to b. */
static int stranger(void)
{
	int fd = -1;

	for (int i = 0; i < b.card.naddrs && fd < 0; i++) {
		struct sockaddr_storage *s = &b.card.addrs[i];

		if (s->ss_family != AF_INET)
			continue;
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(connect(fd, (struct sockaddr *)s,
			      sizeof(struct sockaddr_in)) == 0);
	}
	CHECK(fd >= 0);
	return fd;
}

/* It is closed by the other side, without a word. */
static void expect_silence(int fd, int within_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	CHECK_EQ(poll(&p, 1, within_ms * ranks_scale()), 1);
	CHECK(read(fd, &c, 1) <= 0);
	close(fd);
}

/* b still serves a. */
static void expect_service(void)
{
	struct ln_region *mem = node_alloc(&b, 4096, 0);
	struct ln_rmem r;
	char x[64];
	struct job j;

	fill(x, sizeof(x), 1);
	node_attach(&a, &b, mem, &r);
	job_put(&j, &r, 0, x, sizeof(x));
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	CHECK_EQ(verify(mem->addr, sizeof(x), 1), sizeof(x));
	ln_rmem_fini(&r);
	node_release(&b, mem);
}

static void both_open(uint8_t key_a, uint8_t key_b)
{
	struct node_opts o = { .key = key_a };

	node_open(&a, &o);
	o.key = key_b;
	node_open(&b, &o);
}

static void both_close(void)
{
	node_close(&a);
	node_close(&b);
}

static void write_all(int fd, const void *p, size_t n)
{
	CHECK_EQ(send(fd, p, n, MSG_NOSIGNAL), n);
}

static void random_bytes_and_http_are_refused(void **state)
{
	static const char http[] =
		"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n"
		"                                                  ";
	uint64_t before;
	char junk[512];
	int fd;

	(void)state;
	both_open(1, 1);
	before = count_of(&b.counters.refused_proto);
	fd = stranger();
	write_all(fd, http, sizeof(http));
	expect_silence(fd, 5000);
	CHECK_OK(ln_random(junk, sizeof(junk)));
	fd = stranger();
	write_all(fd, junk, sizeof(junk));
	expect_silence(fd, 5000);
	CHECK_EQ(count_of(&b.counters.refused_proto), before + 2);
	expect_service();
	both_close();
}

/* A good header of a frame that only a proven peer may send. */
static void frames_before_hello_are_refused(void **state)
{
	struct ln_frame f = { .type = LN_FRAME_PUT };
	uint8_t h[LN_FRAME_BYTES];
	int fd;

	(void)state;
	both_open(1, 1);
	for (int type = 0; type < LN_FRAME_TYPES; type++) {
		if (type == LN_FRAME_HELLO || type == LN_FRAME_PROOF)
			continue;
		f.type = (uint8_t)type;
		f.count = type == LN_FRAME_GET || type == LN_FRAME_ATOMIC;
		ln_frame_encode(&f, h);
		fd = stranger();
		write_all(fd, h, sizeof(h));
		write_all(fd, h, sizeof(h));
		expect_silence(fd, 5000);
	}
	expect_service();
	both_close();
}

static void half_open_connections_end_and_hinder_nobody(void **state)
{
	int fd[20];

	(void)state;
	both_open(1, 1);
	for (size_t i = 0; i < LN_ARRAY_SIZE(fd); i++) {
		fd[i] = stranger();
		if (i % 2) /* slow ones: the beginning of a header */
			write_all(fd[i], "LUN1", 4);
	}
	expect_service();
	for (size_t i = 0; i < LN_ARRAY_SIZE(fd); i++)
		expect_silence(fd[i], 10000);
	CHECK(count_of(&b.counters.refused_auth) >= LN_ARRAY_SIZE(fd));
	both_close();
}

static void another_job_key_is_refused(void **state)
{
	struct ln_peer *p;

	(void)state;
	both_open(1, 2);
	CHECK_OK(ln_peer_get(a.net, &b.card, &p));
	CHECK_RC(ln_peer_connect_wait(p, ln_now_ns() + 10000000000u),
		 LUNE_ERR_AUTH);
	CHECK(count_of(&b.counters.refused_auth) >= 1);
	CHECK_EQ(count_of(&b.counters.connects), 0);
	ln_peer_unref(p);
	both_close();
}

static void another_process_at_the_address_is_refused(void **state)
{
	struct ln_card card;
	struct ln_peer *p;

	(void)state;
	both_open(1, 1);
	card = b.card;
	CHECK_OK(ln_uuid_make(&card.uuid));
	CHECK_OK(ln_peer_get(a.net, &card, &p));
	CHECK_RC(ln_peer_connect_wait(p, ln_now_ns() + 10000000000u),
		 LUNE_ERR_PEER);
	ln_peer_unref(p);
	card = b.card;
	card.incarnation--;
	CHECK_OK(ln_peer_get(a.net, &card, &p));
	CHECK_RC(ln_peer_connect_wait(p, ln_now_ns() + 10000000000u),
		 LUNE_ERR_PEER);
	CHECK(count_of(&b.counters.refused_stale) >= 2);
	ln_peer_unref(p);
	both_close();
}

/* ---- replay: a relay between a and b that remembers ---------------------- */

struct relay {
	int listen_fd, from, to;
	uint8_t bytes[65536];
	size_t n;
};

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct pollfd p[2];
	uint8_t buf[4096];
	ssize_t n;

	r->from = accept(r->listen_fd, NULL, NULL);
	r->to = stranger();
	for (;;) {
		p[0] = (struct pollfd){ .fd = r->from, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = r->to, .events = POLLIN };
		if (poll(p, 2, 20000) <= 0)
			break;
		if (p[0].revents) {
			n = read(r->from, buf, sizeof(buf));
			if (n <= 0)
				break;
			CHECK(r->n + (size_t)n <= sizeof(r->bytes));
			memcpy(r->bytes + r->n, buf, (size_t)n);
			r->n += (size_t)n;
			write_all(r->to, buf, (size_t)n);
		}
		if (p[1].revents) {
			n = read(r->to, buf, sizeof(buf));
			if (n <= 0)
				break;
			if (send(r->from, buf, (size_t)n, MSG_NOSIGNAL) < 0)
				break;
		}
	}
	close(r->from);
	close(r->to);
	return NULL;
}

static void a_replayed_hello_is_refused(void **state)
{
	static struct relay r;
	struct sockaddr_in s = { .sin_family = AF_INET };
	socklen_t len = sizeof(s);
	struct ln_card card;
	struct ln_peer *p;
	pthread_t t;
	uint64_t before;
	size_t i, at = 0;
	int fd;

	(void)state;
	/* One connection only: the relay serves no data streams. */
	both_open(1, 1);
	s.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(r.listen_fd, (void *)&s, sizeof(s)));
	CHECK(!listen(r.listen_fd, 1));
	CHECK(!getsockname(r.listen_fd, (void *)&s, &len));
	card = b.card;
	card.naddrs = 1;
	memset(&card.addrs[0], 0, sizeof(card.addrs[0]));
	memcpy(&card.addrs[0], &s, sizeof(s));
	pthread_create(&t, NULL, relay_run, &r);
	CHECK_OK(ln_peer_get(a.net, &card, &p));
	CHECK_OK(ln_peer_connect_wait(p, ln_now_ns() + 10000000000u));
	ln_peer_unref(p);
	node_close(&a);
	pthread_join(t, NULL);
	close(r.listen_fd);
	CHECK(r.n > 3 * LN_FRAME_BYTES);
	before = count_of(&b.counters.refused_auth);
	fd = stranger();
	for (i = 0; at < r.n; i++) {
		size_t n = ln_min(r.n - at, 700);

		if (send(fd, r.bytes + at, n, MSG_NOSIGNAL) < 0)
			break;
		at += n;
	}
	/* b answers the HELLO, and nothing after it. */
	for (;;) {
		struct pollfd pf = { .fd = fd, .events = POLLIN };
		char buf[4096];

		CHECK_EQ(poll(&pf, 1, 10000), 1);
		if (read(fd, buf, sizeof(buf)) <= 0)
			break;
	}
	close(fd);
	CHECK_EQ(count_of(&b.counters.refused_auth), before + 1);
	CHECK_EQ(count_of(&b.counters.connects), 1);
	node_close(&b);
}

/* ---- connecting ---------------------------------------------------------- */

static void an_unreached_peer_may_be_tried_again(void **state)
{
	struct ln_region *mem;
	struct ln_rmem r;
	struct job j;
	char x[8] = { 0 };

	(void)state;
	both_open(1, 1);
	mem = node_alloc(&b, 4096, 0);
	node_attach(&a, &b, mem, &r);
	node_release(&b, mem);
	node_close(&b);
	for (int i = 0; i < 3; i++) {
		job_put(&j, &r, 0, x, sizeof(x));
		CHECK_RC(job_run(&a, &j), LUNE_ERR_PEER);
		CHECK_EQ(atomic_load(&r.peer->state), LN_PEER_IDLE);
	}
	ln_rmem_fini(&r);
	node_close(&a);
}

/* Both post at once, many times: no op is lost, one connection stays. */
static void simultaneous_connections_become_one(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		struct ln_region *ma, *mb;
		struct ln_rmem ra, rb;
		struct job ja, jb;
		char x[64], y[64];

		both_open(1, 1);
		ma = node_alloc(&a, 4096, 0);
		mb = node_alloc(&b, 4096, 0);
		node_attach(&a, &b, mb, &rb);
		node_attach(&b, &a, ma, &ra);
		fill(x, sizeof(x), 1);
		fill(y, sizeof(y), 2);
		job_put(&ja, &rb, 0, x, sizeof(x));
		job_put(&jb, &ra, 0, y, sizeof(y));
		job_post(&ja);
		job_post(&jb);
		CHECK_RC(job_wait(&a, &ja), LUNE_OK);
		CHECK_RC(job_wait(&b, &jb), LUNE_OK);
		CHECK_EQ(verify(mb->addr, sizeof(x), 1), sizeof(x));
		CHECK_EQ(verify(ma->addr, sizeof(y), 2), sizeof(y));
		CHECK_EQ(count_of(&a.counters.connects), 1);
		CHECK_EQ(count_of(&b.counters.connects), 1);
		CHECK_EQ(count_of(&a.counters.peers_lost), 0);
		CHECK_EQ(count_of(&b.counters.peers_lost), 0);
		ln_rmem_fini(&ra);
		ln_rmem_fini(&rb);
		node_release(&a, ma);
		node_release(&b, mb);
		both_close();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_bytes_and_http_are_refused),
		cmocka_unit_test(frames_before_hello_are_refused),
		cmocka_unit_test(half_open_connections_end_and_hinder_nobody),
		cmocka_unit_test(another_job_key_is_refused),
		cmocka_unit_test(another_process_at_the_address_is_refused),
		cmocka_unit_test(a_replayed_hello_is_refused),
		cmocka_unit_test(an_unreached_peer_may_be_tried_again),
		cmocka_unit_test(simultaneous_connections_become_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
