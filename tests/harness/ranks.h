/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks: run N processes of one function, with a deadline.
 *
 *	static int body(int rank, int n, void *arg)
 *	{
 *		lune_ctx *ctx;
 *
 *		CHECK_OK(lune_ctx_open(NULL, &ctx));
 *		...
 *		ranks_barrier();
 *		CHECK_OK(lune_ctx_close(ctx, 1000));
 *		return 0;
 *	}
 *
 *	static void two_ranks_do_it(void **state)
 *	{
 *		struct ranks_opts o = { .n = 2, .fn = body };
 *
 *		(void)state;
 *		assert_int_equal(ranks_run(&o), 0);
 *	}
 *
 * Each rank is a child process with LUNE_BOOTSTRAP=tcp://127.0.0.1:PORT?rank=R
 * &size=N in its environment, its own process group and captured output.  When
 * the deadline passes, or a while after a rank failed, all are killed, and the
 * report says who was still running, in which system call, and the last lines
 * that each rank wrote.
 *
 * Beside Lune, and so able to judge it, ranks share a page: flags, barriers
 * and scratch memory.  All waits on it have the deadline of the run.
 */
#ifndef LUNE_TESTS_RANKS_H
#define LUNE_TESTS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lune/status.h>

#define RANKS_MAX 128
#define RANKS_FLAGS 64
#define RANKS_SCRATCH_BYTES (1024 * 1024)
/* The rank of the control process (ranks_opts.control). */
#define RANKS_CONTROL (-1)

/* Returns 0 on success; a failed CHECK does not return at all. */
typedef int ranks_fn(int rank, int n, void *arg);

struct ranks_opts {
	int n;		 /* ranks to run, 1 to RANKS_MAX */
	ranks_fn *fn;	 /* what each of them runs */
	void *arg;	 /* passed on (each rank has its own copy) */
	int timeout_ms;	 /* of the whole run; 0: 30000.  See ranks_scale */
	/*
	 * NULL, or a NULL-terminated list of "NAME=value" (all ranks) and
	 * "2:NAME=value" (rank 2 only); "{rank}" in a value is replaced, and
	 * "NAME" without "=" unsets.  Later entries win.
	 */
	const char *const *env;
	/*
	 * NULL, or one more process (its rank is RANKS_CONTROL) that runs
	 * beside the ranks, to kill, stop and restart them from outside.
	 */
	ranks_fn *control;
};

/*
 * Run the ranks and wait for them.  0 when every rank returned 0 or was
 * killed by ranks_kill() or left stopped by ranks_stop(); else the number of
 * ranks that did not, with a report on stderr.
 */
int ranks_run(const struct ranks_opts *o);

/* ---- inside a rank ----------------------------------------------------- */

int ranks_rank(void);
int ranks_size(void);
/* 0 in the first process of this rank, 1 after the first restart, ... */
int ranks_incarnation(void);
/* Shared between the ranks of this run, zeroed: RANKS_SCRATCH_BYTES. */
void *ranks_scratch(void);

/* All n ranks (not the control process) meet. */
#define ranks_barrier() ranks_barrier_at(0, ranks_size(), __FILE__, __LINE__)
/*
 * `count` processes meet at barrier `id` (1 to RANKS_FLAGS - 1).  Reusable,
 * always with the same count: for the survivors, or ranks and control.
 */
#define ranks_barrier_of(id, count) \
	ranks_barrier_at((id), (count), __FILE__, __LINE__)
void ranks_barrier_at(unsigned id, int count, const char *file, int line);

/* Flags 0 to RANKS_FLAGS - 1: 32-bit words, zero at first. */
void ranks_set(unsigned flag, uint32_t value);
uint32_t ranks_add(unsigned flag, uint32_t value); /* returns the new value */
uint32_t ranks_get(unsigned flag);
/* Sleep until the flag is at least value. */
#define ranks_wait(flag, value) \
	ranks_wait_at((flag), (value), __FILE__, __LINE__)
void ranks_wait_at(unsigned flag, uint32_t value, const char *file, int line);
/* The same with an own limit; false when it passed. */
bool ranks_wait_ms(unsigned flag, uint32_t value, int timeout_ms);

/* SIGKILL a rank and wait until it is gone.  Not counted as a failure. */
void ranks_kill(int rank);
/* SIGSTOP, SIGCONT.  A rank that is left stopped is not a failure. */
void ranks_stop(int rank);
void ranks_continue(int rank);
/*
 * Kill the rank unless it has ended, and start it again: same function, same
 * environment, ranks_incarnation() one more.  Returns when it was forked.
 */
void ranks_restart(int rank);
/* Whether the process of the rank runs (a stopped one does). */
bool ranks_running(int rank);
int ranks_pid(int rank);

/* ---- anywhere ---------------------------------------------------------- */

/*
 * How much longer things may take in this build: 1, more under a sanitizer,
 * times LUNE_TEST_SCALE of the environment.  ranks_run applies it to its
 * deadline; apply it to own time limits, never to what is tested.
 */
int ranks_scale(void);
/* A TCP port of 127.0.0.1 that is kept from others until this process ends. */
int ranks_free_port(void);
/* Monotonic milliseconds, for upper bounds on how long a call took. */
int64_t ranks_now_ms(void);

/* Report and end this process as failed. */
_Noreturn void ranks_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define CHECK(cond)                                                     \
	do {                                                            \
		if (!(cond))                                            \
			ranks_fail(__FILE__, __LINE__, "%s", #cond);    \
	} while (0)

/* With a reason: CHECK_MSG(p[i] == x, "byte %zu is %d", i, p[i]). */
#define CHECK_MSG(cond, ...)                                            \
	do {                                                            \
		if (!(cond))                                            \
			ranks_fail(__FILE__, __LINE__, __VA_ARGS__);    \
	} while (0)

/* Equal integers. */
#define CHECK_EQ(a, b)                                                    \
	do {                                                              \
		long long check_a = (long long)(a);                       \
		long long check_b = (long long)(b);                       \
		if (check_a != check_b)                                   \
			ranks_fail(__FILE__, __LINE__,                    \
				   "%s is %lld, not %lld (%s)", #a,       \
				   check_a, check_b, #b);                 \
	} while (0)

/* A call that returns a status code gives exactly this one. */
#define CHECK_RC(call, code)                                              \
	do {                                                              \
		int check_rc = (call);                                    \
		if (check_rc != (code))                                   \
			ranks_fail(__FILE__, __LINE__,                    \
				   "%s gave %s (%d), not %s: %s", #call,  \
				   lune_strcode(check_rc), check_rc,      \
				   lune_strcode(code),                    \
				   lune_last_error());                    \
	} while (0)

#define CHECK_OK(call) CHECK_RC(call, LUNE_OK)

/* A call that counts, or an error. */
#define CHECK_GE0(call)                                                   \
	do {                                                              \
		int check_rc = (call);                                    \
		if (check_rc < 0)                                         \
			ranks_fail(__FILE__, __LINE__, "%s gave %s: %s",  \
				   #call, lune_strcode(check_rc),         \
				   lune_last_error());                    \
	} while (0)

#endif
