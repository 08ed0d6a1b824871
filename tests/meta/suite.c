/* SPDX-License-Identifier: Apache-2.0 */
/* What meta.h promises, asked of a running service.  Each test works under a
 * path of its own, so that none sees another's records. */
#include <pthread.h>
#include <unistd.h>

#include "tests/meta/suite.h"

char suite_url[128];

void check0(int rc, const char *call)
{
	if (rc)
		fail_msg("%s: %s: %s", call, lune_strcode(rc),
			 lune_last_error());
}

struct ln_meta *suite_open(const char *path)
{
	struct ln_meta *m;
	char url[256];

	snprintf(url, sizeof(url), "%s/%s", suite_url, path);
	CHECK0(ln_meta_open(url, &m));
	return m;
}

int suite_put(struct ln_meta *m, const char *key, const char *value,
	      uint64_t lease)
{
	struct ln_meta_put p = { .key = key, .value = value, .lease = lease,
				 .value_len = strlen(value) };

	return ln_meta_put(m, &p, LONG);
}

static int cas(struct ln_meta *m, const char *key, const char *value,
	       uint64_t expect, uint64_t *rev)
{
	struct ln_meta_put p = { .key = key, .value = value,
				 .value_len = strlen(value) };

	return ln_meta_cas(m, &p, expect, LONG, rev);
}

static void expect_is(struct ln_meta *m, const char *key, const char *value)
{
	struct ln_meta_record r;

	CHECK0(ln_meta_get(m, key, LONG, &r));
	assert_string_equal(r.key, key);
	assert_int_equal(r.value_len, strlen(value));
	assert_string_equal((char *)r.value, value);
	assert_true(r.create_rev > 0 && r.create_rev <= r.mod_rev);
	ln_meta_record_fini(&r);
}

static void expect_gone(struct ln_meta *m, const char *key)
{
	struct ln_meta_record r;

	assert_int_equal(ln_meta_get(m, key, LONG, &r), LUNE_ERR_NOTFOUND);
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

/* The next event must be this one; value NULL: deleted.  Its revision. */
static uint64_t expect_event(struct ln_meta_watch *w, const char *key,
			     const char *value)
{
	struct ln_meta_event e;
	uint64_t rev;

	CHECK0(ln_meta_watch_next(w, LONG, &e));
	assert_string_equal(e.record.key, key);
	assert_int_equal(e.deleted, !value);
	if (value)
		assert_string_equal((char *)e.record.value, value);
	rev = e.record.mod_rev;
	ln_meta_record_fini(&e.record);
	return rev;
}

/* ---- records ------------------------------------------------------------- */

static void what_is_put_can_be_read(void **state)
{
	struct ln_meta *m = suite_open("put");

	(void)state;
	expect_gone(m, "a");
	CHECK0(suite_put(m, "a", "one", 0));
	expect_is(m, "a", "one");
	CHECK0(suite_put(m, "a", "two", 0));
	expect_is(m, "a", "two");
	CHECK0(suite_put(m, "empty", "", 0));
	expect_is(m, "empty", "");
	ln_meta_close(m);
}

static void revisions_tell_creation_from_change(void **state)
{
	struct ln_meta *m = suite_open("revisions");
	struct ln_meta_record a, b;

	(void)state;
	CHECK0(suite_put(m, "a", "one", 0));
	CHECK0(ln_meta_get(m, "a", LONG, &a));
	assert_int_equal(a.create_rev, a.mod_rev);
	CHECK0(suite_put(m, "a", "two", 0));
	CHECK0(ln_meta_get(m, "a", LONG, &b));
	assert_int_equal(b.create_rev, a.create_rev);
	assert_true(b.mod_rev > a.mod_rev);
	assert_int_equal(revision(m), b.mod_rev);
	ln_meta_record_fini(&a);
	ln_meta_record_fini(&b);
	ln_meta_close(m);
}

static void a_list_has_the_prefix_sorted(void **state)
{
	static const char *const keys[] = { "r/10", "r/2", "q", "r/1", "r",
					    "s/1", "r/" };
	static const char *const want[] = { "r/", "r/1", "r/10", "r/2" };
	struct ln_meta *m = suite_open("list");
	struct ln_meta_list l;

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(keys); i++)
		CHECK0(suite_put(m, keys[i], keys[i], 0));
	CHECK0(ln_meta_list(m, "r/", LONG, &l));
	assert_int_equal(l.count, LN_ARRAY_SIZE(want));
	for (size_t i = 0; i < l.count; i++) {
		assert_string_equal(l.records[i].key, want[i]);
		assert_string_equal((char *)l.records[i].value, want[i]);
		assert_true(l.records[i].mod_rev <= l.revision);
	}
	ln_meta_list_fini(&l);
	CHECK0(ln_meta_list(m, "", LONG, &l));
	assert_int_equal(l.count, LN_ARRAY_SIZE(keys));
	ln_meta_list_fini(&l);
	CHECK0(ln_meta_list(m, "nothing", LONG, &l));
	assert_int_equal(l.count, 0);
	assert_true(l.revision > 0);
	ln_meta_list_fini(&l);
	ln_meta_close(m);
}

static void a_long_list_is_complete(void **state)
{
	struct ln_meta *m = suite_open("long");
	struct ln_meta_list l;
	char key[32];

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k/%04d", i);
		CHECK0(suite_put(m, key, key, 0));
	}
	CHECK0(ln_meta_list(m, "k/", LONG, &l));
	assert_int_equal(l.count, 300);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k/%04d", i);
		assert_string_equal(l.records[i].key, key);
	}
	ln_meta_list_fini(&l);
	ln_meta_close(m);
}

static void create_is_won_once(void **state)
{
	struct ln_meta *m = suite_open("cas");
	uint64_t rev = 0, next = 0;

	(void)state;
	CHECK0(cas(m, "slot", "me", 0, &rev));
	assert_true(rev > 0);
	assert_int_equal(cas(m, "slot", "you", 0, &next), LUNE_ERR_CONFLICT);
	assert_int_equal(cas(m, "slot", "me", 0, &next), LUNE_ERR_CONFLICT);
	assert_int_equal(next, 0);
	expect_is(m, "slot", "me");
	CHECK0(cas(m, "slot", "still me", rev, &next));
	assert_true(next > rev);
	assert_int_equal(cas(m, "slot", "old", rev, NULL), LUNE_ERR_CONFLICT);
	assert_int_equal(cas(m, "none", "x", rev, NULL), LUNE_ERR_CONFLICT);
	expect_is(m, "slot", "still me");
	expect_gone(m, "none");
	ln_meta_close(m);
}

static void delete_minds_what_is_expected(void **state)
{
	struct ln_meta *m = suite_open("delete");
	uint64_t rev;

	(void)state;
	assert_int_equal(ln_meta_delete(m, "a", 0, LONG), LUNE_ERR_NOTFOUND);
	assert_int_equal(ln_meta_delete(m, "a", 5, LONG), LUNE_ERR_NOTFOUND);
	CHECK0(cas(m, "a", "one", 0, &rev));
	assert_int_equal(ln_meta_delete(m, "a", rev + 1, LONG),
			 LUNE_ERR_CONFLICT);
	expect_is(m, "a", "one");
	CHECK0(ln_meta_delete(m, "a", rev, LONG));
	expect_gone(m, "a");
	CHECK0(cas(m, "a", "again", 0, NULL));
	CHECK0(ln_meta_delete(m, "a", 0, LONG));
	expect_gone(m, "a");
	ln_meta_close(m);
}

static void put_bytes(struct ln_meta *m, const char *key, size_t n)
{
	uint8_t *p = malloc(n);
	struct ln_meta_put put = { .key = key, .value = p, .value_len = n };
	struct ln_meta_record r;

	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + i / 251);
	CHECK0(ln_meta_put(m, &put, LONG));
	CHECK0(ln_meta_get(m, key, LONG, &r));
	assert_int_equal(r.value_len, n);
	assert_memory_equal(r.value, p, n);
	assert_int_equal(r.value[n], 0);
	ln_meta_record_fini(&r);
	free(p);
}

static void values_are_bytes(void **state)
{
	struct ln_meta *m = suite_open("bytes");

	(void)state;
	for (size_t n = 1; n < 10; n++)
		put_bytes(m, "small", n);
	put_bytes(m, "page", 4096);
	put_bytes(m, "max", LN_META_VALUE_MAX);
	CHECK0(ln_meta_delete(m, "max", 0, LONG));
	CHECK0(suite_put(m, "k\xff\xfe\"\\\n", "odd key", 0));
	expect_is(m, "k\xff\xfe\"\\\n", "odd key");
	ln_meta_close(m);
}

static void a_prefix_that_ends_in_ff_is_one(void **state)
{
	struct ln_meta *m = suite_open("ff");
	struct ln_meta_list l;

	(void)state;
	CHECK0(suite_put(m, "a\xff" "1", "in", 0));
	CHECK0(suite_put(m, "b", "out", 0));
	CHECK0(ln_meta_list(m, "a\xff", LONG, &l));
	assert_int_equal(l.count, 1);
	assert_string_equal((char *)l.records[0].value, "in");
	ln_meta_list_fini(&l);
	ln_meta_close(m);
}

static void limits_are_kept(void **state)
{
	struct ln_meta *m = suite_open("limits");
	static char key[LN_META_KEY_MAX + 2], big[LN_META_VALUE_MAX + 1];
	struct ln_meta_put p = { .key = "a", .value = big,
				 .value_len = sizeof(big) };
	struct ln_meta_record r;
	uint64_t lease;

	(void)state;
	memset(key, 'k', sizeof(key) - 1);
	assert_int_equal(suite_put(m, key, "x", 0), LUNE_ERR_LIMIT);
	key[LN_META_KEY_MAX - strlen("limits/")] = 0;
	CHECK0(suite_put(m, key, "x", 0));
	expect_is(m, key, "x");
	assert_int_equal(ln_meta_put(m, &p, LONG), LUNE_ERR_LIMIT);
	assert_int_equal(suite_put(m, "", "x", 0), LUNE_ERR_INVAL);
	assert_int_equal(ln_meta_get(m, "", LONG, &r), LUNE_ERR_INVAL);
	assert_int_equal(ln_meta_lease_open(m, 999, NULL, NULL, LONG, &lease),
			 LUNE_ERR_INVAL);
	assert_int_equal(suite_put(m, "a", "x", 12345), LUNE_ERR_NOTFOUND);
	expect_gone(m, "a");
	ln_meta_close(m);
}

/* ---- leases -------------------------------------------------------------- */

static void closing_a_lease_deletes_its_records(void **state)
{
	struct ln_meta *m = suite_open("lease");
	struct ln_meta_watch *w;
	uint64_t lease, rev;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 5000, NULL, NULL, LONG, &lease));
	CHECK0(suite_put(m, "mine", "here", lease));
	CHECK0(suite_put(m, "kept", "here", lease));
	CHECK0(suite_put(m, "kept", "free of it", 0));
	rev = revision(m);
	CHECK0(ln_meta_watch_open(m, "", rev + 1, &w));
	CHECK0(ln_meta_lease_close(m, lease, LONG));
	expect_event(w, "mine", NULL);
	expect_gone(m, "mine");
	expect_is(m, "kept", "free of it");
	assert_int_equal(suite_put(m, "mine", "x", lease), LUNE_ERR_NOTFOUND);
	assert_int_equal(ln_meta_lease_close(m, lease, LONG),
			 LUNE_ERR_NOTFOUND);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

/* A client that is closed does not revoke: as if its process had died. */
static void a_lease_that_nobody_keeps_ends(void **state)
{
	struct ln_meta *m = suite_open("expiry"), *dies = suite_open("expiry");
	struct ln_meta_watch *w;
	uint64_t lease;

	(void)state;
	CHECK0(ln_meta_lease_open(dies, 1000, NULL, NULL, LONG, &lease));
	CHECK0(suite_put(dies, "rank", "alive", lease));
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	ln_meta_close(dies);
	expect_event(w, "rank", NULL);
	expect_gone(m, "rank");
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

/*
 * Two leases with the same ttl, one without its client: when the other one's
 * record goes, twice over, this one has outlived its ttl.
 */
static void keepalive_keeps_a_lease(void **state)
{
	struct ln_meta *m = suite_open("keep"), *dies;
	struct ln_meta_watch *w;
	uint64_t lease, other;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 2000, NULL, NULL, LONG, &lease));
	CHECK0(suite_put(m, "kept", "alive", lease));
	CHECK0(ln_meta_watch_open(m, "other", revision(m) + 1, &w));
	for (int i = 0; i < 2; i++) {
		dies = suite_open("keep");
		CHECK0(ln_meta_lease_open(dies, 2000, NULL, NULL, LONG,
					  &other));
		CHECK0(suite_put(dies, "other", "alive", other));
		ln_meta_close(dies);
		expect_event(w, "other", "alive");
		expect_event(w, "other", NULL);
	}
	expect_is(m, "kept", "alive");
	CHECK0(ln_meta_lease_close(m, lease, LONG));
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void on_lost(void *arg, uint64_t lease)
{
	uint64_t *out = arg;

	__atomic_store_n(out, lease, __ATOMIC_SEQ_CST);
}

static void a_revoked_lease_is_reported_lost(void **state)
{
	struct ln_meta *m = suite_open("lost"), *other = suite_open("lost");
	uint64_t lost = 0, lease, end = LONG;

	(void)state;
	CHECK0(ln_meta_lease_open(m, 1000, on_lost, &lost, LONG, &lease));
	CHECK0(ln_meta_lease_close(other, lease, LONG));
	while (!__atomic_load_n(&lost, __ATOMIC_SEQ_CST) &&
	       !ln_deadline_passed(end))
		usleep(1000);
	assert_int_equal(lost, lease);
	assert_int_equal(suite_put(m, "a", "x", lease), LUNE_ERR_NOTFOUND);
	ln_meta_lease_close(m, lease, LONG);
	ln_meta_close(other);
	ln_meta_close(m);
}

/* ---- watches ------------------------------------------------------------- */

static void a_watch_tells_everything_from_a_revision(void **state)
{
	struct ln_meta *m = suite_open("watch");
	struct ln_meta_watch *w;
	uint64_t rev, last = 0, now;
	char text[32];

	(void)state;
	CHECK0(suite_put(m, "w/before", "x", 0));
	rev = revision(m);
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "w/%d", i);
		CHECK0(suite_put(m, text, text, 0));
		CHECK0(suite_put(m, "elsewhere", text, 0));
	}
	CHECK0(ln_meta_watch_open(m, "w/", rev + 1, &w));
	CHECK0(ln_meta_delete(m, "w/7", 0, LONG));
	CHECK0(suite_put(m, "w/new", "y", 0));
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "w/%d", i);
		now = expect_event(w, text, text);
		assert_true(now > last && now > rev);
		last = now;
	}
	expect_event(w, "w/7", NULL);
	expect_event(w, "w/new", "y");
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void a_quiet_watch_times_out(void **state)
{
	struct ln_meta *m = suite_open("quiet");
	struct ln_meta_watch *w;
	struct ln_meta_event e;

	(void)state;
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	assert_int_equal(ln_meta_watch_next(w, ln_deadline(20, 0), &e),
			 LUNE_ERR_TIMEOUT);
	CHECK0(suite_put(m, "a", "x", 0));
	expect_event(w, "a", "x");
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void a_revision_of_the_future_is_refused(void **state)
{
	struct ln_meta *m = suite_open("future");
	struct ln_meta_watch *w;
	struct ln_meta_event e;

	(void)state;
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1000000, &w));
	assert_int_equal(ln_meta_watch_next(w, LONG, &e),
			 LUNE_ERR_COMPACTED);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

static void *wait_for_event(void *arg)
{
	struct ln_meta_event e;

	return (void *)(intptr_t)ln_meta_watch_next(arg, LONG, &e);
}

static void closing_a_watch_wakes_who_waits(void **state)
{
	struct ln_meta *m = suite_open("wake");
	struct ln_meta_watch *w;
	pthread_t t;
	void *rc;

	(void)state;
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	/*
	 * A thread that has not yet begun to wait must not touch a closed
	 * watch, so let one event through it first to know that it runs.
	 */
	CHECK0(suite_put(m, "a", "x", 0));
	expect_event(w, "a", "x");
	assert_int_equal(pthread_create(&t, NULL, wait_for_event, w), 0);
	usleep(50000);
	ln_meta_watch_close(w);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_int_equal((intptr_t)rc, LUNE_ERR_CLOSED);
	ln_meta_close(m);
}

static void big_events_come_one_by_one(void **state)
{
	struct ln_meta *m = suite_open("big");
	struct ln_meta_watch *w;
	struct ln_meta_event e;
	uint8_t *p = calloc(1, LN_META_VALUE_MAX);
	struct ln_meta_put put = { .key = "big", .value = p,
				   .value_len = LN_META_VALUE_MAX };

	(void)state;
	assert_non_null(p);
	CHECK0(ln_meta_watch_open(m, "", revision(m) + 1, &w));
	for (int i = 0; i < 20; i++) {
		p[0] = (uint8_t)i;
		CHECK0(ln_meta_put(m, &put, LONG));
	}
	for (int i = 0; i < 20; i++) {
		CHECK0(ln_meta_watch_next(w, LONG, &e));
		assert_int_equal(e.record.value_len, LN_META_VALUE_MAX);
		assert_int_equal(e.record.value[0], i);
		ln_meta_record_fini(&e.record);
	}
	free(p);
	ln_meta_watch_close(w);
	ln_meta_close(m);
}

/* ---- many ---------------------------------------------------------------- */

#define CLIENTS 16
#define ADDS 10

static int get_number(struct ln_meta *m, int *value, uint64_t *rev)
{
	struct ln_meta_record r;
	int rc;

	*value = 0;
	*rev = 0;
	rc = ln_meta_get(m, "sum", LONG, &r);
	if (rc == LUNE_ERR_NOTFOUND)
		return 0;
	if (rc)
		return rc;
	*value = atoi((char *)r.value);
	*rev = r.mod_rev;
	ln_meta_record_fini(&r);
	return 0;
}

/* Adds to a number by compare-and-set, again until it wins. */
static void *adder(void *arg)
{
	struct ln_meta *m = arg;
	char text[16];
	uint64_t rev;
	int value, rc;

	for (int i = 0; i < ADDS;) {
		rc = get_number(m, &value, &rev);
		snprintf(text, sizeof(text), "%d", value + 1);
		rc = rc ? rc : cas(m, "sum", text, rev, NULL);
		if (rc && rc != LUNE_ERR_CONFLICT)
			return (void *)(intptr_t)rc;
		i += !rc;
	}
	return NULL;
}

static void many_clients_add_up(void **state)
{
	struct ln_meta *m[CLIENTS];
	pthread_t t[CLIENTS];
	void *rc;
	char want[16];

	(void)state;
	for (int i = 0; i < CLIENTS; i++) {
		/* Every other thread shares a client with the one before. */
		m[i] = i % 2 ? m[i - 1] : suite_open("many");
		assert_int_equal(pthread_create(&t[i], NULL, adder, m[i]), 0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		assert_int_equal(pthread_join(t[i], &rc), 0);
		assert_int_equal((intptr_t)rc, 0);
	}
	snprintf(want, sizeof(want), "%d", CLIENTS * ADDS);
	expect_is(m[0], "sum", want);
	for (int i = 0; i < CLIENTS; i += 2)
		ln_meta_close(m[i]);
}

int suite_run(const char *name)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_can_be_read),
		cmocka_unit_test(revisions_tell_creation_from_change),
		cmocka_unit_test(a_list_has_the_prefix_sorted),
		cmocka_unit_test(a_long_list_is_complete),
		cmocka_unit_test(create_is_won_once),
		cmocka_unit_test(delete_minds_what_is_expected),
		cmocka_unit_test(values_are_bytes),
		cmocka_unit_test(a_prefix_that_ends_in_ff_is_one),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(closing_a_lease_deletes_its_records),
		cmocka_unit_test(a_lease_that_nobody_keeps_ends),
		cmocka_unit_test(keepalive_keeps_a_lease),
		cmocka_unit_test(a_revoked_lease_is_reported_lost),
		cmocka_unit_test(a_watch_tells_everything_from_a_revision),
		cmocka_unit_test(a_quiet_watch_times_out),
		cmocka_unit_test(a_revision_of_the_future_is_refused),
		cmocka_unit_test(closing_a_watch_wakes_who_waits),
		cmocka_unit_test(big_events_come_one_by_one),
		cmocka_unit_test(many_clients_add_up),
	};

	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
