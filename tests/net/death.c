/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that die, stop, leave or restart while operations are under way. */
#include "tests/net/duo.h"

#include <sys/wait.h>
#include <unistd.h>

#include <lune/mem.h>

#define BYTES (16u << 20)
#define JOBS 8

/* What rank 1 tells rank 0 in the shared page. */
struct told {
	struct ln_ticket ticket;
};

struct how {
	const char *transports, *modes;
	int streams;
	bool stop, leave, fork;
};

static _Atomic int downs;

static void on_down(void *arg, struct ln_peer *p)
{
	(void)arg;
	(void)p;
	atomic_fetch_add(&downs, 1);
}

static bool is_down(void *arg)
{
	(void)arg;
	return atomic_load(&downs) > 0;
}

/* Rank 1: memory that rank 0 works on, until it is killed or told to go. */
static int victim(const struct node_opts *o, const struct how *how)
{
	struct told *told = ranks_scratch();
	struct node n;
	struct ln_region *r;
	pid_t child = 0;

	node_open(&n, o);
	r = node_alloc(&n, BYTES, 0);
	node_ticket(&n, r, &told->ticket);
	ranks_set(1, 1);
	if (how->fork) {
		/* A child that holds our sockets open. */
		ranks_wait(2, 1);
		child = fork();
		if (!child) {
			ranks_wait(4, 1);
			_exit(0);
		}
		ranks_set(3, 1);
	}
	ranks_wait(5, 1);
	CHECK(how->leave);
	node_release(&n, r);
	node_close(&n);
	return 0;
}

/* All jobs of a dead peer end once, with PEER. */
static void expect_ends(struct node *n, struct job *j)
{
	bool dead = false;

	for (int i = 0; i < JOBS; i++) {
		int rc = job_wait(n, &j[i]);

		CHECK_MSG(rc == LUNE_OK || rc == LUNE_ERR_PEER, "code %d", rc);
		dead |= rc == LUNE_ERR_PEER;
	}
	CHECK(dead);
	for (int i = 0; i < JOBS; i++)
		CHECK_EQ(atomic_load(&j[i].done), 1);
}

static void post_until_down(struct node *n, struct ln_rmem *r,
			    const struct how *how)
{
	char *buf = calloc(2, BYTES);
	struct job j[JOBS];
	int64_t start;

	for (int i = 0; i < JOBS; i++) {
		if (i % 2)
			job_put(&j[i], r, 0, buf, BYTES);
		else
			job_get(&j[i], r, 0, buf + BYTES, BYTES);
	}
	start = ranks_now_ms();
	if (how->stop)
		ranks_stop(1);
	for (int i = 0; i < JOBS; i++)
		job_post(&j[i]);
	if (!how->stop)
		ranks_kill(1);
	expect_ends(n, j);
	CHECK(ranks_now_ms() - start < 4000 * ranks_scale());
	/* From now on at once. */
	job_put(&j[0], r, 0, buf, 8);
	CHECK_RC(job_run(n, &j[0]), LUNE_ERR_PEER);
	free(buf);
}

static int survivor(const struct node_opts *o, const struct how *how)
{
	struct told *told = ranks_scratch();
	struct node_opts mine = *o;
	struct ln_rmem r;
	struct node n;
	struct job j;
	char x[8] = { 0 };

	mine.cb.peer_down = on_down;
	node_open(&n, &mine);
	ranks_wait(1, 1);
	CHECK_OK(ln_rmem_init(n.net, &told->ticket, &r));
	job_put(&j, &r, 0, x, sizeof(x));
	CHECK_RC(job_run(&n, &j), LUNE_OK);
	ranks_set(2, 1);
	if (how->fork)
		ranks_wait(3, 1);
	if (how->leave)
		ranks_set(5, 1);
	else
		post_until_down(&n, &r, how);
	CHECK_OK(ln_net_wait(n.net, is_down, NULL,
			     ln_now_ns() + 20000000000u));
	CHECK_EQ(atomic_load(&downs), 1);
	CHECK_EQ(atomic_load(&n.counters.peers_lost), how->leave ? 0 : 1);
	ranks_set(4, 1);
	ln_rmem_fini(&r);
	node_close(&n);
	return 0;
}

static int body(int rank, int n, void *arg)
{
	const struct how *how = arg;
	struct node_opts o = { .transports = how->transports,
			       .modes = how->modes,
			       .streams = how->streams,
			       .heartbeat_ms = 100,
			       .peer_timeout_ms = 1000 };

	(void)n;
	return rank ? victim(&o, how) : survivor(&o, how);
}

static void run(const struct how *how)
{
	struct ranks_opts o = { .n = 2, .fn = body, .arg = (void *)how };

	assert_int_equal(ranks_run(&o), 0);
}

static void a_killed_peer_ends_every_op_over_tcp(void **state)
{
	(void)state;
	run(&(struct how){ .transports = "self,tcp" });
	run(&(struct how){ .transports = "self,tcp", .streams = 4 });
}

static void a_killed_peer_ends_every_op_over_unix(void **state)
{
	(void)state;
	run(&(struct how){ .transports = "self,shm", .modes = "" });
}

static void a_killed_peer_with_a_child_that_holds_the_socket(void **state)
{
	(void)state;
	run(&(struct how){ .transports = "self,shm", .modes = "",
			   .fork = true });
}

static void a_stopped_peer_is_given_up_by_its_silence(void **state)
{
	(void)state;
	run(&(struct how){ .transports = "self,tcp", .stop = true });
	run(&(struct how){ .transports = "self,shm", .modes = "",
			   .stop = true });
}

static void a_peer_that_leaves_is_not_counted_as_lost(void **state)
{
	(void)state;
	run(&(struct how){ .transports = "self,tcp", .leave = true });
}

/* ---- restart ------------------------------------------------------------- */

static int restarting(int rank, int n, void *arg)
{
	struct told *told = ranks_scratch();
	struct node_opts o = { 0 };
	struct ln_rmem old, new;
	struct node me;
	struct job j;
	char x[8] = { 1 };

	(void)n;
	(void)arg;
	node_open(&me, &o);
	if (rank) {
		struct ln_region *r = node_alloc(&me, 4096, 0);
		unsigned again = (unsigned)ranks_incarnation();

		node_ticket(&me, r, &told[again].ticket);
		ranks_set(1, again + 1);
		ranks_wait(2, again + 1);
		if (!again)
			ranks_wait(9, 1); /* killed here */
		node_release(&me, r);
		node_close(&me);
		return 0;
	}
	ranks_wait(1, 1);
	CHECK_OK(ln_rmem_init(me.net, &told[0].ticket, &old));
	job_put(&j, &old, 0, x, 8);
	CHECK_RC(job_run(&me, &j), LUNE_OK);
	ranks_restart(1);
	ranks_wait(1, 2);
	CHECK_OK(ln_rmem_init(me.net, &told[1].ticket, &new));
	job_put(&j, &new, 0, x, 8);
	CHECK_RC(job_run(&me, &j), LUNE_OK);
	job_put(&j, &old, 0, x, 8);
	CHECK_RC(job_run(&me, &j), LUNE_ERR_PEER);
	ln_rmem_fini(&old);
	ln_rmem_fini(&new);
	ranks_set(2, 2);
	node_close(&me);
	return 0;
}

static void an_old_ticket_does_not_reach_the_new_incarnation(void **state)
{
	struct ranks_opts o = { .n = 2, .fn = restarting };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* ---- fork ---------------------------------------------------------------- */

static void a_forked_child_only_closes_descriptors(void **state)
{
	struct node_opts o = { 0 };
	struct ln_region *mem;
	struct node a, b;
	struct ln_rmem r;
	struct job j;
	char x[8] = { 0 };
	int status;
	pid_t pid;

	(void)state;
	node_open(&a, &o);
	node_open(&b, &o);
	mem = node_alloc(&b, 4096, 0);
	node_attach(&a, &b, mem, &r);
	job_put(&j, &r, 0, x, 8);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	pid = fork();
	if (!pid) {
		ln_net_forked(a.net);
		ln_net_forked(b.net);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	job_put(&j, &r, 0, x, 8);
	CHECK_RC(job_run(&a, &j), LUNE_OK);
	ln_rmem_fini(&r);
	node_close(&a);
	node_release(&b, mem);
	node_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_peer_ends_every_op_over_tcp),
		cmocka_unit_test(a_killed_peer_ends_every_op_over_unix),
		cmocka_unit_test(
			a_killed_peer_with_a_child_that_holds_the_socket),
		cmocka_unit_test(a_stopped_peer_is_given_up_by_its_silence),
		cmocka_unit_test(a_peer_that_leaves_is_not_counted_as_lost),
		cmocka_unit_test(
			an_old_ticket_does_not_reach_the_new_incarnation),
		cmocka_unit_test(a_forked_child_only_closes_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
