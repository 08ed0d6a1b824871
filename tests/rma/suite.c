/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rma/suite.h"

static const struct rma_route routes[] = {
	{ .name = "self", .label = "self",
	  .env = { "LUNE_TRANSPORTS=self" } },
	{ .name = "shm/map", .label = "shm/map",
	  .env = { "LUNE_TRANSPORTS=self,shm", "LUNE_SHM_MODES=map" } },
	{ .name = "shm/cma", .label = "shm/cma", .registered = true,
	  .maybe = true,
	  .env = { "LUNE_TRANSPORTS=self,shm", "LUNE_SHM_MODES=cma" } },
	{ .name = "shm/ring", .label = "shm/ring",
	  .env = { "LUNE_TRANSPORTS=self,shm", "LUNE_SHM_MODES=ring" } },
	{ .name = "tcp", .label = "tcp, 1 stream", .registered = true,
	  .env = { "LUNE_TRANSPORTS=self,tcp", "LUNE_NET_DEVICES=lo",
		   "LUNE_TCP_STREAMS=1" } },
	{ .name = "tcp", .label = "tcp, 4 streams",
	  .env = { "LUNE_TRANSPORTS=self,tcp", "LUNE_NET_DEVICES=lo",
		   "LUNE_TCP_STREAMS=4", "LUNE_TCP_SLICE=64k" } },
	{ .name = "tcp", .label = "tcp over IPv6", .needs_v6 = true,
	  .env = { "LUNE_TRANSPORTS=self,tcp", "LUNE_NET_DEVICES=lune6",
		   "LUNE_TCP_STREAMS=2" } },
	{ .name = "", .label = "whatever is best", .env = { NULL } },
};

static lune_ctx *current; /* of this rank */

#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN
#endif
#endif

#ifdef WITH_TSAN
/*
 * The order that a barrier of the harness makes goes through other processes,
 * where the thread sanitizer cannot follow it, and what the progress thread
 * did for a peer would look like a race with this thread.  A notification to
 * ourselves passes through that thread.
 */
static void meet_progress(void)
{
	lune_comm *self = lune_ctx_self(current);
	struct lune_notify n = { .rank = 0 };

	CHECK_OK(lune_notify_send(self, &n, NULL));
	CHECK_OK(lune_notify_recv(self, WAIT_MS, &n));
}
#else
static void meet_progress(void)
{
}
#endif

void meet(void)
{
	meet_progress();
	ranks_barrier();
	meet_progress();
}

void meet_of(unsigned id, int count)
{
	meet_progress();
	ranks_barrier_of(id, count);
	meet_progress();
}

/* ---- running ----------------------------------------------------------- */

struct run {
	const struct rma_case *c;
	const struct rma_route *route;
};

static int body(int rank, int n, void *arg)
{
	const struct run *run = arg;
	struct rma w = { .route = run->route };

	CHECK_OK(lune_ctx_open(NULL, &w.ctx));
	current = w.ctx;
	w.comm = lune_ctx_world(w.ctx);
	w.rank = lune_comm_rank(w.comm);
	w.n = lune_comm_size(w.comm);
	CHECK_EQ(w.rank, rank);
	CHECK_EQ(w.n, n);
	w.to = (w.rank + 1) % w.n;
	w.from = (w.rank + w.n - 1) % w.n;
	run->c->fn(&w);
	CHECK_OK(lune_ctx_close(w.ctx, 2000));
	return 0;
}

static void one_test(void **state)
{
	const struct run *run = *state;
	struct ranks_opts o = {
		.n = strcmp(run->route->name, "self") ? run->c->n : 1,
		.fn = body,
		.arg = (void *)(uintptr_t)run,
		.env = run->route->env,
		.timeout_ms = run->c->timeout_ms ? run->c->timeout_ms : 30000,
	};

	if (suite_long())
		o.timeout_ms = 600000;
	assert_int_equal(ranks_run(&o), 0);
}

/*
 * A network of our own with an interface that has an IPv6 address and nothing
 * else.  False where that is not allowed: that route is left out then.
 */
static bool own_network(void)
{
	if (geteuid() || unshare(CLONE_NEWNET))
		return false;
	return !system("ip link set lo up && "
		       "ip link add lune6 type veth peer name lune6p && "
		       "ip link set lune6p up && ip link set lune6 up && "
		       "ip -6 addr add fd00:6c75::1/64 dev lune6 nodad"
		       " >/dev/null 2>&1");
}

static bool wanted(const struct rma_case *c, const struct rma_route *route,
		   bool v6)
{
	const char *only = getenv("LUNE_TEST_ROUTE");

	if (route->needs_v6 && !v6)
		return false;
	if (c->not_self && !strcmp(route->name, "self"))
		return false;
	return !only || !strcmp(only, route->label) ||
	       !strcmp(only, route->name);
}

int suite_run(const struct rma_case *cases, size_t count)
{
	const size_t nroutes = sizeof(routes) / sizeof(routes[0]);
	struct CMUnitTest *tests = calloc(count * nroutes, sizeof(*tests));
	struct run *runs = calloc(count * nroutes, sizeof(*runs));
	bool v6 = own_network();
	size_t n = 0;
	int failed;

	if (!tests || !runs)
		return 1;
	if (!v6)
		fprintf(stderr, "without IPv6: no network of our own here\n");
	for (size_t r = 0; r < nroutes; r++)
		for (size_t c = 0; c < count; c++) {
			char *name;

			if (!wanted(&cases[c], &routes[r], v6))
				continue;
			if (asprintf(&name, "%s [%s]", cases[c].name,
				     routes[r].label) < 0)
				return 1;
			runs[n] = (struct run){ &cases[c], &routes[r] };
			tests[n] = (struct CMUnitTest){
				.name = name, .test_func = one_test,
				.initial_state = &runs[n],
			};
			n++;
		}
	failed = n ? _cmocka_run_group_tests("rma", tests, n, NULL, NULL) : 77;
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)tests[i].name);
	free(tests);
	free(runs);
	return failed;
}

/* ---- memory ------------------------------------------------------------ */

/* Tickets travel beside Lune, so that a broken window breaks only its test. */
struct offer {
	size_t bytes;
	uint8_t ticket[LUNE_TICKET_MAX];
};

static void exchange(struct rma *w, struct area *a)
{
	struct offer *offers = ranks_scratch(), *mine = &offers[w->rank];

	CHECK_OK(lune_mem_ticket(a->mem, mine->ticket, sizeof(mine->ticket),
				 &mine->bytes));
	meet();
	for (int r = 0; r < w->n; r++)
		CHECK_OK(lune_rmem_attach(w->ctx, offers[r].ticket,
					  offers[r].bytes, &a->rmem[r]));
	a->there = a->rmem[w->to];
	meet();
}

static void check_route(struct rma *w, struct area *a)
{
	char route[64];

	CHECK_OK(lune_rmem_route(a->there, WAIT_MS, route, sizeof(route)));
	if (strncmp(route, w->route->name, strlen(w->route->name)))
		ranks_fail(__FILE__, __LINE__, "the route is %s, not %s", route,
			   w->route->name);
}

void area_open_rights(struct rma *w, size_t bytes, unsigned rights,
		      struct area *a)
{
	struct lune_mem_opts opts = { .size = sizeof(opts), .rights = rights };

	memset(a, 0, sizeof(*a));
	a->w = w;
	a->bytes = bytes;
	if (w->route->registered) {
		a->backing = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(a->backing != MAP_FAILED);
		CHECK_OK(lune_mem_register(w->ctx, a->backing, bytes, &opts,
					   &a->mem));
	} else {
		CHECK_OK(lune_mem_alloc(w->ctx, bytes, &opts, &a->mem));
	}
	a->mine = lune_mem_addr(a->mem);
	CHECK_EQ(lune_mem_bytes(a->mem), bytes);
	exchange(w, a);
	check_route(w, a);
}

void area_open(struct rma *w, size_t bytes, struct area *a)
{
	area_open_rights(w, bytes, 0, a);
}

void area_close(struct area *a)
{
	/* Nobody is in the middle of something. */
	meet();
	for (int r = 0; r < a->w->n; r++)
		lune_rmem_detach(a->rmem[r]);
	CHECK_OK(lune_mem_release(a->mem, WAIT_MS));
	if (a->backing)
		munmap(a->backing, a->bytes);
}

/* ---- small things ------------------------------------------------------ */

bool suite_long(void)
{
	return getenv("LUNE_TEST_LONG") != NULL;
}

long suite_rounds(long few, long many)
{
	return suite_long() ? many : few;
}

uint64_t next_random(uint64_t *state)
{
	/* splitmix64, Steele et al. 2014. */
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint8_t pattern_byte(size_t i, uint64_t seed)
{
	uint64_t word = seed + i / 8;

	return (uint8_t)(next_random(&word) >> 8 * (i % 8));
}

void pattern_fill(void *p, size_t bytes, uint64_t seed)
{
	uint8_t *b = p;
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8) {
		uint64_t word = seed + i / 8;

		word = next_random(&word);
		memcpy(b + i, &word, 8);
	}
	for (; i < bytes; i++)
		b[i] = pattern_byte(i, seed);
}

void pattern_check(const void *p, size_t bytes, uint64_t seed)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < bytes; i++) {
		if (i + 8 <= bytes) {
			uint64_t word = seed + i / 8, have;

			word = next_random(&word);
			memcpy(&have, b + i, 8);
			if (have == word) {
				i += 7;
				continue;
			}
		}
		CHECK_MSG(b[i] == pattern_byte(i, seed),
			  "byte %zu of %zu (seed %llu) is %02x, not %02x", i,
			  bytes, (unsigned long long)seed, b[i],
			  pattern_byte(i, seed));
	}
}

void finish(lune_req **req, uint64_t bytes)
{
	struct lune_status st = { .code = LUNE_OK, .bytes = bytes };

	/* NULL: it was done in the call. */
	if (*req)
		CHECK_OK(lune_req_wait(req, WAIT_MS, &st));
	CHECK(!*req);
	CHECK_OK(st.code);
	CHECK_EQ(st.bytes, bytes);
}
