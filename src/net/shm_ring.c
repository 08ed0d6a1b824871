/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: data between two processes that can neither map each other's
 * region nor use CMA.  Two copies, pipelined through slots in shared memory:
 *
 *        initiator                             target's progress
 *   put  copy in -> slot ASKED  ------------>  copy to the region -> DONE
 *   get             slot ASKED  ------------>  copy from the region -> DONE
 *        copy out, slot FREE    <------------
 *
 * Slots are used in order.  A put's signal is in the slot of its last piece:
 * the target fires it, when all pieces before were good.  Keys, rights and
 * bounds are checked by the target for each slot.
 *
 * The initiator's side (fill, reap) is under ring->lock; the target's side is
 * the poller's.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include <lune/rma.h>

#include "mem/alloc.h"
#include "net/shm.h"

#define SLOTS 16
#define SLOT_BYTES (128u << 10)

enum { FREE, ASKED, DONE };

/*
 * Both ends may be in one process (tests), where TSan does not see that two
 * mappings are one memory: tell it what the slots' states order.
 */
#if defined(__SANITIZE_THREAD__)
#define TSAN_ON 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN_ON 1
#endif
#endif
#ifdef TSAN_ON
#include <sanitizer/tsan_interface.h>
static char tsan_slots;
#define SLOT_GIVEN() __tsan_release(&tsan_slots)
#define SLOT_TAKEN() __tsan_acquire(&tsan_slots)
#else
#define SLOT_GIVEN() ((void)0)
#define SLOT_TAKEN() ((void)0)
#endif

#define SLOT_PUT 1u
#define SLOT_LAST 2u
#define SLOT_SIGNAL 4u

struct slot {
	_Alignas(LN_CACHELINE) _Atomic uint32_t state;
	uint32_t flags;
	uint64_t op; /* counts operations: pieces of one have the same */
	uint64_t key, offset, bytes;
	uint64_t sig_key, sig_offset, sig_value;
	int32_t sig_how, code;
};

struct shared {
	struct slot slots[SLOTS];
	_Alignas(4096) char data[SLOTS][SLOT_BYTES];
};

/* One direction: `ours` has out, the target's view is in. */
struct shm_ring {
	struct shared *mem;
	/* Initiator. */
	pthread_mutex_t lock;
	bool closed;	     /* the peer is down */
	struct ln_op *queue; /* utlist: not all pieces in slots yet */
	struct ln_op *owner[SLOTS];
	/* What was asked for: the peer can change the slots. */
	uint64_t owner_at[SLOTS], owner_seg[SLOTS], owner_bytes[SLOTS];
	uint64_t filled, reaped, ops;
	/* Target. */
	uint64_t served, current;
	int current_code;
};

/* ---- the initiator ------------------------------------------------------- */

static void slot_describe(struct shm_ring *g, struct ln_op *op,
			  const struct ln_seg *s, uint64_t n)
{
	struct slot *t = &g->mem->slots[g->filled % SLOTS];

	t->op = op->id;
	t->flags = op->kind == LN_OP_PUT ? SLOT_PUT : 0;
	t->key = s ? s->rmem->key : 0;
	t->offset = s ? s->offset + op->at_byte : 0;
	t->bytes = n;
	t->code = LUNE_OK;
	if (s && (t->flags & SLOT_PUT) && n)
		memcpy(g->mem->data[g->filled % SLOTS], s->local + op->at_byte,
		       n);
	g->owner[g->filled % SLOTS] = op;
	g->owner_seg[g->filled % SLOTS] = op->at_seg;
	g->owner_at[g->filled % SLOTS] = op->at_byte;
	g->owner_bytes[g->filled % SLOTS] = n;
}

static void slot_last(struct shm_ring *g, const struct ln_op *op)
{
	struct slot *t = &g->mem->slots[g->filled % SLOTS];

	t->flags |= SLOT_LAST;
	if (!op->sig_rmem)
		return;
	t->flags |= SLOT_SIGNAL;
	t->sig_key = op->sig_rmem->key;
	t->sig_offset = op->sig_offset;
	t->sig_value = op->sig_value;
	t->sig_how = op->sig_how;
}

/* Put the next piece of the first operation into a free slot. */
static bool fill_one(struct shm_ring *g)
{
	struct ln_op *op = g->queue;
	const struct ln_seg *s;
	uint64_t n;

	if (!op || g->filled - g->reaped == SLOTS)
		return false;
	s = op->at_seg < op->nsegs ? &op->segs[op->at_seg] : NULL;
	n = s ? ln_min(s->bytes - op->at_byte, (uint64_t)SLOT_BYTES) : 0;
	slot_describe(g, op, s, n);
	op->at_byte += n;
	if (s && op->at_byte == s->bytes) {
		op->at_seg++;
		op->at_byte = 0;
	}
	op->outstanding++;
	if (op->at_seg >= op->nsegs) {
		slot_last(g, op);
		DL_DELETE(g->queue, op);
	}
	SLOT_GIVEN();
	atomic_store_explicit(&g->mem->slots[g->filled % SLOTS].state, ASKED,
			      memory_order_release);
	g->filled++;
	return true;
}

static void reap_one(struct shm_ring *g, struct ln_op **finished)
{
	unsigned i = g->reaped % SLOTS;
	struct slot *t = &g->mem->slots[i];
	struct ln_op *op = g->owner[i];
	uint64_t n = g->owner_bytes[i];
	int code = ln_min(t->code, 0);

	SLOT_TAKEN();
	if (code && !op->code) {
		op->code = code;
		op->index = g->owner_seg[i];
	}
	/* What is behind the first failure does not count. */
	if (!op->code) {
		if (op->kind == LN_OP_GET && n)
			memcpy(op->segs[g->owner_seg[i]].local +
				       g->owner_at[i],
			       g->mem->data[i], n);
		op->bytes += n;
	}
	op->outstanding--;
	if (op->at_seg >= op->nsegs && !op->outstanding)
		DL_APPEND(*finished, op);
	atomic_store_explicit(&t->state, FREE, memory_order_relaxed);
	g->reaped++;
}

static void ring_bell(struct shm_peer *sp)
{
	ln_doorbell_ring(&sp->ctl->bell, sp->evfd);
}

/* Fill and reap what can be; operations that ended are reported. */
static int pump(struct shm_peer *sp, struct shm_ring *g)
{
	struct ln_op *finished = NULL, *op, *tmp;
	int n = 0, filled = 0;

	pthread_mutex_lock(&g->lock);
	while (g->reaped < g->filled &&
	       atomic_load_explicit(&g->mem->slots[g->reaped % SLOTS].state,
				    memory_order_acquire) == DONE) {
		reap_one(g, &finished);
		n++;
	}
	while (fill_one(g))
		filled++;
	pthread_mutex_unlock(&g->lock);
	if (filled)
		ring_bell(sp);
	DL_FOREACH_SAFE(finished, op, tmp) {
		DL_DELETE(finished, op);
		ln_op_finish(op, op->code, op->bytes,
			     op->code ? op->index : 0);
	}
	return n + filled;
}

int shm_ring_post(struct shm_peer *sp, struct ln_op *op)
{
	struct shm_ring *g = atomic_load(&sp->out);
	bool closed;

	op->at_seg = op->at_byte = op->outstanding = 0;
	op->bytes = op->index = 0;
	op->code = LUNE_OK;
	pthread_mutex_lock(&g->lock);
	closed = g->closed;
	if (!closed) {
		op->id = ++g->ops;
		DL_APPEND(g->queue, op);
	}
	pthread_mutex_unlock(&g->lock);
	if (closed)
		return LUNE_ERR_PEER;
	pump(sp, g);
	return LUNE_OK;
}

/* Only what has not begun can be taken back. */
void shm_ring_cancel(struct shm_peer *sp, struct ln_op *op)
{
	struct shm_ring *g = atomic_load(&sp->out);
	bool taken = false;
	struct ln_op *q;

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	DL_FOREACH(g->queue, q)
		if (q == op)
			taken = !op->at_seg && !op->at_byte &&
				!op->outstanding;
	if (taken)
		DL_DELETE(g->queue, op);
	pthread_mutex_unlock(&g->lock);
	if (taken)
		ln_op_finish(op, LUNE_ERR_CANCELED, 0, 0);
}

/* ---- the target ---------------------------------------------------------- */

static int slot_copy(struct ln_net *net, struct slot *t, char *data)
{
	struct ln_access a = { .key = t->key, .offset = t->offset,
			       .bytes = t->bytes };
	struct ln_region *r;
	char *addr;
	int rc;

	if (t->bytes > SLOT_BYTES)
		return LUNE_ERR_BOUNDS;
	if (!t->key)
		return LUNE_OK; /* a signal alone */
	a.rights = t->flags & SLOT_PUT ? LUNE_MEM_WRITE : LUNE_MEM_READ;
	rc = ln_mem_pin(net->mem, &a, &r, &addr);
	if (rc)
		return rc;
	if (t->bytes && (t->flags & SLOT_PUT))
		memcpy(addr, data, t->bytes);
	else if (t->bytes)
		memcpy(data, addr, t->bytes);
	ln_mem_unpin(r);
	ln_count(net->counters, ring_bytes, t->bytes);
	return LUNE_OK;
}

static int slot_signal(struct ln_net *net, const struct slot *t)
{
	struct ln_access a = { t->sig_key, t->sig_offset, 8, LUNE_MEM_ATOMIC };
	struct ln_region *r;
	char *addr;
	int rc = ln_mem_pin(net->mem, &a, &r, &addr);

	if (rc)
		return rc;
	if ((uintptr_t)addr % 8)
		rc = ln_error(LUNE_ERR_INVAL, "a signal's word is not aligned");
	else
		ln_word_signal(addr, t->sig_how, t->sig_value);
	ln_mem_unpin(r);
	ln_net_event(net);
	return rc;
}

static void serve_one(struct ln_net *net, struct shm_ring *g)
{
	struct slot *t = &g->mem->slots[g->served % SLOTS];
	/* The peer may write there at any time: judge a copy. */
	struct slot d;

	SLOT_TAKEN();
	memcpy(&d, t, sizeof(d));
	if (d.op != g->current) {
		g->current = d.op;
		g->current_code = LUNE_OK;
	}
	/* Nothing of an operation is touched behind its first failure. */
	if (!g->current_code) {
		d.code = slot_copy(net, &d, g->mem->data[g->served % SLOTS]);
		if (!d.code && (d.flags & SLOT_LAST) && (d.flags & SLOT_SIGNAL))
			d.code = slot_signal(net, &d);
		if (d.code == LUNE_ERR_STALE)
			ln_count(net->counters, refused_stale, 1);
		else if (d.code)
			ln_count(net->counters, refused_access, 1);
		g->current_code = d.code;
	}
	t->code = g->current_code;
	SLOT_GIVEN();
	atomic_store_explicit(&t->state, DONE, memory_order_release);
	g->served++;
}

static int serve(struct shm_peer *sp, struct shm_ring *g)
{
	int n = 0;

	while (n < SLOTS &&
	       atomic_load_explicit(&g->mem->slots[g->served % SLOTS].state,
				    memory_order_acquire) == ASKED) {
		serve_one(sp->peer->net, g);
		n++;
	}
	if (n)
		ring_bell(sp);
	return n;
}

int shm_ring_progress(struct shm_peer *sp)
{
	struct shm_ring *in = atomic_load(&sp->in);
	struct shm_ring *out = atomic_load(&sp->out);
	int n = 0;

	if (in)
		n += serve(sp, in);
	if (out)
		n += pump(sp, out);
	return n;
}

/* ---- life ---------------------------------------------------------------- */

static struct shm_ring *ring_new(struct shared *mem)
{
	struct shm_ring *g = ln_calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->mem = mem;
	pthread_mutex_init(&g->lock, NULL);
	return g;
}

int shm_ring_open(struct shm_peer *sp)
{
	struct shm_tp *tp = shm_of(sp->peer->net);
	struct ln_frame f = { .type = SHM_FRAME_RING };
	struct shm_ring *g;
	void *mem;
	int fd, rc;

	if (atomic_load(&sp->out))
		return LUNE_OK;
	rc = ln_alloc_shared("lune-ring", sizeof(struct shared), &fd, &mem);
	if (rc)
		return rc;
	g = ring_new(mem);
	rc = g ? ln_link_send(sp->peer, &f, NULL, fd) : LUNE_ERR_NOMEM;
	close(fd);
	if (rc) {
		munmap(mem, sizeof(struct shared));
		ln_free(g);
		return rc;
	}
	atomic_fetch_add(&tp->rings, 1);
	atomic_store(&sp->out, g);
	return LUNE_OK;
}

int shm_ring_arrived(struct ln_peer *p, const struct ln_frame *f,
		     const void *body, int fd)
{
	struct shm_peer *sp = shm_peer_of(p);
	struct shm_ring *g = NULL;
	struct stat st;
	void *mem = MAP_FAILED;

	(void)f;
	(void)body;
	if (sp && !atomic_load(&sp->in) && fd >= 0 && !fstat(fd, &st) &&
	    (size_t)st.st_size >= sizeof(struct shared))
		mem = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (mem == MAP_FAILED)
		return ln_error(LUNE_ERR_PROTO, "the peer's ring is not one");
	g = ring_new(mem);
	if (!g) {
		munmap(mem, sizeof(struct shared));
		return LUNE_ERR_NOMEM;
	}
	atomic_fetch_add(&shm_of(p->net)->rings, 1);
	atomic_store(&sp->in, g);
	return LUNE_OK;
}

/* Every operation that the ring holds: queued, or in slots. */
static struct ln_op *take_all(struct shm_ring *g)
{
	struct ln_op *all, *q;

	pthread_mutex_lock(&g->lock);
	g->closed = true;
	all = g->queue;
	g->queue = NULL;
	for (; g->reaped < g->filled; g->reaped++) {
		struct ln_op *op = g->owner[g->reaped % SLOTS];
		bool known = false;

		DL_FOREACH(all, q)
			known |= q == op;
		if (!known)
			DL_APPEND(all, op);
	}
	pthread_mutex_unlock(&g->lock);
	return all;
}

void shm_ring_down(struct shm_peer *sp, int code)
{
	struct shm_ring *out = atomic_load(&sp->out);
	struct ln_op *all = NULL, *op, *tmp;

	if (out)
		all = take_all(out);
	DL_FOREACH_SAFE(all, op, tmp) {
		DL_DELETE(all, op);
		ln_op_finish(op, code, op->bytes, 0);
	}
}

static void ring_free(struct shm_tp *tp, struct shm_ring *g)
{
	if (!g)
		return;
	munmap(g->mem, sizeof(struct shared));
	pthread_mutex_destroy(&g->lock);
	ln_free(g);
	atomic_fetch_sub(&tp->rings, 1);
}

void shm_ring_free(struct shm_tp *tp, struct shm_peer *sp)
{
	ring_free(tp, atomic_load(&sp->in));
	ring_free(tp, atomic_load(&sp->out));
}
