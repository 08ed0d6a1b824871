/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross memory attach: the initiator copies between address spaces with
 * process_vm_readv and process_vm_writev, whole lists in a call.
 *
 * Release against late access.  The owner must not give the memory back while
 * a peer may be inside such a call:
 *
 *   peer:  line.keys[k] = key;  fence;  generation still good?  copy;  0
 *   owner: generation + 1;  fence;  wait until no line names the key
 *
 * Both are seq_cst, so either the peer sees the new generation or the owner
 * sees the key.  The lines lie in the owner's control memory, one per peer;
 * what a dead process left there is cleared once the process is really gone
 * (a stopped one may go on with its copy at any time).  For the same reason a
 * line whose peer is down goes to another process only then; contexts of one
 * process may share it, because each clears only what it wrote.  A peer whose
 * pid is not visible here (another pid namespace) cannot be seen to exit, and
 * is told not to use CMA.
 *
 * Limits: the pid is the peer's address.  If it dies and its pid is used
 * again before the control connection is seen to close, a copy could hit the
 * new process, as with every user of CMA.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "net/shm.h"

#define CALL_BYTES_MAX 0x7ffff000u /* the kernel's limit for one call */
#define CALL_SEGS IOV_MAX
#define FENCE_SLEEP_NS 50000

void shm_cma_probe(struct shm_tp *tp, struct shm_peer *sp)
{
	uint64_t seen = 0;
	struct iovec local = { &seen, sizeof(seen) };
	struct iovec remote = { (void *)(uintptr_t)sp->cookie_addr,
				sizeof(seen) };
	ssize_t n = process_vm_readv(sp->pid, &local, 1, &remote, 1, 0);

	if (n == sizeof(seen) && seen == sp->ctl->cookie) {
		atomic_store(&sp->cma, 1);
		return;
	}
	if (tp->allowed[SHM_CMA] && !atomic_exchange(&tp->told, true))
		ln_warn("reading a peer's memory directly (CMA) is not allowed "
			"here (%s): ptrace_scope, seccomp or namespaces; "
			"using %s", n < 0 ? strerror(errno) :
					    "another process answered",
			tp->allowed[SHM_RING] ? "the ring" : "the socket");
}

/* ---- lines --------------------------------------------------------------- */

static bool process_gone(const struct shm_owner *o)
{
	struct pollfd p = { .fd = o->pidfd, .events = POLLIN };

	if (o->pidfd >= 0)
		return poll(&p, 1, 0) == 1;
	return o->pid > 0 && kill(o->pid, 0) && errno == ESRCH;
}

static void line_free(struct shm_tp *tp, int i)
{
	struct shm_owner *o = &tp->owners[i];

	for (int k = 0; k < SHM_LINE_KEYS; k++)
		atomic_store(&tp->ctl->lines[i].keys[k], 0);
	if (o->pidfd >= 0)
		close(o->pidfd);
	*o = (struct shm_owner){ .pidfd = -1 };
}

static void line_collect(struct shm_tp *tp, int i)
{
	struct shm_owner *o = &tp->owners[i];

	/* Without a pid nobody wrote there: see send_ours. */
	if (o->used && o->orphan && (o->pid <= 0 || process_gone(o)))
		line_free(tp, i);
}

/* A line of our control memory for a peer; -1: all are taken. */
int shm_line_take(struct shm_tp *tp, const struct shm_peer *sp)
{
	struct shm_owner *o;
	int line = -1;

	for (int i = 0; i < SHM_LINES; i++) {
		line_collect(tp, i);
		o = &tp->owners[i];
		if (o->used && o->orphan && o->pid == sp->pid) {
			o->orphan = false;
			return i;
		}
		if (!o->used && line < 0)
			line = i;
	}
	if (line < 0)
		return -1;
	o = &tp->owners[line];
	*o = (struct shm_owner){ .used = true, .pid = sp->pid, .pidfd = -1 };
#ifdef SYS_pidfd_open
	if (sp->pid > 0)
		o->pidfd = (int)syscall(SYS_pidfd_open, sp->pid, 0);
#endif
	return line;
}

void shm_line_drop(struct shm_tp *tp, struct shm_peer *sp)
{
	if (sp->their_line < 0)
		return;
	tp->owners[sp->their_line].orphan = true;
	line_collect(tp, sp->their_line);
	sp->their_line = -1;
}

static int fence_holder(struct shm_tp *tp, uint64_t key)
{
	int holder = -1;

	pthread_mutex_lock(&tp->lock);
	for (int i = 0; i < SHM_LINES && holder < 0; i++) {
		line_collect(tp, i);
		for (int k = 0; k < SHM_LINE_KEYS && tp->owners[i].used; k++)
			if (atomic_load(&tp->ctl->lines[i].keys[k]) == key)
				holder = i;
	}
	pthread_mutex_unlock(&tp->lock);
	return holder;
}

int shm_cma_fence(struct ln_net *net, struct ln_region *r, uint64_t deadline)
{
	struct timespec pause = { .tv_nsec = FENCE_SLEEP_NS };
	struct shm_tp *tp = shm_of(net);
	int holder;

	atomic_thread_fence(memory_order_seq_cst);
	while ((holder = fence_holder(tp, r->key)) >= 0) {
		if (ln_deadline_passed(deadline))
			return ln_error(LUNE_ERR_TIMEOUT,
					"process %d is in the middle of an "
					"access to the memory (is it stopped?)",
					tp->owners[holder].pid);
		nanosleep(&pause, NULL);
	}
	return LUNE_OK;
}

/* ---- copying ------------------------------------------------------------- */

/* Publish the key in our line of the owner's control memory. */
static _Atomic uint64_t *hazard_take(struct shm_peer *sp, uint64_t key)
{
	struct shm_line *l = &sp->ctl->lines[sp->line];

	for (unsigned i = 0;; i++) {
		_Atomic uint64_t *k = &l->keys[i % SHM_LINE_KEYS];
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(k, &none, key))
			return k;
		if (i % SHM_LINE_KEYS == SHM_LINE_KEYS - 1)
			sched_yield(); /* more threads than keys */
	}
}

/* Where the copy stands: segment, and byte in it. */
struct place {
	uint32_t seg;
	uint64_t byte;
};

struct call {
	struct iovec local[CALL_SEGS], remote[CALL_SEGS];
	int n;
	uint64_t bytes;
};

static void call_build(struct call *c, const struct ln_op *op,
		       const struct place *from)
{
	const struct ln_rmem *r = op->segs[from->seg].rmem;
	uint64_t byte = from->byte;

	c->n = 0;
	c->bytes = 0;
	for (uint32_t i = from->seg; i < op->nsegs && c->n < CALL_SEGS &&
				     op->segs[i].rmem == r &&
				     c->bytes < CALL_BYTES_MAX;
	     i++, byte = 0) {
		const struct ln_seg *s = &op->segs[i];
		uint64_t n = ln_min(s->bytes - byte,
				    (uint64_t)CALL_BYTES_MAX - c->bytes);

		c->local[c->n].iov_base = s->local + byte;
		c->remote[c->n].iov_base =
			(char *)(uintptr_t)(r->base + s->offset + byte);
		c->local[c->n].iov_len = n;
		c->remote[c->n++].iov_len = n;
		c->bytes += n;
	}
}

/* n bytes were moved; empty segments are passed over. */
static void place_advance(struct place *p, const struct ln_op *op, uint64_t n)
{
	const struct ln_rmem *r = op->segs[p->seg].rmem;

	while (p->seg < op->nsegs && op->segs[p->seg].rmem == r) {
		uint64_t left = op->segs[p->seg].bytes - p->byte;

		if (n < left) {
			p->byte += n;
			return;
		}
		n -= left;
		p->seg++;
		p->byte = 0;
	}
}

static int cma_error(const struct ln_op *op, struct shm_peer *sp)
{
	if (errno == ESRCH)
		return ln_error(LUNE_ERR_PEER, "process %d is gone", sp->pid);
	if (errno == EFAULT)
		return ln_error(LUNE_ERR_INVAL,
				"memory of an operation is not mapped, here or "
				"at the peer");
	if (errno != EPERM && errno != ENOSYS)
		return ln_error_errno(LUNE_ERR_SYSTEM, "process_vm_%s",
				      op->kind == LN_OP_PUT ? "writev"
							    : "readv");
	/* It worked when the route was chosen: the socket goes on. */
	if (atomic_exchange(&sp->cma, 0))
		ln_warn("CMA is not allowed any more (%s); using the socket",
			strerror(errno));
	return ln_error_errno(LUNE_ERR_UNSUPPORTED, "process_vm_%s",
			      op->kind == LN_OP_PUT ? "writev" : "readv");
}

static ssize_t call_run(const struct call *c, const struct ln_op *op,
			const struct shm_peer *sp)
{
	unsigned long n = (unsigned long)c->n;
	ssize_t done;

	if (!c->bytes)
		return 0;
	if (op->kind == LN_OP_PUT)
		done = process_vm_writev(sp->pid, c->local, n, c->remote, n, 0);
	else
		done = process_vm_readv(sp->pid, c->local, n, c->remote, n, 0);
	if (done == 0) {
		errno = EFAULT;
		return -1;
	}
	return done;
}

static int cma_calls(struct ln_op *op, struct shm_peer *sp, struct place *p,
		     uint64_t *bytes)
{
	const struct ln_rmem *r = op->segs[p->seg].rmem;
	struct call c;

	while (p->seg < op->nsegs && op->segs[p->seg].rmem == r) {
		ssize_t n;

		if (atomic_load_explicit(&op->canceled, memory_order_relaxed))
			return ln_error(LUNE_ERR_CANCELED, "canceled");
		call_build(&c, op, p);
		n = call_run(&c, op, sp);
		if (n < 0)
			return cma_error(op, sp);
		*bytes += (uint64_t)n;
		place_advance(p, op, (uint64_t)n);
		/* Only empty segments: place_advance passed them. */
	}
	return LUNE_OK;
}

int shm_cma_copy(struct ln_op *op, uint32_t *at, uint64_t *bytes)
{
	struct ln_rmem *r = op->segs[*at].rmem;
	struct shm_peer *sp = shm_rmem_peer(r);
	_Atomic uint64_t *hazard = hazard_take(sp, r->key);
	struct place p = { *at, 0 };
	uint64_t before = *bytes;
	int rc;

	if (atomic_load(r->gen) != r->gen_want)
		rc = ln_error(LUNE_ERR_STALE, "the region was released");
	else
		rc = cma_calls(op, sp, &p, bytes);
	/*
	 * What was read while the key stood here was the region's: the owner
	 * waits.  But if it gave up waiting, it must be told.
	 */
	if (!rc && atomic_load(r->gen) != r->gen_want)
		rc = ln_error(LUNE_ERR_STALE, "the region was released");
	atomic_store_explicit(hazard, 0, memory_order_release);
	*at = p.seg;
	ln_count(op->peer->net->counters, cma_bytes, *bytes - before);
	return rc;
}
