/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An etcd of three members that loses one: calls, leases and watches move to
 * another and no event is lost, whether the member is dead or only silent.
 */
#include <unistd.h>

#include "tests/meta/etcd_server.h"
#include "tests/meta/suite.h"

#define PUTS 40

static struct etcd etcd;

/* A client whose first endpoint is this member. */
static struct ln_meta *open_at(int first, const char *path)
{
	struct ln_meta *m;
	char url[256];
	size_t at = 0;

	at += (size_t)snprintf(url, sizeof(url), "etcd://");
	for (int i = 0; i < 3; i++)
		at += (size_t)snprintf(url + at, sizeof(url) - at,
				       "%s127.0.0.1:%d", i ? "," : "",
				       etcd.member[(first + i) % 3].port);
	snprintf(url + at, sizeof(url) - at, "/%s", path);
	CHECK0(ln_meta_open(url, &m));
	return m;
}

static int mend(void **state)
{
	(void)state;
	return etcd_mend(&etcd);
}

static struct ln_meta_watch *watch_from_now(struct ln_meta *m)
{
	struct ln_meta_watch *w;
	struct ln_meta_list l;

	CHECK0(ln_meta_list(m, "", LONG, &l));
	CHECK0(ln_meta_watch_open(m, "n/", l.revision + 1, &w));
	ln_meta_list_fini(&l);
	return w;
}

static void put_number(struct ln_meta *m, int i)
{
	char key[16];

	snprintf(key, sizeof(key), "n/%d", i);
	CHECK0(suite_put(m, key, "x", 0));
}

/* A put that was sent twice may be told twice, but none may be missing. */
static void expect_numbers(struct ln_meta_watch *w)
{
	struct ln_meta_event e;
	int seen = -1, i;

	while (seen < PUTS - 1) {
		CHECK0(ln_meta_watch_next(w, SECONDS(60), &e));
		i = atoi(e.record.key + 2);
		assert_true(i == seen || i == seen + 1);
		seen = i;
		ln_meta_record_fini(&e.record);
	}
}

static void on_lost(void *arg, uint64_t lease)
{
	__atomic_store_n((uint64_t *)arg, lease, __ATOMIC_SEQ_CST);
}

static void survive(int member, bool freeze, const char *name)
{
	struct ln_meta_watch *w;
	uint64_t lost = 0, lease;
	struct ln_meta *m;
	char path[32];

	/* Its own: a silent member may still do an old put when it wakes. */
	snprintf(path, sizeof(path), "%s%d", name, member);
	m = open_at(member, path);
	w = watch_from_now(m);
	CHECK0(ln_meta_lease_open(m, 20000, on_lost, &lost, LONG, &lease));
	CHECK0(suite_put(m, "mine", "x", lease));
	for (int i = 0; i < PUTS; i++) {
		if (i == PUTS / 2 && freeze)
			etcd_freeze(&etcd, member, true);
		else if (i == PUTS / 2)
			etcd_kill(&etcd, member);
		put_number(m, i);
	}
	expect_numbers(w);
	CHECK0(suite_put(m, "more", "x", lease));
	assert_int_equal(__atomic_load_n(&lost, __ATOMIC_SEQ_CST), 0);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void a_dead_member_is_survived(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		survive(i, false, "dead");
		assert_int_equal(etcd_mend(&etcd), 0);
	}
}

/* One of the three is the leader, so this is tried with each. */
static void a_silent_member_is_survived(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		survive(i, true, "silent");
		assert_int_equal(etcd_mend(&etcd), 0);
	}
}

/* A member that has fallen behind is not taken for a wiped one. */
static void a_member_that_was_away_is_no_wiped_one(void **state)
{
	struct ln_meta *m = open_at(0, "away"), *late;
	struct ln_meta_watch *w;

	(void)state;
	etcd_kill(&etcd, 1);
	w = watch_from_now(m);
	ln_meta_watch_close(w);
	for (int i = 0; i < PUTS; i++)
		put_number(m, i);
	assert_int_equal(etcd_restart(&etcd, 1), 0);
	late = open_at(1, "away");
	w = watch_from_now(m);
	ln_meta_watch_close(w);
	w = watch_from_now(late);
	for (int i = 0; i < PUTS; i++)
		put_number(m, i);
	expect_numbers(w);
	ln_meta_watch_close(w);
	ln_meta_close(late);
	ln_meta_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_dead_member_is_survived, mend),
		cmocka_unit_test_setup(a_silent_member_is_survived, mend),
		cmocka_unit_test_setup(a_member_that_was_away_is_no_wiped_one,
				       mend),
	};
	int rc = 1;

	etcd_find(&etcd);
	if (!etcd_start(&etcd, 3))
		rc = cmocka_run_group_tests_name("meta, three etcds", tests,
						 NULL, NULL);
	etcd_stop(&etcd);
	return rc;
}
