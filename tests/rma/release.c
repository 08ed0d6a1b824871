/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Release against late access: never silently wrong bytes, and nothing is
 * touched once release has returned.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/rma/suite.h"

/* ---- stale tickets ----------------------------------------------------- */

struct shelf {
	_Atomic bool busy;
	uint64_t version; /* of the ticket below: the round */
	size_t bytes;
	uint8_t ticket[LUNE_TICKET_MAX];
};

static struct shelf *shelf_of(int rank)
{
	return (struct shelf *)((char *)ranks_scratch() + 65536) + rank;
}

static void shelf_lock(struct shelf *s)
{
	while (atomic_exchange(&s->busy, true))
		sched_yield();
}

static void shelf_unlock(struct shelf *s)
{
	atomic_store(&s->busy, false);
}

static void a_released_region_is_refused(struct rma *w)
{
	uint64_t word = 1, old = 0;
	lune_req *req = NULL;
	struct area a;
	int rc;

	area_open(w, 8192, &a);
	CHECK_OK(lune_put(a.there, 0, &word, 8,
			  &(struct lune_op){ .req = &req }));
	finish(&req, 8);
	meet();
	CHECK_OK(lune_mem_release(a.mem, WAIT_MS));
	meet();
	rc = lune_put(a.there, 0, &word, 8, &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_STALE);
	rc = lune_get(a.there, 0, &word, 8, &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_STALE);
	rc = lune_atomic(a.there, 0, &(struct lune_atomic){
				 LUNE_ATOMIC_SWAP, 1, 0 }, &old,
			 &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_STALE);
	rc = lune_signal_add(a.there, 0, 1, &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_STALE);
	/* With nobody to tell, flush does. */
	rc = lune_put(a.there, 0, &word, 8, NULL);
	CHECK_RC(rc ? rc : lune_rmem_flush(a.there, WAIT_MS), LUNE_ERR_STALE);
	CHECK_OK(lune_rmem_flush(a.there, WAIT_MS));
	meet();
	for (int r = 0; r < w->n; r++)
		lune_rmem_detach(a.rmem[r]);
	if (a.backing)
		munmap(a.backing, a.bytes);
}

/* A ticket attached for the first time after the release. */
static void a_late_ticket_is_refused(struct rma *w)
{
	uint64_t word = 1;
	lune_req *req = NULL;
	lune_rmem *late;
	struct area a;
	struct shelf *s = shelf_of(w->rank);
	int rc;

	area_open(w, 8192, &a);
	CHECK_OK(lune_mem_ticket(a.mem, s->ticket, sizeof(s->ticket),
				 &s->bytes));
	meet();
	CHECK_OK(lune_mem_release(a.mem, WAIT_MS));
	meet();
	s = shelf_of(w->to);
	CHECK_OK(lune_rmem_attach(w->ctx, s->ticket, s->bytes, &late));
	rc = lune_get(late, 0, &word, 8, &(struct lune_op){ .req = &req });
	CHECK_RC(rc ? rc : lune_req_wait(&req, WAIT_MS, NULL), LUNE_ERR_STALE);
	lune_rmem_detach(late);
	meet();
	for (int r = 0; r < w->n; r++)
		lune_rmem_detach(a.rmem[r]);
	if (a.backing)
		munmap(a.backing, a.bytes);
}

/* ---- races ------------------------------------------------------------- */

/*
 * The owner gives away a region whose words are all its round number, takes
 * it back, and at once fills the same memory with poison (registered) or
 * returns it to the system (allocated).  Readers and writers keep using the
 * newest ticket that they know.
 */
#define RACE_BYTES 16384
#define FLAG_STOP 5

struct owner {
	struct rma *w;
	uint64_t rounds;
	char *memory; /* registered, or NULL */
	int linger;   /* yields before the release */
};

static void publish(struct owner *o, lune_mem *mem)
{
	struct shelf *s = shelf_of(o->w->rank);

	shelf_lock(s);
	CHECK_OK(lune_mem_ticket(mem, s->ticket, sizeof(s->ticket),
				 &s->bytes));
	s->version++;
	shelf_unlock(s);
}

static void fill(char *p, uint64_t value)
{
	for (size_t i = 0; i < RACE_BYTES; i += 8)
		memcpy(p + i, &value, 8);
}

static void own_once(struct owner *o, uint64_t round)
{
	lune_mem *mem;
	char *p;

	if (o->memory) {
		fill(o->memory, round);
		CHECK_OK(lune_mem_register(o->w->ctx, o->memory, RACE_BYTES,
					   NULL, &mem));
	} else {
		CHECK_OK(lune_mem_alloc(o->w->ctx, RACE_BYTES, NULL, &mem));
		fill(lune_mem_addr(mem), round);
	}
	p = lune_mem_addr(mem);
	publish(o, mem);
	for (int i = 0; i < o->linger; i++)
		sched_yield();
	CHECK_OK(lune_mem_release(mem, WAIT_MS));
	if (!o->memory)
		return;
	/* Ours alone from here on: whatever changes now is a late write. */
	fill(p, UINT64_MAX);
	for (int spin = 0; spin < 200; spin++)
		__asm__ volatile("" ::: "memory");
	for (size_t i = 0; i < RACE_BYTES; i++)
		CHECK_MSG((uint8_t)p[i] == 0xff,
			  "byte %zu was written after release", i);
}

static bool newest(struct rma *w, uint64_t *version, lune_rmem **r)
{
	struct shelf copy, *s = shelf_of(w->to);

	shelf_lock(s);
	memcpy(&copy, s, sizeof(copy));
	shelf_unlock(s);
	if (copy.version == *version)
		return false;
	lune_rmem_detach(*r);
	*r = NULL;
	CHECK_OK(lune_rmem_attach(w->ctx, copy.ticket, copy.bytes, r));
	*version = copy.version;
	return true;
}

static int access_once(lune_rmem *r, uint64_t *buf, bool put)
{
	lune_req *req = NULL;
	struct lune_op op = { .req = &req };
	int rc;

	/* What a put writes is fitting for any round: it is not looked at. */
	rc = put ? lune_put(r, 0, buf, 8, &op) :
		   lune_get(r, 8, buf, RACE_BYTES - 8, &op);
	return rc ? rc : lune_req_wait(&req, WAIT_MS, NULL);
}

static void use_what_there_is(struct rma *w)
{
	uint64_t *buf = malloc(RACE_BYTES), version = 0, good = 0, tries = 0;
	lune_rmem *r = NULL;

	CHECK(buf);
	while (!ranks_get(FLAG_STOP)) {
		int rc;

		newest(w, &version, &r);
		if (!r)
			continue;
		rc = access_once(r, buf, tries++ % 3 == 0);
		if (rc == LUNE_ERR_STALE || (tries - 1) % 3 == 0) {
			CHECK(rc == LUNE_ERR_STALE || rc == LUNE_OK);
			continue;
		}
		CHECK_OK(rc);
		/* All words of one round, and of that ticket's. */
		for (size_t i = 0; i < RACE_BYTES / 8 - 1; i++)
			CHECK_MSG(buf[i] == version,
				  "word %zu is %llx in round %llu", i,
				  (unsigned long long)buf[i],
				  (unsigned long long)version);
		good++;
	}
	lune_rmem_detach(r);
	ranks_add(6, (uint32_t)good);
	free(buf);
}

static void races_are_never_silently_wrong(struct rma *w)
{
	struct owner o = { .w = w,
			   .rounds = (uint64_t)suite_rounds(1000, 100000) };
	int64_t end = ranks_now_ms() + 3000;

	if (w->route->registered) {
		o.memory = mmap(NULL, RACE_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(o.memory != MAP_FAILED);
	}
	/* Rank n - 1 owns; the one before it (and so on) aim at it. */
	w->to = w->n - 1;
	meet();
	if (w->rank == w->n - 1) {
		for (uint64_t i = 1; i <= o.rounds &&
		     (suite_long() || ranks_now_ms() < end); i++)
			own_once(&o, i);
		ranks_set(FLAG_STOP, 1);
	} else {
		use_what_there_is(w);
	}
	meet();
	if (o.memory)
		munmap(o.memory, RACE_BYTES);
}

/* In one process: threads against release of the context's own memory. */
struct self_race {
	struct rma *w;
	_Atomic bool stop;
};

static void *self_reader(void *arg)
{
	struct self_race *race = arg;
	static _Thread_local uint64_t buf[RACE_BYTES / 8];

	while (!atomic_load(&race->stop)) {
		uint64_t version = 0;
		lune_req *req = NULL;
		lune_rmem *r = NULL;
		int rc;

		if (!newest(race->w, &version, &r))
			continue;
		/* Until it is gone, so that some are in the middle then. */
		do {
			rc = lune_get(r, 0, buf, sizeof(buf),
				      &(struct lune_op){ .req = &req });
			rc = rc ? rc : lune_req_wait(&req, WAIT_MS, NULL);
			for (size_t i = 0; !rc && i < RACE_BYTES / 8; i++)
				CHECK_EQ(buf[i], version);
		} while (!rc && !atomic_load(&race->stop));
		CHECK(!rc || rc == LUNE_ERR_STALE);
		lune_rmem_detach(r);
	}
	return NULL;
}

static void own_memory_is_pinned_while_read(struct rma *w)
{
	struct owner o = { .w = w, .linger = 1 };
	int64_t end = ranks_now_ms() + 2000;
	struct self_race race = { .w = w };
	pthread_t t[2];

	w->to = w->rank;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, self_reader, &race), 0);
	/* A busy machine makes fewer rounds of it, not a longer test. */
	for (uint64_t i = 1; i <= (uint64_t)suite_rounds(200, 50000) &&
	     (suite_long() || ranks_now_ms() < end); i++)
		own_once(&o, i);
	atomic_store(&race.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	meet();
}

/* ---- life of objects --------------------------------------------------- */

static void options_are_checked(struct rma *w)
{
	struct lune_mem_opts o = { .size = sizeof(o), .rights = 8 };
	uint8_t ticket[LUNE_TICKET_MAX];
	lune_mem *mem = NULL;
	lune_rmem *r = NULL;
	size_t bytes = 0;
	char mine[64];

	CHECK_RC(lune_mem_alloc(w->ctx, 64, &o, &mem), LUNE_ERR_INVAL);
	o = (struct lune_mem_opts){ 0 };
	CHECK_RC(lune_mem_alloc(w->ctx, 64, &o, &mem), LUNE_ERR_INVAL);
	CHECK_RC(lune_mem_alloc(w->ctx, 0, NULL, &mem), LUNE_ERR_INVAL);
	CHECK_RC(lune_mem_register(w->ctx, NULL, 64, NULL, &mem),
		 LUNE_ERR_INVAL);
	CHECK_RC(lune_mem_alloc(w->ctx, SIZE_MAX, NULL, &mem), LUNE_ERR_NOMEM);
	CHECK(!mem);
	CHECK_OK(lune_mem_register(w->ctx, mine, 64, NULL, &mem));
	CHECK(lune_mem_addr(mem) == mine);
	CHECK_RC(lune_mem_ticket(mem, ticket, 20, &bytes), LUNE_ERR_LIMIT);
	CHECK_OK(lune_mem_ticket(mem, ticket, sizeof(ticket), &bytes));
	CHECK_RC(lune_rmem_attach(w->ctx, ticket, bytes - 1, &r),
		 LUNE_ERR_INVAL);
	ticket[40] ^= 1;
	CHECK_RC(lune_rmem_attach(w->ctx, ticket, bytes, &r), LUNE_ERR_INVAL);
	CHECK(!r);
	/* The context is not closed over what still exists. */
	CHECK_RC(lune_ctx_close(w->ctx, 1000), LUNE_ERR_BUSY);
	CHECK_OK(lune_mem_release(mem, WAIT_MS));
	lune_rmem_detach(NULL);
	CHECK_OK(lune_mem_release(NULL, 0));
	meet();
}

static void mapped_memory_is_reached_by_pointer(struct rma *w)
{
	struct area a;
	char route[64];
	uint64_t *p;

	area_open(w, 4096, &a);
	CHECK_OK(lune_rmem_route(a.there, WAIT_MS, route, sizeof(route)));
	p = lune_rmem_pointer(a.there, WAIT_MS);
	CHECK_EQ(p != NULL, !strcmp(route, "self") ||
			    !strcmp(route, "shm/map"));
	if (p)
		p[3] = 100 + (uint64_t)w->rank;
	meet();
	if (p)
		CHECK_EQ(((uint64_t *)a.mine)[3], 100 + (uint64_t)w->from);
	area_close(&a);
}

int main(void)
{
	static const struct rma_case cases[] = {
		{ .name = "a released region is refused",
		  .n = 2, .fn = a_released_region_is_refused },
		{ .name = "a late ticket is refused",
		  .n = 2, .fn = a_late_ticket_is_refused },
		{ .name = "races are never silently wrong",
		  .n = 3, .fn = races_are_never_silently_wrong,
		  .timeout_ms = 60000, .not_self = true },
		{ .name = "own memory is pinned while read",
		  .n = 1, .fn = own_memory_is_pinned_while_read,
		  .timeout_ms = 60000 },
		{ .name = "options are checked",
		  .n = 1, .fn = options_are_checked },
		{ .name = "mapped memory is reached by pointer",
		  .n = 2, .fn = mapped_memory_is_reached_by_pointer },
	};

	return suite_run(cases, sizeof(cases) / sizeof(cases[0]));
}
