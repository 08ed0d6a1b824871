/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real etcd that is slow, down, wiped or half gone.  Calls end by their
 * deadline and say why; what waited goes on when etcd is back; nothing hangs.
 *
 * The time that etcd is down is two seconds, or sixty with LUNE_TEST_LONG=1.
 */
#include <pthread.h>
#include <unistd.h>

#include "tests/meta/etcd_server.h"
#include "tests/meta/suite.h"

static struct etcd etcd;

static int down_ms(void)
{
	return getenv("LUNE_TEST_LONG") ? 60000 : 2000;
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

static void expect_event(struct ln_meta_watch *w, const char *key,
			 const char *value)
{
	struct ln_meta_event e;

	CHECK0(ln_meta_watch_next(w, SECONDS(90), &e));
	assert_string_equal(e.record.key, key);
	assert_int_equal(e.deleted, !value);
	if (value)
		assert_string_equal((char *)e.record.value, value);
	ln_meta_record_fini(&e.record);
}

static int put_for(struct ln_meta *m, const char *key, int ms)
{
	struct ln_meta_put p = { .key = key, .value = "x", .value_len = 1 };

	return ln_meta_put(m, &p, ln_deadline(ms, 0));
}

/* The call fails by its deadline (and a second for a busy machine). */
static void expect_no_answer(struct ln_meta *m, const char *why)
{
	uint64_t begun = ln_now_ns(), took;
	char where[32];

	assert_int_equal(put_for(m, "no", 300), LUNE_ERR_META);
	took = ln_now_ns() - begun;
	assert_true(took >= 300 * 1000000ull);
	assert_true(took < 5000 * 1000000ull);
	snprintf(where, sizeof(where), "127.0.0.1:%d", etcd.member[0].port);
	if (!strstr(lune_last_error(), where) ||
	    !strstr(lune_last_error(), why))
		fail_msg("the sentence lacks \"%s\" or \"%s\": %s", where, why,
			 lune_last_error());
}

static void a_slow_etcd_is_told_from_none(void **state)
{
	struct ln_meta *m = suite_open("slow"), *fresh = suite_open("slow");

	(void)state;
	CHECK0(suite_put(m, "a", "x", 0));
	etcd_freeze(&etcd, 0, true);
	expect_no_answer(m, "no answer in time");
	expect_no_answer(fresh, "no answer in time");
	etcd_freeze(&etcd, 0, false);
	CHECK0(suite_put(m, "b", "x", 0));
	CHECK0(suite_put(fresh, "c", "x", 0));
	ln_meta_close(fresh);
	ln_meta_close(m);
}

/* Also with a lease and a watch, whose threads are in the midst of a call. */
static void closing_does_not_wait_for_a_slow_etcd(void **state)
{
	struct ln_meta *m = suite_open("close");
	struct ln_meta_watch *w;
	uint64_t lease, begun;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 30000, NULL, NULL, LONG, &lease));
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	etcd_freeze(&etcd, 0, true);
	begun = ln_now_ns();
	ln_meta_watch_close(w);
	ln_meta_close(m);
	assert_true(ln_now_ns() - begun < 5 * 1000000000ull);
	etcd_freeze(&etcd, 0, false);
}

static void *patient_put(void *arg)
{
	return (void *)(intptr_t)put_for(arg, "patient", 90000);
}

static void all_goes_on_when_etcd_is_back(void **state)
{
	struct ln_meta *m = suite_open("down");
	struct ln_meta_watch *w;
	pthread_t t;
	void *rc;

	(void)state;
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	CHECK0(suite_put(m, "a", "before", 0));
	expect_event(w, "a", "before");
	etcd_kill(&etcd, 0);
	expect_no_answer(m, "onnect");
	assert_int_equal(pthread_create(&t, NULL, patient_put, m), 0);
	usleep((useconds_t)down_ms() * 1000);
	assert_int_equal(etcd_restart(&etcd, 0), 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_int_equal((intptr_t)rc, 0);
	expect_event(w, "patient", "x");
	CHECK0(suite_put(m, "a", "after", 0));
	expect_event(w, "a", "after");
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void on_lost(void *arg, uint64_t lease)
{
	__atomic_store_n((uint64_t *)arg, lease, __ATOMIC_SEQ_CST);
}

static void wait_lost(uint64_t *lost)
{
	uint64_t end = SECONDS(60);

	while (!__atomic_load_n(lost, __ATOMIC_SEQ_CST) &&
	       !ln_deadline_passed(end))
		usleep(1000);
	assert_int_not_equal(__atomic_load_n(lost, __ATOMIC_SEQ_CST), 0);
}

static void a_lease_outlives_a_short_outage(void **state)
{
	struct ln_meta *m = suite_open("outage");
	uint64_t lost = 0, lease;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 60000, on_lost, &lost, LONG, &lease));
	CHECK0(suite_put(m, "mine", "x", lease));
	etcd_kill(&etcd, 0);
	assert_int_equal(etcd_restart(&etcd, 0), 0);
	CHECK0(suite_put(m, "more", "x", lease));
	assert_int_equal(__atomic_load_n(&lost, __ATOMIC_SEQ_CST), 0);
	CHECK0(ln_meta_lease_close(m, lease, LONG));
	assert_int_equal(ln_meta_delete(m, "mine", 0, LONG),
			 LUNE_ERR_NOTFOUND);
	ln_meta_close(m);
}

static void a_lease_is_lost_in_a_long_outage(void **state)
{
	struct ln_meta *m = suite_open("outage");
	uint64_t lost = 0, lease;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 1000, on_lost, &lost, LONG, &lease));
	CHECK0(suite_put(m, "mine", "x", lease));
	etcd_kill(&etcd, 0);
	wait_lost(&lost);
	assert_int_equal(lost, lease);
	assert_int_equal(etcd_restart(&etcd, 0), 0);
	assert_int_equal(suite_put(m, "mine", "x", lease), LUNE_ERR_NOTFOUND);
	ln_meta_lease_close(m, lease, LONG);
	ln_meta_close(m);
}

static void a_wiped_etcd_is_noticed(void **state)
{
	struct ln_meta *m = suite_open("wiped");
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	uint64_t lost = 0, lease, rev;

	(void)state;
	for (int i = 0; i < 10; i++)
		CHECK0(suite_put(m, "a", "x", 0));
	CHECK0(ln_meta_lease_open(m, 60000, on_lost, &lost, LONG, &lease));
	rev = revision(m);
	CHECK0(ln_meta_watch_open(m, "", rev + 1, &w));
	CHECK0(suite_put(m, "a", "x", 0));
	expect_event(w, "a", "x");
	etcd_kill(&etcd, 0);
	etcd_wipe(&etcd, 0);
	assert_int_equal(etcd_restart(&etcd, 0), 0);
	assert_int_equal(ln_meta_watch_next(w, SECONDS(60), &e),
			 LUNE_ERR_COMPACTED);
	assert_non_null(strstr(lune_last_error(), "wiped"));
	assert_int_equal(ln_meta_watch_next(w, SECONDS(60), &e),
			 LUNE_ERR_COMPACTED);
	assert_int_equal(suite_put(m, "b", "x", lease), LUNE_ERR_NOTFOUND);
	assert_true(revision(m) < rev);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void a_lease_that_was_wiped_is_lost(void **state)
{
	struct ln_meta *m = suite_open("wiped");
	uint64_t lost = 0, lease;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 6000, on_lost, &lost, LONG, &lease));
	etcd_kill(&etcd, 0);
	etcd_wipe(&etcd, 0);
	assert_int_equal(etcd_restart(&etcd, 0), 0);
	wait_lost(&lost);
	ln_meta_close(m);
}

static void a_compacted_revision_is_told(void **state)
{
	struct ln_meta *m = suite_open("compact");
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	char command[256];
	uint64_t rev;

	(void)state;
	rev = revision(m);
	for (int i = 0; i < 5; i++)
		CHECK0(suite_put(m, "a", "x", 0));
	snprintf(command, sizeof(command),
		 "curl -s -o /dev/null http://127.0.0.1:%d/v3/kv/compaction "
		 "-d '{\"revision\":\"%llu\"}'", etcd.member[0].port,
		 (unsigned long long)rev + 4);
	if (system(command))
		skip();
	CHECK0(ln_meta_watch_open(m, "", rev + 1, &w));
	assert_int_equal(ln_meta_watch_next(w, LONG, &e),
			 LUNE_ERR_COMPACTED);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void a_dead_first_endpoint_is_passed_over(void **state)
{
	struct ln_meta_watch *w;
	struct ln_meta *m;
	uint64_t lease;
	char url[128];

	(void)state;
	snprintf(url, sizeof(url), "etcd://127.0.0.1:%d,127.0.0.1:%d/first",
		 etcd_free_port(), etcd.member[0].port);
	CHECK0(ln_meta_open(url, &m));
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	CHECK0(ln_meta_lease_open(m, 2000, NULL, NULL, LONG, &lease));
	CHECK0(suite_put(m, "a", "x", lease));
	expect_event(w, "a", "x");
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static int mend(void **state)
{
	(void)state;
	return etcd_mend(&etcd);
}

#define TEST(f) cmocka_unit_test_setup(f, mend)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slow_etcd_is_told_from_none),
		TEST(closing_does_not_wait_for_a_slow_etcd),
		TEST(all_goes_on_when_etcd_is_back),
		TEST(a_lease_outlives_a_short_outage),
		TEST(a_lease_is_lost_in_a_long_outage),
		TEST(a_dead_first_endpoint_is_passed_over),
		TEST(a_compacted_revision_is_told),
		TEST(a_wiped_etcd_is_noticed),
		TEST(a_lease_that_was_wiped_is_lost),
	};
	int rc = 1;

	etcd_find(&etcd);
	if (!etcd_start(&etcd, 1)) {
		snprintf(suite_url, sizeof(suite_url), "etcd://127.0.0.1:%d",
			 etcd.member[0].port);
		rc = cmocka_run_group_tests_name("meta, etcd in trouble",
						 tests, NULL, NULL);
	}
	etcd_stop(&etcd);
	return rc;
}
