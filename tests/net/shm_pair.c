/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/net/shm_pair.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTACH_NS 10000000000ull
#define FORBID_MAX 8

struct pair_board *pair_board(void)
{
	_Static_assert(sizeof(struct pair_board) <= RANKS_SCRATCH_BYTES,
		       "the board fits into the scratch page");
	return ranks_scratch();
}

void pair_open(struct node *n, const char *modes)
{
	struct node_opts o = { .transports = "self,shm", .modes = modes };

	node_open(n, &o);
}

void pair_show(struct node *n, int slot, struct ln_region *r)
{
	/* Pinning comes after it. */
	atomic_fetch_add(&r->users, 0);
	node_ticket(n, r, &pair_board()->ticket[slot]);
}

void pair_attach(struct node *n, int slot, const char *route,
		 struct ln_rmem *out)
{
	char text[64];

	CHECK_OK(ln_rmem_init(n->net, &pair_board()->ticket[slot], out));
	CHECK_OK(ln_rmem_resolve(out, ln_now_ns() + ATTACH_NS *
					      (uint64_t)ranks_scale()));
	ln_rmem_route_text(out, text, sizeof(text));
	CHECK_MSG(!route || !strcmp(text, route), "the route is %s, not %s",
		  text, route);
}

void pair_settle(struct ln_region *r)
{
	while (atomic_load(&r->users))
		sched_yield();
}

struct bodies {
	ranks_fn *fn[2];
	const void *arg;
};

static int run_body(int rank, int n, void *arg)
{
	const struct bodies *b = arg;

	return b->fn[rank](rank, n, (void *)(uintptr_t)b->arg);
}

int pair_run(ranks_fn *aimer, ranks_fn *owner, const void *arg,
	     int timeout_ms)
{
	struct bodies b = { { aimer, owner }, arg };
	struct ranks_opts o = { .n = 2, .fn = run_body, .arg = &b,
				.timeout_ms = timeout_ms };

	return ranks_run(&o);
}

void pair_forbid(const int *syscalls, int n, int err)
{
	struct sock_filter f[2 * FORBID_MAX + 2];
	struct sock_fprog prog = { .filter = f };
	unsigned short at = 0;

	CHECK(n <= FORBID_MAX);
	f[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	for (int i = 0; i < n; i++) {
		f[at++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)syscalls[i], 0, 1);
		f[at++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err);
	}
	f[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
					       SECCOMP_RET_ALLOW);
	prog.len = at;
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	/* TSYNC: threads that exist already are bound, too. */
	CHECK_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			 SECCOMP_FILTER_FLAG_TSYNC, &prog), 0);
}
