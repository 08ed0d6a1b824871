/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where requests come from.
 *
 *	stack 0   head -> 5 -> 2 -> nil      a thread takes from "its" stack;
 *	stack 1   head -> 40 -> nil          a request goes back to the stack it
 *	...                                  was made for, whoever frees it
 *	chunks    [0..31] [32..63] ...       made on demand, kept until close
 *
 * Threads that post meet nobody but the thread that frees, and no lock.  A head
 * is (tag << 32 | number + 1); the tag changes with every exchange, so a head
 * that looks the same is the same (no ABA).  A request that lost its place is
 * still readable, because chunks are never freed before the pool.
 *
 * Limits: CHUNKS_MAX * CHUNK requests.
 */
#include "rt/rt.h"

#define CHUNK 32
#define CHUNKS_MAX 8192
#define STACKS 16

struct stack {
	_Alignas(LN_CACHELINE) _Atomic uint64_t head;
};

struct ln_req_pool {
	struct stack stacks[STACKS];
	lune_ctx *ctx;
	pthread_mutex_t lock; /* one thread makes chunks; a leaf */
	_Atomic uint32_t nchunks;
	struct lune_req *_Atomic chunks[CHUNKS_MAX];
};

static struct lune_req *request(struct ln_req_pool *p, uint32_t number)
{
	struct lune_req *c = atomic_load_explicit(&p->chunks[number / CHUNK],
						  memory_order_acquire);

	return &c[number % CHUNK];
}

static void push(struct ln_req_pool *p, struct stack *s, struct lune_req *req)
{
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	uint64_t next;

	(void)p;
	do {
		atomic_store_explicit(&req->free_next, (uint32_t)head,
				      memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (req->number + 1);
		/* Release: pairs with the acquire of pop. */
	} while (!atomic_compare_exchange_weak_explicit(&s->head, &head, next,
							memory_order_release,
							memory_order_relaxed));
}

static struct lune_req *pop(struct ln_req_pool *p, struct stack *s)
{
	uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
	struct lune_req *req;
	uint64_t next;

	do {
		if (!(uint32_t)head)
			return NULL;
		req = request(p, (uint32_t)head - 1);
		next = ((head >> 32) + 1) << 32 |
		       atomic_load_explicit(&req->free_next,
					    memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&s->head, &head, next,
							memory_order_acquire,
							memory_order_acquire));
	return req;
}

/* Each thread has a stack; many threads share one. */
static uint32_t my_stack(void)
{
	static _Atomic uint32_t counter;
	static _Thread_local uint32_t mine; /* + 1 */

	if (!mine)
		mine = atomic_fetch_add(&counter, 1) % STACKS + 1;
	return mine - 1;
}

static int chunk_make(struct ln_req_pool *p, uint32_t home)
{
	uint32_t n = atomic_load(&p->nchunks);
	struct lune_req *c;

	if (n == CHUNKS_MAX)
		return ln_error(LUNE_ERR_LIMIT, "%d requests are in use",
				CHUNKS_MAX * CHUNK);
	c = ln_alloc_aligned(LN_CACHELINE, CHUNK * sizeof(*c));
	if (!c)
		return LUNE_ERR_NOMEM;
	for (uint32_t i = 0; i < CHUNK; i++) {
		c[i].ctx = p->ctx;
		c[i].number = n * CHUNK + i;
		c[i].home = home;
		c[i].segs_buf = c[i].segs_own;
		c[i].segs_cap = LN_REQ_SEGS;
	}
	atomic_store_explicit(&p->chunks[n], c, memory_order_release);
	atomic_store(&p->nchunks, n + 1);
	for (uint32_t i = 0; i < CHUNK; i++)
		push(p, &p->stacks[home], &c[i]);
	return LUNE_OK;
}

struct lune_req *ln_pool_get(struct ln_req_pool *p)
{
	struct stack *s = &p->stacks[my_stack()];
	struct lune_req *req = pop(p, s);
	int rc = LUNE_OK;

	while (!req && !rc) {
		pthread_mutex_lock(&p->lock);
		req = pop(p, s);
		if (!req)
			rc = chunk_make(p, my_stack());
		pthread_mutex_unlock(&p->lock);
		if (!req && !rc)
			req = pop(p, s);
	}
	/* Out of memory: what another thread's stack has will do. */
	for (int i = 0; !req && i < STACKS; i++)
		req = pop(p, &p->stacks[i]);
	return req;
}

void ln_pool_put(struct ln_req_pool *p, struct lune_req *req)
{
	push(p, &p->stacks[req->home], req);
}

int ln_pool_open(lune_ctx *ctx, struct ln_req_pool **out)
{
	struct ln_req_pool *p = ln_alloc_aligned(LN_CACHELINE, sizeof(*p));

	if (!p)
		return LUNE_ERR_NOMEM;
	p->ctx = ctx;
	pthread_mutex_init(&p->lock, NULL);
	*out = p;
	return LUNE_OK;
}

void ln_pool_close(struct ln_req_pool *p)
{
	struct lune_req *c;

	if (!p)
		return;
	for (uint32_t i = 0; i < atomic_load(&p->nchunks); i++) {
		c = atomic_load(&p->chunks[i]);
		for (int k = 0; k < CHUNK; k++)
			if (c[k].segs_buf != c[k].segs_own)
				ln_free(c[k].segs_buf);
		ln_free(c);
	}
	pthread_mutex_destroy(&p->lock);
	ln_free(p);
}
