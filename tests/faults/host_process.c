/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that Lune lives in: it forks, has small limits, is forbidden
 * system calls (as containers do).  Lune says what it does instead, and the
 * bytes stay right.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lune/lune.h>

#include "tests/harness/unit.h"

#define BYTES (3u << 20)

/* Answer EPERM to up to two system calls, from now on. */
static void forbid(int a, int b)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)a, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)b, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog prog = { .len = 5, .filter = f };

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

struct route {
	char name[64];
};

/* Put malloc'ed or allocated memory to the next rank; the route it took. */
static void exchange(lune_ctx *ctx, bool allocated, struct route *route)
{
	lune_comm *w = lune_ctx_world(ctx);
	int rank = lune_comm_rank(w), n = lune_comm_size(w);
	char *mine = malloc(BYTES), *from = malloc(BYTES);
	lune_mem *mem;
	lune_win *win;
	lune_rmem *next;
	char *to;

	CHECK(mine && from);
	memset(from, rank + 10, BYTES);
	if (allocated)
		CHECK_OK(lune_mem_alloc(ctx, BYTES, NULL, &mem));
	else
		CHECK_OK(lune_mem_register(ctx, mine, BYTES, NULL, &mem));
	to = lune_mem_addr(mem);
	memset(to, 0, BYTES);
	CHECK_OK(lune_win_open(w, mem, 10000, &win));
	next = lune_win_rmem(win, (rank + 1) % n);
	CHECK_OK(lune_put(next, 8, from, BYTES - 8, NULL));
	CHECK_OK(lune_flush(w, LUNE_ALL_RANKS, 20000));
	CHECK_OK(lune_rmem_route(next, 10000, route->name,
				 sizeof(route->name)));
	CHECK_OK(lune_barrier(w, 20000));
	for (size_t i = 8; i < BYTES; i++)
		CHECK_EQ(to[i], (rank + n - 1) % n + 10);
	lune_win_close(win);
	CHECK_OK(lune_mem_release(mem, 10000));
	free(mine);
	free(from);
}

static int forks(int rank, int n, void *arg)
{
	struct route r;
	lune_ctx *ctx;
	int status;
	pid_t child;

	(void)rank;
	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	exchange(ctx, true, &r);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		/* A data loader: it may live, and may not use the context. */
		bool refused = lune_ctx_progress(ctx) == LUNE_ERR_FORKED &&
			       lune_barrier(lune_ctx_world(ctx), 1000) ==
				       LUNE_ERR_FORKED;
		_exit(refused ? 0 : 1);
	}
	exchange(ctx, true, &r);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	exchange(ctx, false, &r);
	CHECK_OK(lune_barrier(lune_ctx_world(ctx), 10000));
	return lune_ctx_close(ctx, 1000);
}

/* A killed rank is noticed although its forked child still lives. */
static int dies_with_child(int rank, int n, void *arg)
{
	lune_ctx *ctx;
	int rc;

	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	CHECK_OK(lune_barrier(lune_ctx_world(ctx), 10000));
	if (rank == 1) {
		if (fork() == 0) {
			setpgid(0, 0);
			ranks_wait_ms(2, 1, 20000);
			_exit(0);
		}
		ranks_set(1, 1);
		ranks_wait_ms(2, 1, 20000);
		_exit(0);
	}
	ranks_wait(1, 1);
	ranks_kill(1);
	rc = lune_barrier(lune_ctx_world(ctx), 20000);
	ranks_set(2, 1);
	CHECK_RC(rc, LUNE_ERR_PEER);
	return lune_ctx_close(ctx, 1000);
}

static int small_limits(int rank, int n, void *arg)
{
	struct rlimit none = { 0, 0 };
	struct route r;
	lune_ctx *ctx;

	(void)rank;
	(void)n;
	(void)arg;
	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	exchange(ctx, true, &r);
	exchange(ctx, false, &r);
	return lune_ctx_close(ctx, 1000);
}

static char said[4096];

static void listen_to(void *arg, int level, const char *line)
{
	size_t at = strlen(said);

	(void)arg;
	(void)level;
	snprintf(said + at, sizeof(said) - at, "%s\n", line);
}

static int no_cma(int rank, int n, void *arg)
{
	struct route r;
	lune_ctx *ctx;

	(void)rank;
	(void)n;
	(void)arg;
	forbid(SYS_process_vm_readv, SYS_process_vm_writev);
	lune_log_sink(listen_to, NULL);
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	exchange(ctx, false, &r);
	CHECK_MSG(!strcmp(r.name, "shm/ring"), "the route is %s", r.name);
	CHECK_MSG(strstr(said, "ring"), "nothing was said of it: %s", said);
	exchange(ctx, true, &r);
	CHECK_MSG(!strcmp(r.name, "shm/map"), "the route is %s", r.name);
	CHECK_OK(lune_ctx_close(ctx, 1000));
	lune_log_sink(NULL, NULL);
	return 0;
}

static int no_memfd(int rank, int n, void *arg)
{
	struct route r;
	lune_ctx *ctx;

	(void)rank;
	(void)n;
	(void)arg;
	forbid(SYS_memfd_create, SYS_memfd_create);
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	exchange(ctx, true, &r);
	exchange(ctx, false, &r);
	return lune_ctx_close(ctx, 1000);
}

/* Neither memfd nor files in /dev/shm (every open O_TMPFILE fails). */
static int no_shared_memory(int rank, int n, void *arg)
{
	struct rlimit none = { 0, 0 };
	struct route r;
	lune_ctx *ctx;

	(void)rank;
	(void)n;
	(void)arg;
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
	forbid(SYS_memfd_create, SYS_memfd_create);
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	exchange(ctx, true, &r);
	exchange(ctx, false, &r);
	return lune_ctx_close(ctx, 1000);
}

static void run(ranks_fn *fn)
{
	static const char *const env[] = { "LUNE_LOG=info",
					   "LUNE_PEER_TIMEOUT=3000",
					   "LUNE_HEARTBEAT=300", NULL };
	struct ranks_opts o = { .n = 2, .fn = fn, .env = env };

	assert_int_equal(ranks_run(&o), 0);
}

#define CASE(name, fn)                 \
	static void name(void **state) \
	{                              \
		(void)state;           \
		run(fn);               \
	}
CASE(fork_after_init_is_harmless, forks)
CASE(a_living_child_does_not_hide_a_death, dies_with_child)
CASE(no_locked_memory_is_needed, small_limits)
CASE(without_cma_the_ring_carries_and_says_so, no_cma)
CASE(without_memfd_it_still_runs, no_memfd)
CASE(without_any_shared_memory_it_still_runs, no_shared_memory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork_after_init_is_harmless),
		cmocka_unit_test(a_living_child_does_not_hide_a_death),
		cmocka_unit_test(no_locked_memory_is_needed),
		cmocka_unit_test(without_cma_the_ring_carries_and_says_so),
		cmocka_unit_test(without_memfd_it_still_runs),
		cmocka_unit_test(without_any_shared_memory_it_still_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
