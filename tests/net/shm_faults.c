/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong between two processes of a node: one is stopped or killed in
 * the middle of an access; CMA, memfds or all shared memory are forbidden.
 */
#include "tests/net/shm_pair.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lune/log.h>
#include <lune/mem.h>

#include "net/shm.h"

#define BIG (64u << 20)
#define SMALL (1u << 20)
#define NS_PER_MS 1000000ull

static uint64_t in_ms(unsigned ms)
{
	return ln_now_ns() + ms * NS_PER_MS * (uint64_t)ranks_scale();
}

static void open_with(struct node *n, const char *transports,
		      const char *modes)
{
	struct node_opts o = { .transports = transports, .modes = modes,
			       .heartbeat_ms = 50, .peer_timeout_ms = 500 };

	node_open(n, &o);
}

static struct ln_region *registered(struct node *n, size_t bytes)
{
	struct ln_region *r;
	void *p = malloc(bytes);

	CHECK(p);
	fill(p, bytes, 1);
	CHECK_OK(ln_mem_register(n->mem, p, bytes, LUNE_MEM_ALL, &r));
	return r;
}

/* ---- stopped or killed inside a CMA call --------------------------------- */

/* Reads until it is told that there is nothing to read any more. */
static int reader(int rank, int nranks, void *arg)
{
	char *buf = malloc(BIG);
	struct ln_rmem r;
	struct node n;
	struct job j;
	int rc = 0;

	(void)rank;
	(void)nranks;
	(void)arg;
	pair_open(&n, "cma");
	ranks_wait(1, 1);
	pair_attach(&n, 0, "shm/cma", &r);
	while (!rc) {
		job_get(&j, &r, 0, buf, BIG);
		rc = job_run(&n, &j);
		if (!rc)
			CHECK_EQ(verify(buf, 64, 1), 64);
	}
	CHECK_MSG(rc == LUNE_ERR_STALE || rc == LUNE_ERR_PEER, "%d", rc);
	ln_rmem_fini(&r);
	node_close(&n);
	free(buf);
	return 0;
}

static bool line_names(struct node *n, uint64_t key)
{
	struct shm_tp *tp = shm_of(n->net);

	for (int i = 0; i < SHM_LINES; i++)
		for (int k = 0; k < SHM_LINE_KEYS; k++)
			if (atomic_load(&tp->ctl->lines[i].keys[k]) == key)
				return true;
	return false;
}

static bool is_stopped(int pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, pid);
	f = fopen(path, "re");
	CHECK(f);
	CHECK_EQ(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'T';
}

/* Stop the reader at a moment when it has published the key. */
static void stop_inside(struct node *n, uint64_t key)
{
	for (;;) {
		while (!line_names(n, key))
			sched_yield();
		ranks_stop(AIMER);
		while (!is_stopped(ranks_pid(AIMER)))
			sched_yield();
		if (line_names(n, key))
			return;
		ranks_continue(AIMER);
	}
}

static _Atomic int downs;

static void count_down(void *arg, struct ln_peer *p)
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

/* arg: kill it after that, else let it go on. */
static int held_owner(int rank, int nranks, void *arg)
{
	struct node_opts o = { .transports = "self,shm", .modes = "cma",
			       .heartbeat_ms = 50, .peer_timeout_ms = 500,
			       .cb.peer_down = count_down };
	const bool *kill_it = arg;
	struct ln_region *m;
	char pid[32], *mem;
	struct node n;

	(void)rank;
	(void)nranks;
	node_open(&n, &o);
	m = registered(&n, BIG);
	mem = m->addr;
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	stop_inside(&n, m->key);
	ln_mem_revoke(n.mem, m);
	CHECK_RC(ln_net_fence_region(n.net, m, in_ms(50)), LUNE_ERR_TIMEOUT);
	snprintf(pid, sizeof(pid), "%d", ranks_pid(AIMER));
	CHECK_MSG(strstr(lune_last_error(), pid), "no pid %s in: %s", pid,
		  lune_last_error());
	/* Given up as a peer it may still go on with its copy. */
	CHECK_OK(ln_net_wait(n.net, is_down, NULL, in_ms(20000)));
	CHECK_RC(ln_net_fence_region(n.net, m, in_ms(50)), LUNE_ERR_TIMEOUT);
	if (*kill_it)
		ranks_kill(AIMER);
	else
		ranks_continue(AIMER);
	CHECK_OK(ln_net_fence_region(n.net, m, in_ms(20000)));
	ln_mem_free(n.mem, m);
	free(mem);
	node_close(&n);
	return 0;
}

static void a_peer_stopped_in_an_access_keeps_release_waiting(void **state)
{
	bool kill_it = false;

	(void)state;
	assert_int_equal(pair_run(reader, held_owner, &kill_it, 30000), 0);
}

static void a_peer_killed_in_an_access_lets_release_go_on(void **state)
{
	bool kill_it = true;

	(void)state;
	assert_int_equal(pair_run(reader, held_owner, &kill_it, 30000), 0);
}

/* ---- killed at any moment ------------------------------------------------ */

#define KILLS 25

/* Reads and writes until it is killed; incarnation k uses slot k's ticket. */
static int victim(int rank, int nranks, void *arg)
{
	const char *modes = arg;
	uint32_t life = (uint32_t)ranks_incarnation();
	char *buf;
	struct ln_rmem r;
	struct node n;
	struct job j;
	int rc = 0;

	(void)rank;
	(void)nranks;
	if (life == KILLS)
		return 0;
	buf = malloc(SMALL);
	memset(buf, 0x55, SMALL);
	pair_open(&n, modes);
	ranks_wait(1, life + 1);
	pair_attach(&n, 0, NULL, &r);
	for (int i = 0; !rc || rc == LUNE_ERR_STALE; i++) {
		if (i % 2)
			job_get(&j, &r, 0, buf, SMALL);
		else
			job_put(&j, &r, 0, buf, SMALL);
		rc = job_run(&n, &j);
		ranks_set(2, life + 1);
	}
	ranks_fail(__FILE__, __LINE__, "%s", lune_last_error());
}

static int survivor(int rank, int nranks, void *arg)
{
	const char *modes = arg;
	char *mem = malloc(SMALL);
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, modes);
	for (uint32_t k = 0; k < KILLS; k++) {
		CHECK_OK(ln_mem_register(n.mem, mem, SMALL, LUNE_MEM_ALL, &m));
		pair_show(&n, 0, m);
		ranks_set(1, k + 1);
		ranks_wait(2, k + 1);
		for (volatile int i = (int)k * 9973; i; i--)
			;
		if (k % 2)
			ln_mem_revoke(n.mem, m);
		ranks_kill(AIMER);
		node_release(&n, m);
		memset(mem, (int)k, SMALL);
		for (size_t i = 0; i < SMALL; i++)
			CHECK_EQ((uint8_t)mem[i], k);
		ranks_restart(AIMER);
	}
	node_close(&n);
	free(mem);
	return 0;
}

static void memory_of_killed_peers_is_released(void **state)
{
	(void)state;
	assert_int_equal(pair_run(victim, survivor, "cma", 60000), 0);
	assert_int_equal(pair_run(victim, survivor, "ring", 60000), 0);
}

/* ---- the target dies ----------------------------------------------------- */

struct dying {
	const char *modes;
	bool registered;
};

static void *killer(void *arg)
{
	(void)arg;
	ranks_wait(2, 200);
	ranks_kill(OWNER);
	return NULL;
}

static int mourner(int rank, int nranks, void *arg)
{
	const struct dying *d = arg;
	char *buf = malloc(SMALL);
	pthread_t thread;
	struct ln_rmem r;
	struct node n;
	struct job j;
	int rc = 0;

	(void)rank;
	(void)nranks;
	pair_open(&n, d->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, NULL, &r);
	CHECK_EQ(pthread_create(&thread, NULL, killer, NULL), 0);
	for (int i = 0; !rc; i++) {
		if (i % 2)
			job_get(&j, &r, 0, buf, SMALL);
		else
			job_put(&j, &r, 0, buf, SMALL);
		rc = job_run(&n, &j);
		ranks_add(2, 1);
	}
	CHECK_RC(rc, LUNE_ERR_PEER);
	pthread_join(thread, NULL);
	ln_rmem_fini(&r);
	node_close(&n);
	free(buf);
	return 0;
}

static int mourned(int rank, int nranks, void *arg)
{
	const struct dying *d = arg;
	struct ln_region *m;
	struct node n;

	(void)rank;
	(void)nranks;
	pair_open(&n, d->modes);
	m = d->registered ? registered(&n, SMALL) : node_alloc(&n, SMALL, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	ranks_wait(3, 1); /* until killed */
	return 1;
}

static void operations_on_a_killed_target_end(void **state)
{
	static const struct dying all[] = {
		{ "map", false }, { "cma", true }, { "ring", true },
	};

	(void)state;
	for (size_t i = 0; i < LN_ARRAY_SIZE(all); i++)
		assert_int_equal(pair_run(mourner, mourned, &all[i], 30000), 0);
}

/* ---- forbidden ----------------------------------------------------------- */

struct forbidding {
	const char *transports, *modes;
	const char *first;  /* route when nothing is forbidden yet, or NULL */
	const char *route;  /* after that */
	bool registered;
	bool memfd;	    /* forbid memfd_create; else CMA */
	bool no_shm_dir;    /* and /dev/shm */
	const char *told;   /* in one line of the log, or NULL */
};

static _Atomic int told;

static void count_line(void *arg, int level, const char *line)
{
	const struct forbidding *f = arg;

	(void)level;
	if (f->told && strstr(line, f->told))
		atomic_fetch_add(&told, 1);
}

static void forbid(const struct forbidding *f)
{
	static const int cma[] = { SYS_process_vm_readv,
				   SYS_process_vm_writev };
	static const int memfd[] = { SYS_memfd_create };

	if (f->memfd)
		pair_forbid(memfd, 1, ENOSYS);
	else
		pair_forbid(cma, 2, EPERM);
}

/* A read-only file system where /dev/shm was, for this process only. */
static bool hide_shm_dir(void)
{
	return !unshare(CLONE_NEWNS) &&
	       !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", "/dev/shm", "tmpfs", MS_RDONLY, NULL);
}

static void exchange(struct node *n, struct ln_rmem *r, uint64_t seed)
{
	char *buf = malloc(SMALL);
	struct job j;

	fill(buf, SMALL, seed);
	job_put(&j, r, 0, buf, SMALL);
	CHECK_RC(job_run(n, &j), LUNE_OK);
	memset(buf, 0, SMALL);
	job_get(&j, r, 0, buf, SMALL);
	CHECK_RC(job_run(n, &j), LUNE_OK);
	CHECK_EQ(verify(buf, SMALL, seed), SMALL);
	free(buf);
}

static int bound(int rank, int nranks, void *arg)
{
	const struct forbidding *f = arg;
	struct ln_rmem r;
	struct node n;

	(void)rank;
	(void)nranks;
	lune_log_set_level(LUNE_LOG_INFO);
	lune_log_sink(count_line, arg);
	if (f->no_shm_dir && !hide_shm_dir()) {
		ranks_set(4, 1);
		return 0;
	}
	if (!f->first)
		forbid(f);
	open_with(&n, f->transports, f->modes);
	ranks_wait(1, 1);
	pair_attach(&n, 0, f->first ? f->first : f->route, &r);
	exchange(&n, &r, 1);
	if (f->first) {
		forbid(f);
		exchange(&n, &r, 2);
	}
	CHECK_EQ(atomic_load(&told), f->told ? 1 : 0);
	ranks_set(2, 1);
	ln_rmem_fini(&r);
	node_close(&n);
	lune_log_sink(NULL, NULL);
	return 0;
}

static int free_owner(int rank, int nranks, void *arg)
{
	const struct forbidding *f = arg;
	struct ln_region *m;
	struct node n;
	void *p;

	(void)rank;
	(void)nranks;
	if (f->memfd)
		forbid(f);
	open_with(&n, f->transports, f->modes);
	m = f->registered ? registered(&n, SMALL) : node_alloc(&n, SMALL, 0);
	pair_show(&n, 0, m);
	ranks_set(1, 1);
	while (!ranks_get(4) && !ranks_wait_ms(2, 1, 20))
		;
	/* Ours again after release; what is allocated is gone then. */
	p = m->addr;
	pair_settle(m);
	if (!f->registered && ranks_get(2))
		CHECK_EQ(verify(p, SMALL, 1), SMALL);
	node_release(&n, m);
	if (f->registered) {
		CHECK_EQ(verify(p, SMALL, f->first ? 2 : 1), SMALL);
		free(p);
	}
	node_close(&n);
	if (f->no_shm_dir && ranks_get(4))
		fprintf(stderr, "skipped: no mount namespace allowed\n");
	return 0;
}

static void where_cma_is_forbidden_the_ring_is_used(void **state)
{
	struct forbidding f = { .transports = "self,shm",
				.modes = "map,cma,ring", .route = "shm/ring",
				.registered = true, .told = "CMA" };

	(void)state;
	assert_int_equal(pair_run(bound, free_owner, &f, 30000), 0);
}

static void cma_that_is_forbidden_later_is_replaced(void **state)
{
	struct forbidding f = { .transports = "self,shm",
				.modes = "map,cma,ring", .first = "shm/cma",
				.registered = true, .told = "CMA" };

	(void)state;
	assert_int_equal(pair_run(bound, free_owner, &f, 30000), 0);
}

static void without_memfds_files_are_mapped(void **state)
{
	struct forbidding f = { .transports = "self,shm", .modes = "map",
				.route = "shm/map", .memfd = true };

	(void)state;
	assert_int_equal(pair_run(bound, free_owner, &f, 30000), 0);
}

static void without_any_shared_memory_frames_are_used(void **state)
{
	struct forbidding f = { .transports = "self,shm,tcp",
				.modes = "map,cma,ring", .route = "unix",
				.memfd = true, .no_shm_dir = true,
				.told = "shm is not used: no memory can be" };

	(void)state;
	assert_int_equal(pair_run(bound, free_owner, &f, 30000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_peer_stopped_in_an_access_keeps_release_waiting),
		cmocka_unit_test(a_peer_killed_in_an_access_lets_release_go_on),
		cmocka_unit_test(memory_of_killed_peers_is_released),
		cmocka_unit_test(operations_on_a_killed_target_end),
		cmocka_unit_test(where_cma_is_forbidden_the_ring_is_used),
		cmocka_unit_test(cma_that_is_forbidden_later_is_replaced),
		cmocka_unit_test(without_memfds_files_are_mapped),
		cmocka_unit_test(without_any_shared_memory_frames_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
