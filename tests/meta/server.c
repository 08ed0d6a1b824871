/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded server in trouble: restarted, full, asked by strangers and by
 * clients that do not know the key.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meta/frame.h"
#include "tests/meta/suite.h"

static const uint8_t right_key[LN_KEY_BYTES] = "the key of this job";
static const uint8_t wrong_key[LN_KEY_BYTES] = "the key of another";

static struct ln_meta_server *start(int port, const uint8_t *key,
				    size_t max_bytes)
{
	struct ln_meta_server_opts o = { .port = port, .key = key,
					 .max_bytes = max_bytes };
	struct ln_meta_server *s;

	CHECK0(ln_meta_server_start(&o, &s));
	snprintf(suite_url, sizeof(suite_url), "lune://127.0.0.1:%d",
		 ln_meta_server_port(s));
	return s;
}

static uint64_t revision(struct ln_meta *m)
{
	struct ln_meta_list l;
	uint64_t rev;

	CHECK0(ln_meta_list(m, "", LONG, &l));
	rev = l.revision;
	ln_meta_list_fini(&l);
	return rev;
}

static int put_for(struct ln_meta *m, int ms)
{
	struct ln_meta_put p = { .key = "k", .value = "x", .value_len = 1 };

	return ln_meta_put(m, &p, ln_deadline(ms, 0));
}

/* ---- the key ------------------------------------------------------------- */

static void only_the_right_key_is_let_in(void **state)
{
	struct ln_meta_server *s = start(0, right_key, 0);
	struct ln_meta *m = suite_open("key");

	(void)state;
	assert_int_equal(put_for(m, 10000), LUNE_ERR_AUTH);
	assert_non_null(strstr(lune_last_error(), "wants a job key"));
	ln_meta_set_key(m, wrong_key);
	assert_int_equal(put_for(m, 10000), LUNE_ERR_AUTH);
	assert_non_null(strstr(lune_last_error(), "refused the job key"));
	ln_meta_set_key(m, right_key);
	CHECK0(put_for(m, 10000));
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

static void a_client_with_a_key_wants_it_proven(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	struct ln_meta *m = suite_open("key");

	(void)state;
	ln_meta_set_key(m, right_key);
	assert_int_equal(put_for(m, 10000), LUNE_ERR_AUTH);
	assert_non_null(strstr(lune_last_error(), "has no job key"));
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

static void a_watch_with_a_wrong_key_ends(void **state)
{
	struct ln_meta_server *s = start(0, right_key, 0);
	struct ln_meta *m = suite_open("key");
	struct ln_meta_watch *w;
	struct ln_meta_event e;

	(void)state;
	ln_meta_set_key(m, wrong_key);
	CHECK0(ln_meta_watch_open(m, "", 1, &w));
	assert_int_equal(ln_meta_watch_next(w, LONG, &e), LUNE_ERR_AUTH);
	ln_meta_watch_close(w);
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

/* ---- restarts ----------------------------------------------------------- */

static void on_lost(void *arg, uint64_t lease)
{
	__atomic_store_n((uint64_t *)arg, lease, __ATOMIC_SEQ_CST);
}

static void a_restarted_server_is_found_again(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	struct ln_meta *m = suite_open("restart");
	int port = ln_meta_server_port(s);
	uint64_t lost = 0, lease, rev, end = LONG;
	struct ln_meta_watch *w;
	struct ln_meta_event e;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 3000, on_lost, &lost, LONG, &lease));
	CHECK0(put_for(m, 10000));
	rev = revision(m);
	CHECK0(ln_meta_watch_open(m, "", rev + 1, &w));
	CHECK0(put_for(m, 10000));
	CHECK0(ln_meta_watch_next(w, LONG, &e));
	ln_meta_record_fini(&e.record);
	ln_meta_server_stop(s);
	assert_int_equal(put_for(m, 100), LUNE_ERR_META);
	assert_non_null(strstr(lune_last_error(), "refused"));
	s = start(port, NULL, 0);
	CHECK0(put_for(m, 10000));
	assert_int_equal(ln_meta_watch_next(w, LONG, &e), LUNE_ERR_COMPACTED);
	while (!__atomic_load_n(&lost, __ATOMIC_SEQ_CST) &&
	       !ln_deadline_passed(end))
		usleep(1000);
	assert_int_equal(lost, lease);
	ln_meta_watch_close(w);
	/* Nor is a watch from before taken for one of the new store. */
	CHECK0(ln_meta_watch_open(m, "", rev + 1, &w));
	assert_int_equal(ln_meta_watch_next(w, LONG, &e), LUNE_ERR_COMPACTED);
	ln_meta_watch_close(w);
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

static void *patient_put(void *arg)
{
	return (void *)(intptr_t)put_for(arg, 30000);
}

static void a_call_waits_for_the_server(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	int port = ln_meta_server_port(s);
	struct ln_meta *m = suite_open("patient");
	pthread_t t;
	void *rc;

	(void)state;
	ln_meta_server_stop(s);
	assert_int_equal(pthread_create(&t, NULL, patient_put, m), 0);
	s = start(port, NULL, 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_int_equal((intptr_t)rc, 0);
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

/* ---- limits ------------------------------------------------------------- */

static void a_full_store_says_so(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 100000);
	struct ln_meta *m = suite_open("full");
	static char big[60000];
	struct ln_meta_put p = { .key = "a", .value = big,
				 .value_len = sizeof(big) };

	(void)state;
	CHECK0(ln_meta_put(m, &p, LONG));
	CHECK0(ln_meta_put(m, &p, LONG));
	p.key = "b";
	assert_int_equal(ln_meta_put(m, &p, LONG), LUNE_ERR_LIMIT);
	CHECK0(ln_meta_delete(m, "a", 0, LONG));
	CHECK0(ln_meta_put(m, &p, LONG));
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

static void a_used_port_is_named(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0), *second;
	struct ln_meta_server_opts o = { .port = ln_meta_server_port(s) };

	(void)state;
	assert_int_equal(ln_meta_server_start(&o, &second), LUNE_ERR_SYSTEM);
	assert_non_null(strstr(lune_last_error(), "Address already in use"));
	ln_meta_server_stop(s);
}

/* ---- strangers ---------------------------------------------------------- */

static int dial(const struct ln_meta_server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_port = htons((uint16_t)ln_meta_server_port(s));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* The server closes the connection, whatever it says before. */
static void expect_closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[4096];
	ssize_t n;

	do {
		assert_int_equal(poll(&p, 1, 10000), 1);
		n = recv(fd, buf, sizeof(buf), 0);
	} while (n > 0);
	close(fd);
}

static void say(int fd, const void *p, size_t n)
{
	assert_int_equal(send(fd, p, n, MSG_NOSIGNAL), n);
}

static void say_frame(int fd, const struct ln_meta_frame *f)
{
	uint8_t buf[4096];

	ln_meta_frame_write(f, buf);
	say(fd, buf, ln_meta_frame_bytes(f));
}

/* As a client without a key: a session that may ask. */
static int dial_in(const struct ln_meta_server *s)
{
	static const uint8_t proof[LN_META_NONCE_BYTES + LN_MAC_BYTES];
	struct ln_meta_frame f = { .type = LN_META_PROOF, .value = proof,
				   .value_len = sizeof(proof),
				   .b = LN_META_FRAME_VERSION };
	int fd = dial(s);

	say_frame(fd, &f);
	return fd;
}

static void strangers_are_dropped(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	struct ln_meta *m = suite_open("strangers");
	struct ln_meta_frame f = { .type = LN_META_PUT, .key = "strangers/k",
				   .key_len = 11 };
	uint8_t noise[4096];
	int half = dial(s), fd;

	(void)state;
	CHECK0(put_for(m, 10000));
	say(half, "\x2c\0\0", 3);
	fd = dial(s);
	say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
	expect_closed(fd);
	fd = dial(s);
	say_frame(fd, &f); /* a request before the proof */
	expect_closed(fd);
	for (int i = 0; i < 50; i++) {
		CHECK0(ln_random(noise, sizeof(noise)));
		noise[3] |= 1; /* a length that is too much */
		fd = dial(s);
		send(fd, noise, sizeof(noise), MSG_NOSIGNAL);
		expect_closed(fd);
	}
	CHECK0(put_for(m, 10000));
	close(half);
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

static void guests_keep_to_the_protocol(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	struct ln_meta *m = suite_open("guests");
	struct ln_meta_frame put = { .type = LN_META_PUT },
			     status = { .type = LN_META_STATUS },
			     watch = { .type = LN_META_WATCH };
	int fd;

	(void)state;
	CHECK0(put_for(m, 10000));
	fd = dial_in(s);
	say_frame(fd, &put); /* no key */
	expect_closed(fd);
	fd = dial_in(s);
	say_frame(fd, &status); /* no request */
	expect_closed(fd);
	watch.a = revision(m) + 1;
	fd = dial_in(s);
	say_frame(fd, &watch);
	say_frame(fd, &watch); /* a watch does not speak */
	expect_closed(fd);
	CHECK0(put_for(m, 10000));
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

/* It asks for megabytes again and again and reads none of them. */
static void a_client_that_does_not_read_holds_nobody_up(void **state)
{
	struct ln_meta_server *s = start(0, NULL, 0);
	struct ln_meta *m = suite_open("deaf");
	static char big[LN_META_VALUE_MAX];
	struct ln_meta_put p = { .key = "big", .value = big,
				 .value_len = sizeof(big) };
	struct ln_meta_frame get = { .type = LN_META_GET, .key = "deaf/big",
				     .key_len = 8 };
	uint8_t buf[256];
	size_t n = ln_meta_frame_bytes(&get);
	int fd;

	(void)state;
	CHECK0(ln_meta_put(m, &p, LONG));
	fd = dial_in(s);
	ln_meta_frame_write(&get, buf);
	for (int i = 0; i < 1000; i++)
		say(fd, buf, n);
	for (int i = 0; i < 100; i++)
		CHECK0(put_for(m, 10000));
	close(fd);
	CHECK0(put_for(m, 10000));
	ln_meta_close(m);
	ln_meta_server_stop(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_right_key_is_let_in),
		cmocka_unit_test(a_client_with_a_key_wants_it_proven),
		cmocka_unit_test(a_watch_with_a_wrong_key_ends),
		cmocka_unit_test(a_restarted_server_is_found_again),
		cmocka_unit_test(a_call_waits_for_the_server),
		cmocka_unit_test(a_full_store_says_so),
		cmocka_unit_test(a_used_port_is_named),
		cmocka_unit_test(strangers_are_dropped),
		cmocka_unit_test(guests_keep_to_the_protocol),
		cmocka_unit_test(a_client_that_does_not_read_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
