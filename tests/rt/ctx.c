/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: open and close over every bootstrap that needs no service, what a
 * failed open leaves behind, manual progress, the file descriptor, fork.
 */
#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lune/lune.h>

#include "base/base.h"
#include "tests/harness/unit.h"

#define WAIT_MS 20000

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- bootstraps --------------------------------------------------------- */

static int open_close(int rank, int n, void *arg)
{
	int fds = open_fds();
	lune_ctx *ctx;

	(void)arg;
	for (int round = 0; round < 2; round++) {
		struct lune_peer_info info = { .size = sizeof(info) };

		CHECK_OK(lune_ctx_open(NULL, &ctx));
		CHECK_EQ(lune_comm_rank(lune_ctx_world(ctx)), rank);
		CHECK_EQ(lune_comm_size(lune_ctx_world(ctx)), n);
		CHECK_EQ(lune_comm_size(lune_ctx_self(ctx)), 1);
		CHECK(lune_comm_ctx(lune_ctx_world(ctx)) == ctx);
		CHECK_OK(lune_barrier(lune_ctx_world(ctx), WAIT_MS));
		CHECK_OK(lune_comm_peer(lune_ctx_world(ctx), (rank + 1) % n,
					&info));
		CHECK_EQ(info.pid, ranks_pid((rank + 1) % n));
		CHECK(*info.host && *info.node && *info.state);
		/* The next world of this name shall not meet this one. */
		ranks_barrier();
		CHECK_OK(lune_ctx_close(ctx, 2000));
		ranks_barrier();
	}
	CHECK_EQ(open_fds(), fds);
	return 0;
}

static void run(ranks_fn *fn, int n, const char *const *env)
{
	struct ranks_opts o = { .n = n, .fn = fn, .env = env,
				.timeout_ms = 60000 };

	assert_int_equal(ranks_run(&o), 0);
}

static void self_opens_and_closes(void **state)
{
	static const char *const env[] = { "LUNE_BOOTSTRAP=self:", NULL };

	(void)state;
	run(open_close, 1, env);
}

static void tcp_opens_and_closes(void **state)
{
	(void)state;
	run(open_close, 1, NULL);
	run(open_close, 5, NULL);
}

static void torch_opens_and_closes(void **state)
{
	char port[40];
	const char *env[] = { "LUNE_BOOTSTRAP", "RANK={rank}", "WORLD_SIZE=3",
			      "MASTER_ADDR=127.0.0.1", port,
			      "TORCHELASTIC_USE_AGENT_STORE=False", NULL };

	(void)state;
	snprintf(port, sizeof(port), "MASTER_PORT=%d", ranks_free_port());
	run(open_close, 3, env);
}

/* ---- errors ------------------------------------------------------------- */

static void bad_options_are_refused(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	lune_ctx *ctx = NULL;

	(void)state;
	assert_int_equal(lune_ctx_open(NULL, NULL), LUNE_ERR_INVAL);
	o.progress = 7;
	assert_int_equal(lune_ctx_open(&o, &ctx), LUNE_ERR_INVAL);
	o.progress = 0;
	o.bootstrap = "carrier-pigeon:";
	assert_true(lune_ctx_open(&o, &ctx) < 0);
	assert_non_null(strstr(lune_last_error(), "carrier-pigeon"));
	o.bootstrap = "self:";
	o.size = 3;
	assert_int_equal(lune_ctx_open(&o, &ctx), LUNE_ERR_INVAL);
	assert_null(ctx);
	assert_int_equal(lune_ctx_close(NULL, 0), LUNE_OK);
}

static void missing_ranks_are_named_in_time(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .timeout_ms = 300 };
	char url[80];
	int fds = open_fds();
	int64_t start = ranks_now_ms();
	lune_ctx *ctx = NULL;

	(void)state;
	snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?rank=0&size=3",
		 ranks_free_port());
	o.bootstrap = url;
	assert_int_equal(lune_ctx_open(&o, &ctx), LUNE_ERR_TIMEOUT);
	assert_non_null(strstr(lune_last_error(), "1"));
	assert_non_null(strstr(lune_last_error(), "2"));
	assert_true(ranks_now_ms() - start < 5000 * ranks_scale());
	/* ranks_free_port keeps one. */
	assert_in_range(open_fds(), fds, fds + 1);
}

static void what_is_open_keeps_the_context_open(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	lune_ctx *ctx;
	lune_comm *dup;
	lune_mem *mem;
	lune_cq *cq;

	(void)state;
	assert_int_equal(lune_ctx_open(&o, &ctx), LUNE_OK);
	assert_int_equal(lune_comm_dup(lune_ctx_world(ctx), 1000, &dup), 0);
	assert_int_equal(lune_ctx_close(ctx, 0), LUNE_ERR_BUSY);
	lune_comm_close(dup);
	assert_int_equal(lune_mem_alloc(ctx, 100, NULL, &mem), LUNE_OK);
	assert_int_equal(lune_ctx_close(ctx, 0), LUNE_ERR_BUSY);
	assert_int_equal(lune_mem_release(mem, 1000), LUNE_OK);
	assert_int_equal(lune_cq_open(ctx, 1, &cq), LUNE_OK);
	assert_int_equal(lune_ctx_close(ctx, 0), LUNE_ERR_BUSY);
	assert_int_equal(lune_cq_close(cq), LUNE_OK);
	/* The context's own: closing them does nothing. */
	lune_comm_close(lune_ctx_world(ctx));
	lune_comm_close(lune_ctx_self(ctx));
	lune_comm_close(NULL);
	assert_int_equal(lune_comm_size(lune_ctx_world(ctx)), 1);
	assert_int_equal(lune_ctx_close(ctx, 0), LUNE_OK);
}

static void counters_are_found_by_name(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	uint64_t value = 7;
	lune_ctx *ctx;

	(void)state;
	assert_int_equal(lune_ctx_open(&o, &ctx), LUNE_OK);
	assert_int_equal(lune_ctx_counter(ctx, "put_bytes", &value), LUNE_OK);
	assert_int_equal(value, 0);
	assert_int_equal(lune_ctx_counter(ctx, "put_byte", &value),
			 LUNE_ERR_NOTFOUND);
	assert_int_equal(lune_ctx_close(ctx, 0), LUNE_OK);
}

static void two_contexts_are_independent(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	lune_ctx *a, *b;

	(void)state;
	assert_int_equal(lune_ctx_open(&o, &a), LUNE_OK);
	assert_int_equal(lune_ctx_open(&o, &b), LUNE_OK);
	assert_int_equal(lune_ctx_close(a, 0), LUNE_OK);
	assert_int_equal(lune_barrier(lune_ctx_world(b), 1000), LUNE_OK);
	assert_int_equal(lune_ctx_close(b, 0), LUNE_OK);
}

/* The n-th allocation fails, for every n: an error, and nothing is left. */
static void open_survives_any_failed_allocation(void **state)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	int fds = open_fds(), rc;
	lune_ctx *ctx;
	uint64_t before;

	(void)state;
	for (long n = 1;; n++) {
		before = ln_alloc_count();
		ln_alloc_fail_after(n);
		rc = lune_ctx_open(&o, &ctx);
		ln_alloc_fail_after(0);
		if (!rc)
			assert_int_equal(lune_ctx_close(ctx, 0), LUNE_OK);
		else
			assert_int_equal(rc, LUNE_ERR_NOMEM);
		assert_int_equal(open_fds(), fds);
		if (!rc && (long)(ln_alloc_count() - before) < n)
			break;
	}
}

/* ---- progress ----------------------------------------------------------- */

/* Rank 1 waits in poll(2) only. */
static int external_loop(int rank, int n, void *arg)
{
	struct lune_notify note = { .rank = 1, .tag = 5 };
	lune_ctx *ctx;
	lune_comm *w;
	int rc;

	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	w = lune_ctx_world(ctx);
	CHECK_OK(lune_barrier(w, WAIT_MS));
	if (rank == 0) {
		ranks_wait(1, 1);
		CHECK_OK(lune_notify_send(w, &note, NULL));
		CHECK_OK(lune_flush(w, 1, WAIT_MS));
		return lune_ctx_close(ctx, 2000);
	}
	for (;;) {
		struct pollfd p = { .fd = lune_ctx_fd(ctx), .events = POLLIN };

		CHECK_OK(lune_ctx_arm(ctx));
		CHECK_GE0(lune_ctx_progress(ctx));
		rc = lune_notify_recv(w, 0, &note);
		if (rc != LUNE_ERR_TIMEOUT)
			break;
		ranks_set(1, 1);
		CHECK(poll(&p, 1, WAIT_MS) == 1);
	}
	CHECK_OK(rc);
	CHECK_EQ(note.tag, 5);
	return lune_ctx_close(ctx, 2000);
}

static void poll_wakes_an_external_loop(void **state)
{
	static const char *const manual[] = { "LUNE_PROGRESS=manual", NULL };

	(void)state;
	run(external_loop, 2, NULL);
	run(external_loop, 2, manual);
}

/* ---- fork --------------------------------------------------------------- */

static bool sanitized(const char *by)
{
	const char *with = getenv("LUNE_TEST_SANITIZER");

	return with && strstr(with, by);
}

static bool own_context(void)
{
	struct lune_ctx_opts o = { .size = sizeof(o), .bootstrap = "self:" };
	lune_ctx *ctx;

	return !lune_ctx_open(&o, &ctx) &&
	       !lune_barrier(lune_ctx_world(ctx), 100) &&
	       !lune_ctx_close(ctx, 0);
}

static int fork_body(int rank, int n, void *arg)
{
	lune_comm *w, *dup;
	lune_ctx *ctx;
	int status;
	pid_t child;

	(void)rank;
	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	w = lune_ctx_world(ctx);
	CHECK_OK(lune_barrier(w, WAIT_MS));
	CHECK_OK(lune_comm_dup(w, WAIT_MS, &dup));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		bool ok = lune_ctx_progress(ctx) == LUNE_ERR_FORKED &&
			  lune_barrier(w, 100) == LUNE_ERR_FORKED &&
			  lune_comm_shrink(w, 100, &dup) == LUNE_ERR_FORKED &&
			  lune_ctx_close(ctx, 0) == LUNE_ERR_FORKED;

		lune_comm_close(dup);
		/* A context of its own is as good as any.  (The thread
		 * sanitizer forbids a child to start threads.) */
		ok = ok && (sanitized("thread") || own_context());
		_exit(ok ? 0 : 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_OK(lune_barrier(dup, WAIT_MS));
	lune_comm_close(dup);
	return lune_ctx_close(ctx, 2000);
}

static void a_forked_child_is_refused(void **state)
{
	(void)state;
	run(fork_body, 3, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(self_opens_and_closes),
		cmocka_unit_test(tcp_opens_and_closes),
		cmocka_unit_test(torch_opens_and_closes),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(missing_ranks_are_named_in_time),
		cmocka_unit_test(what_is_open_keeps_the_context_open),
		cmocka_unit_test(counters_are_found_by_name),
		cmocka_unit_test(two_contexts_are_independent),
		cmocka_unit_test(open_survives_any_failed_allocation),
		cmocka_unit_test(poll_wakes_an_external_loop),
		cmocka_unit_test(a_forked_child_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
