/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp rendezvous: it works, names who is missing, and is disturbed by
 * nobody.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/boot/world.h"

static int one_world(int rank, int n, void *arg)
{
	(void)arg;
	member_run(NULL, rank, n);
	return 0;
}

static void worlds_of_1_2_and_8_meet(void **state)
{
	static const int sizes[] = { 1, 2, 8 };

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(sizes); i++) {
		struct ranks_opts o = { .n = sizes[i], .fn = one_world };

		assert_int_equal(ranks_run(&o), 0);
	}
}

static int many_worlds(int rank, int n, void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++)
		member_run(NULL, rank, n);
	return 0;
}

static void worlds_follow_each_other_on_one_port(void **state)
{
	struct ranks_opts o = { .n = 4, .fn = many_worlds };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int v6_world(int rank, int n, void *arg)
{
	char url[128];

	snprintf(url, sizeof(url), "tcp://[::1]:%d/six?rank=%d&size=%d",
		 *(int *)arg, rank, n);
	member_run(url, rank, n);
	return 0;
}

static void a_world_meets_over_ipv6(void **state)
{
	int port = ranks_free_port();
	struct ranks_opts o = { .n = 3, .fn = v6_world, .arg = &port };
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool works = fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a));

	(void)state;
	close(fd);
	if (!works)
		skip();
	assert_int_equal(ranks_run(&o), 0);
}

/* Ranks 0, 1, 2 and 4 of 8 come. */
static int some_of_eight(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;
	char url[128];

	(void)n;
	snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=%d&size=8",
		 *(int *)arg, rank == 3 ? 4 : rank);
	CHECK_OK(member_open(&m, url, 1500));
	CHECK_RC(member_exchange(&m, &cards), LUNE_ERR_TIMEOUT);
	CHECK_SAYS("ranks 3 and 5..7 of 8 did not join within");
	member_close(&m);
	return 0;
}

static void every_rank_names_those_that_are_missing(void **state)
{
	int port = ranks_free_port();
	struct ranks_opts o = { .n = 4, .fn = some_of_eight, .arg = &port };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int without_rank_0(int rank, int n, void *arg)
{
	struct member m;

	(void)n;
	(void)arg;
	if (!rank)
		return 0;
	CHECK_RC(member_open(&m, NULL, 500), LUNE_ERR_TIMEOUT);
	CHECK_SAYS("rank 0 of 2 did not serve");
	member_close(&m);
	return 0;
}

static void an_absent_rank_0_is_named(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = without_rank_0 };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* Rank `victim` is killed when all have joined, before any card. */
static int with_a_death(int rank, int n, void *arg)
{
	int victim = *(int *)arg;
	struct ln_boot_card *cards;
	struct member m;
	char text[64];

	CHECK_OK(member_open(&m, NULL, 20000));
	ranks_barrier();
	if (rank == victim)
		ranks_kill(rank);
	CHECK_RC(member_exchange(&m, &cards), LUNE_ERR_BOOT);
	snprintf(text, sizeof(text), "rank %d of %d", victim, n);
	CHECK_SAYS(text);
	member_close(&m);
	return 0;
}

static void the_death_of_a_rank_is_told_to_all(void **state)
{
	int victim = 1;
	struct ranks_opts o = { .n = 4, .fn = with_a_death, .arg = &victim };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
	victim = 0;
	assert_int_equal(ranks_run(&o), 0);
}

static int connect_port(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

static void say(int fd, const void *p, size_t bytes)
{
	/* It may be closed under us, and then that is the answer. */
	if (send(fd, p, bytes, MSG_NOSIGNAL) < 0)
		return;
}

/* What strangers send: nothing, noise, HTTP, and almost our protocol. */
static void disturb(int port)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	static const uint8_t head[12] = { 'L', 'N', 'B', 'T', 1, 1 };
	uint8_t noise[4096], huge[12], early[12];
	static int held[200];

	CHECK_OK(ln_random(noise, sizeof(noise)));
	memcpy(huge, head, sizeof(huge));
	memset(huge + 8, 0xff, 4);
	memcpy(early, head, sizeof(early));
	early[5] = 5; /* CARD before HELLO */
	for (int i = 0; i < 200; i++) {
		int fd = held[i] = connect_port(port);

		if (i % 6 == 1)
			say(fd, noise, sizeof(noise));
		else if (i % 6 == 2)
			say(fd, http, sizeof(http) - 1);
		else if (i % 6 == 3)
			say(fd, huge, sizeof(huge));
		else if (i % 6 == 4)
			say(fd, early, sizeof(early));
		else if (i % 6 == 5)
			say(fd, head, 7); /* and then silence */
	}
	/* They stay open until the process ends. */
}

enum { PORT = 0, SERVED, DISTURBED };

static int disturbed_world(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;
	char url[128];

	snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=%d&size=%d",
		 *(int *)arg, rank, n);
	if (rank)
		ranks_wait(DISTURBED, 1);
	CHECK_OK(member_open(&m, url, 20000));
	if (!rank)
		ranks_set(SERVED, 1);
	CHECK_OK(member_exchange(&m, &cards));
	member_check(&m, cards);
	member_close(&m);
	return 0;
}

static int stranger(int rank, int n, void *arg)
{
	(void)rank;
	(void)n;
	ranks_wait(SERVED, 1);
	disturb(*(int *)arg);
	ranks_set(DISTURBED, 1);
	return 0;
}

static void strangers_do_not_disturb(void **state)
{
	int port = ranks_free_port();
	struct ranks_opts o = { .n = 3, .fn = disturbed_world, .arg = &port,
				.control = stranger };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static char key_a[] = "/tmp/lune-boot-a-XXXXXX";
static char key_b[] = "/tmp/lune-boot-b-XXXXXX";

static int make_keys(void **state)
{
	int a = mkstemp(key_a), b = mkstemp(key_b);
	bool good = a >= 0 && b >= 0 && write(a, "one", 3) == 3 &&
		    write(b, "two", 3) == 3;

	(void)state;
	close(a);
	close(b);
	return good ? 0 : -1;
}

static int remove_keys(void **state)
{
	(void)state;
	unlink(key_a);
	unlink(key_b);
	return 0;
}

static void the_right_key_joins(void **state)
{
	char var[64];
	const char *env[] = { var, NULL };
	struct ranks_opts o = { .n = 4, .fn = one_world, .env = env };

	(void)state;
	snprintf(var, sizeof(var), "LUNE_JOB_KEY_FILE=%s", key_a);
	assert_int_equal(ranks_run(&o), 0);
}

/* Rank 1 has another key, or none, or the others have none. */
static int refused(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;

	(void)arg;
	(void)n;
	if (rank == 1) {
		CHECK_RC(member_open(&m, NULL, 5000), LUNE_ERR_AUTH);
		CHECK_SAYS("rank 1 of 3");
	} else {
		CHECK_OK(member_open(&m, NULL, 1500));
		CHECK_RC(member_exchange(&m, &cards), LUNE_ERR_TIMEOUT);
		CHECK_SAYS("rank 1 of 3 did not join");
	}
	member_close(&m);
	return 0;
}

static void a_wrong_key_is_refused(void **state)
{
	char all[64], one[64];
	const char *env[] = { all, one, NULL };
	struct ranks_opts o = { .n = 3, .fn = refused, .env = env };

	(void)state;
	snprintf(all, sizeof(all), "LUNE_JOB_KEY_FILE=%s", key_a);
	snprintf(one, sizeof(one), "1:LUNE_JOB_KEY_FILE=%s", key_b);
	assert_int_equal(ranks_run(&o), 0);
	snprintf(one, sizeof(one), "1:LUNE_JOB_KEY_FILE=");
	assert_int_equal(ranks_run(&o), 0);
	snprintf(all, sizeof(all), "LUNE_JOB_KEY_FILE=");
	snprintf(one, sizeof(one), "1:LUNE_JOB_KEY_FILE=%s", key_b);
	assert_int_equal(ranks_run(&o), 0);
}

static int twice_the_same(int rank, int n, void *arg)
{
	struct member m, again;
	char url[128];

	(void)n;
	snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=%d&size=3",
		 *(int *)arg, rank);
	CHECK_OK(member_open(&m, url, 20000));
	ranks_barrier();
	if (rank == 1) {
		CHECK_RC(member_open(&again, url, 5000), LUNE_ERR_EXIST);
		CHECK_SAYS("rank 1 of 3 has joined already");
		member_close(&again);
		snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=2&size=4",
			 *(int *)arg);
		CHECK_RC(member_open(&again, url, 5000), LUNE_ERR_BOOT);
		CHECK_SAYS("size 4");
		member_close(&again);
		snprintf(url, sizeof(url),
			 "tcp://127.0.0.1:%d/other?rank=2&size=3", *(int *)arg);
		CHECK_RC(member_open(&again, url, 5000), LUNE_ERR_BOOT);
		member_close(&again);
	}
	ranks_barrier();
	member_close(&m);
	return 0;
}

static void who_does_not_fit_is_told_so(void **state)
{
	int port = ranks_free_port();
	struct ranks_opts o = { .n = 2, .fn = twice_the_same, .arg = &port };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* Rank 0 of two, alone, with the n-th allocation failing. */
static int starved(int rank, int n, void *arg)
{
	struct ln_boot_card *cards;
	struct member m;
	int rc = LUNE_ERR_NOMEM;

	(void)rank;
	(void)n;
	(void)arg;
	/* What fails in the server's thread shows as another error here. */
	for (long i = 1; rc != LUNE_ERR_TIMEOUT && i < 200; i++) {
		char url[128];

		snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=0&size=2",
			 ranks_free_port());
		CHECK_OK(ln_config_init(&m.conf));
		m.deadline = ln_deadline(50, 0);
		ln_alloc_fail_after(i);
		rc = ln_boot_open(&m.conf, url, m.deadline, &m.b);
		if (!rc) {
			rc = member_exchange(&m, &cards);
			ln_boot_close(m.b, false, m.deadline);
		}
		ln_alloc_fail_after(0);
		ln_config_fini(&m.conf);
		CHECK(rc < 0);
	}
	/* In the end nothing failed but that nobody came. */
	CHECK_EQ(rc, LUNE_ERR_TIMEOUT);
	return 0;
}

static void a_failing_allocation_is_an_error(void **state)
{
	struct ranks_opts o = { .n = 1, .fn = starved };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worlds_of_1_2_and_8_meet),
		cmocka_unit_test(worlds_follow_each_other_on_one_port),
		cmocka_unit_test(a_world_meets_over_ipv6),
		cmocka_unit_test(every_rank_names_those_that_are_missing),
		cmocka_unit_test(an_absent_rank_0_is_named),
		cmocka_unit_test(the_death_of_a_rank_is_told_to_all),
		cmocka_unit_test(strangers_do_not_disturb),
		cmocka_unit_test(the_right_key_joins),
		cmocka_unit_test(a_wrong_key_is_refused),
		cmocka_unit_test(who_does_not_fit_is_told_so),
		cmocka_unit_test(a_failing_allocation_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
