/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a PMIx launcher (mpirun, srun --mpi=pmix).
 *
 * Two fences: one at open, which carries the job key of rank 0, and one that
 * carries the cards.  After that PMIx is not used until finalize.
 *
 * What launchers do in practice decides the shape:
 *  - Every wait has PMIX_TIMEOUT, and besides is made with the non-blocking
 *    call and our own limit, because not every server honours the attribute.
 *    A call that outlives its limit keeps its memory until it answers.
 *  - A fence that was in flight when a rank died ends with partial success,
 *    one begun later with success: success is no proof of life.  So what
 *    counts is whether each rank's record can be got.
 *  - No events, no groups, no publish: servers lack or wedge on them.
 *  - A process that called PMIx_Init must call PMIx_Finalize, else mpirun takes
 *    its end for a failure and kills the others.  Init that failed must not be
 *    finalized, although PMIx_Initialized says yes.
 *  - JOB_SIZE counts the ranks (UNIV_SIZE and MAX_SIZE count slots).
 *
 * Keys carry the generation, because PMIx keeps what was put for the life of
 * the job and a process may open more than one context.
 *
 * PMIx is initialized once and finalized when the process exits (atexit), not
 * when a context is closed: a process that initializes it a second time is
 * served badly (measured with Open MPI 4.1: records are lost in two runs of
 * three, and the place on the node is not told).  A process that leaves by
 * _exit() is taken for a failure by mpirun, as one with MPI would be.  A
 * forked child does not finalize its parent's session.
 */
#include "boot/internal.h"

#ifdef HAVE_PMIX

#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Time that the server gets over PMIX_TIMEOUT before we stop to wait. */
#define GRACE_MS 2000
/* Limit of asking for a record that should be there already. */
#define GET_MS 5000
#define SEARCH_MS 2000
/* Open MPI's server fails on values of megabytes; stay far below. */
#define VALUE_MAX 32768

_Static_assert(LN_CARD_MAX + 64 < VALUE_MAX, "a card fits a PMIx value");

/* The one session with the server, from the first open to the exit. */
static struct session {
	pthread_mutex_t lock; /* guards the rest while it is set up */
	pid_t pid;	      /* whose session it is; 0: none yet */
	pmix_proc_t me;
} session = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One non-blocking call; the waiter and the callback hold a reference each. */
struct call {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t cond;
	int refs;
	bool done;
	pmix_status_t status;
	size_t len;
	uint64_t number;
	uint8_t bytes[VALUE_MAX];
};

static struct call *call_new(void)
{
	struct call *c = ln_calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->cond, &attr);
	pthread_condattr_destroy(&attr);
	c->refs = 2;
	return c;
}

static void call_unref(struct call *c)
{
	int left;

	pthread_mutex_lock(&c->lock);
	left = --c->refs;
	pthread_mutex_unlock(&c->lock);
	if (left)
		return;
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->lock);
	explicit_bzero(c->bytes, c->len);
	ln_free(c);
}

static void call_answer(struct call *c, pmix_status_t status)
{
	pthread_mutex_lock(&c->lock);
	c->status = status;
	c->done = true;
	pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->lock);
	call_unref(c);
}

static void on_fence(pmix_status_t status, void *arg)
{
	call_answer(arg, status);
}

static bool take_number(struct call *c, const pmix_value_t *v)
{
	switch (v->type) {
	case PMIX_UINT16:
		c->number = v->data.uint16;
		return true;
	case PMIX_UINT32:
		c->number = v->data.uint32;
		return true;
	case PMIX_PROC_RANK:
		c->number = v->data.rank;
		return true;
	case PMIX_INT:
		c->number = v->data.integer < 0 ? 0 : (unsigned)v->data.integer;
		return true;
	case PMIX_SIZE:
		c->number = v->data.size;
		return true;
	default:
		return false;
	}
}

static pmix_status_t take_value(struct call *c, const pmix_value_t *v)
{
	const pmix_byte_object_t *o = &v->data.bo;

	if (v->type != PMIX_BYTE_OBJECT)
		return take_number(c, v) ? PMIX_SUCCESS : PMIX_ERR_BAD_PARAM;
	if (!o->bytes || !o->size || o->size > VALUE_MAX)
		return PMIX_ERR_BAD_PARAM;
	memcpy(c->bytes, o->bytes, o->size);
	c->len = o->size;
	return PMIX_SUCCESS;
}

static void on_get(pmix_status_t status, pmix_value_t *v, void *arg)
{
	struct call *c = arg;

	if (status == PMIX_SUCCESS)
		status = v ? take_value(c, v) : PMIX_ERR_NOT_FOUND;
	call_answer(c, status);
}

/* The call's status; PMIX_ERR_TIMEOUT when it outlived its deadline. */
static pmix_status_t call_wait(struct call *c, uint64_t deadline)
{
	struct timespec t = { .tv_sec = (time_t)(deadline / 1000000000),
			      .tv_nsec = (long)(deadline % 1000000000) };
	pmix_status_t status;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->done && !err)
		err = pthread_cond_timedwait(&c->cond, &c->lock, &t);
	status = c->done ? c->status : PMIX_ERR_TIMEOUT;
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* The attribute counts whole seconds, and 0 would be for ever. */
static void timeout_info(pmix_info_t *info, uint64_t deadline)
{
	int seconds = (ln_deadline_left_ms(deadline) + 999) / 1000;

	seconds = ln_max(seconds, 1);
	PMIX_INFO_LOAD(info, PMIX_TIMEOUT, &seconds, PMIX_INT);
}

/* LN_NEVER does not fit a timespec; a day is as good as never here. */
static uint64_t limit_of(uint64_t deadline, int extra_ms)
{
	uint64_t day = ln_deadline(86400 * 1000, 0);

	deadline = ln_min(deadline, day);
	return deadline + (uint64_t)extra_ms * 1000000;
}

static pmix_status_t fence(uint64_t deadline)
{
	struct call *c = call_new();
	bool collect = true;
	pmix_status_t status;
	pmix_info_t info[2];
	pmix_proc_t all;

	if (!c)
		return PMIX_ERR_NOMEM;
	deadline = limit_of(deadline, 0);
	PMIX_PROC_LOAD(&all, session.me.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	timeout_info(&info[1], deadline);
	status = PMIx_Fence_nb(&all, 1, info, 2, on_fence, c);
	if (status == PMIX_SUCCESS)
		status = call_wait(c, limit_of(deadline, GRACE_MS));
	else
		call_unref(c);
	call_unref(c);
	return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
}

/*
 * What rank put under key; immediate: only what the server has now.  On
 * success *out is to be call_unref'ed.
 */
static pmix_status_t get(pmix_rank_t rank,
			 const char *key, uint64_t deadline, struct call **out)
{
	struct call *c = call_new();
	bool immediate = true;
	pmix_status_t status;
	pmix_info_t info[2];
	pmix_proc_t who;

	if (!c)
		return PMIX_ERR_NOMEM;
	deadline = limit_of(deadline, 0);
	PMIX_PROC_LOAD(&who, session.me.nspace, rank);
	timeout_info(&info[0], deadline);
	PMIX_INFO_LOAD(&info[1], PMIX_IMMEDIATE, &immediate, PMIX_BOOL);
	status = PMIx_Get_nb(&who, key, info, 2, on_get, c);
	if (status == PMIX_SUCCESS)
		status = call_wait(c, limit_of(deadline, GRACE_MS));
	else
		call_unref(c);
	if (status == PMIX_SUCCESS)
		*out = c;
	else
		call_unref(c);
	return status;
}

static int get_number(const char *key, uint64_t deadline,
		      int *out)
{
	struct call *c;
	pmix_status_t status = get(PMIX_RANK_WILDCARD, key, deadline, &c);

	/* Local rank is kept with the process, sizes with the job. */
	if (status != PMIX_SUCCESS)
		status = get(session.me.rank, key, deadline, &c);
	if (status != PMIX_SUCCESS)
		return ln_error(LUNE_ERR_BOOT, "PMIx server: no %s: %s", key,
				PMIx_Error_string(status));
	*out = (int)ln_min(c->number, (uint64_t)INT32_MAX);
	call_unref(c);
	return LUNE_OK;
}

static void key_name(const struct ln_boot *b, const char *what,
		     char out[PMIX_MAX_KEYLEN])
{
	snprintf(out, PMIX_MAX_KEYLEN, "lune.%u.%s", b->generation, what);
}

static int put(const struct ln_boot *b, const char *what, const void *p,
	       size_t len)
{
	/* PMIx copies it, and has no const. */
	pmix_value_t v = { .type = PMIX_BYTE_OBJECT };
	char key[PMIX_MAX_KEYLEN];
	pmix_status_t status;

	v.data.bo.bytes = (char *)p;
	v.data.bo.size = len;
	key_name(b, what, key);
	status = PMIx_Put(PMIX_GLOBAL, key, &v);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	if (status != PMIX_SUCCESS)
		return ln_error(LUNE_ERR_BOOT, "PMIx server: putting %s: %s",
				key, PMIx_Error_string(status));
	return LUNE_OK;
}

/* After a fence that failed: name the ranks whose record is not there. */
static int name_missing(const struct ln_boot *b, const char *key)
{
	uint64_t deadline = ln_deadline(SEARCH_MS, 0);
	bool *there = ln_calloc((size_t)b->info.size, sizeof(*there));
	struct call *c;
	int rc, missing = 0;

	if (!there)
		return LUNE_ERR_NOMEM;
	for (int i = 0; i < b->info.size; i++) {
		there[i] = i == b->info.rank || ln_deadline_passed(deadline);
		if (there[i])
			continue;
		there[i] = get((pmix_rank_t)i, key, deadline, &c) ==
			   PMIX_SUCCESS;
		if (there[i])
			call_unref(c);
		missing += !there[i];
	}
	if (missing)
		rc = ln_ranks_error(LUNE_ERR_TIMEOUT, b, there, "PMIx fence");
	else
		rc = ln_error(LUNE_ERR_TIMEOUT,
			      "the PMIx fence of %d ranks did not end",
			      b->info.size);
	ln_free(there);
	return rc;
}

/* All ranks meet; key names what each has put before. */
static int meet(const struct ln_boot *b, const char *key, uint64_t deadline)
{
	pmix_status_t status = fence(deadline);

	if (status == PMIX_SUCCESS || status == PMIX_ERR_PARTIAL_SUCCESS)
		return LUNE_OK;
	if (status == PMIX_ERR_TIMEOUT)
		return name_missing(b, key);
	return ln_error(LUNE_ERR_BOOT, "PMIx fence of rank %d: %s",
			b->info.rank, PMIx_Error_string(status));
}

static int share_key(struct ln_boot *b, uint64_t deadline)
{
	uint8_t mine[LN_KEY_BYTES] = { 0 };
	char name[PMIX_MAX_KEYLEN];
	pmix_status_t status;
	struct call *c;
	int rc = LUNE_OK;

	/* A rank puts zeroes so that one can tell who was here. */
	if (!b->info.rank && !b->have_key)
		rc = ln_random(mine, sizeof(mine));
	if (!rc)
		rc = put(b, "key", mine, sizeof(mine));
	explicit_bzero(mine, sizeof(mine));
	key_name(b, "key", name);
	if (!rc)
		rc = meet(b, name, deadline);
	if (rc || b->have_key)
		return rc;
	status = get(0, name, ln_deadline(GET_MS, 0), &c);
	if (status != PMIX_SUCCESS)
		return ln_error(LUNE_ERR_BOOT,
				"rank 0 of %d is gone: no job key from the "
				"PMIx server: %s", b->info.size,
				PMIx_Error_string(status));
	if (c->len == LN_KEY_BYTES)
		memcpy(b->info.key, c->bytes, LN_KEY_BYTES);
	else
		rc = ln_error(LUNE_ERR_PROTO, "the PMIx server's job key has "
					      "%zu bytes", c->len);
	call_unref(c);
	return rc;
}

static void end_session(void)
{
	if (session.pid == getpid())
		PMIx_Finalize(NULL, 0);
}

/* Under session.lock. */
static int start_session(void)
{
	pmix_status_t status;

	if (session.pid == getpid())
		return LUNE_OK;
	if (session.pid)
		return ln_error(LUNE_ERR_FORKED, "pmix: this is a forked child "
						 "of a rank");
	status = PMIx_Init(&session.me, NULL, 0);
	if (status != PMIX_SUCCESS)
		return ln_error(LUNE_ERR_BOOT, "PMIx_Init: %s",
				PMIx_Error_string(status));
	if (atexit(end_session)) {
		PMIx_Finalize(NULL, 0);
		return ln_error(LUNE_ERR_NOMEM, "atexit");
	}
	session.pid = getpid();
	return LUNE_OK;
}

static int start(void)
{
	int rc;

	if (!*ln_detect_text("PMIX_NAMESPACE"))
		return ln_error(LUNE_ERR_BOOT, "pmix: PMIX_NAMESPACE is not "
					       "set: start with mpirun, or "
					       "srun --mpi=pmix");
	if (*ln_detect_text("TORCHELASTIC_RUN_ID"))
		return ln_error(LUNE_ERR_BOOT,
				"pmix: the workers of one torchrun share one "
				"PMIX_RANK; use torch:");
	pthread_mutex_lock(&session.lock);
	rc = start_session();
	pthread_mutex_unlock(&session.lock);
	return rc;
}

static int pmix_open(struct ln_boot *b, uint64_t deadline)
{
	struct ln_boot_info *info = &b->info;
	uint64_t soon = ln_deadline(GET_MS, 0);
	int rc = start();

	if (rc)
		return rc;
	soon = ln_min(soon, deadline);
	rc = get_number(PMIX_JOB_SIZE, soon, &info->size);
	if (rc)
		return rc;
	info->rank = (int)ln_min(session.me.rank, (pmix_rank_t)INT32_MAX);
	if (info->size < 1 || info->size > LN_BOOT_SIZE_MAX ||
	    info->rank >= info->size)
		return ln_error(LUNE_ERR_BOOT, "PMIx says rank %u of %d",
				session.me.rank, info->size);
	if (get_number(PMIX_LOCAL_RANK, soon, &info->local_rank) ||
	    get_number(PMIX_LOCAL_SIZE, soon, &info->local_size))
		info->local_rank = info->local_size = -1;
	snprintf(info->job, sizeof(info->job), "%.127s", session.me.nspace);
	return share_key(b, deadline);
}

static int pmix_exchange(struct ln_boot *b, const struct ln_boot_card *mine,
			 uint64_t deadline, struct ln_boot_card *cards)
{
	char name[PMIX_MAX_KEYLEN];
	struct call *c;
	int rc = put(b, "card", mine->bytes, mine->len);

	key_name(b, "card", name);
	if (!rc)
		rc = meet(b, name, deadline);
	for (int i = 0; !rc && i < b->info.size; i++) {
		/* Collected by the fence, so at hand. */
		uint64_t soon = ln_deadline(GET_MS, 0);

		if (get((pmix_rank_t)i, name, soon, &c) !=
		    PMIX_SUCCESS)
			return ln_error(LUNE_ERR_BOOT,
					"rank %d of %d left before the cards "
					"were exchanged (PMIx)", i,
					b->info.size);
		rc = ln_ranks_card(&cards[i], c->bytes, c->len);
		call_unref(c);
	}
	return rc;
}

/*
 * Nothing to leave: the session lasts until the exit.  No fence either; cards
 * are read by then, and a fence is what could hang on a dead rank.
 */
static void pmix_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	(void)b;
	(void)clean;
	(void)deadline;
}

const struct ln_boot_ops ln_pmix_ops = {
	.scheme = "pmix",
	.open = pmix_open,
	.exchange = pmix_exchange,
	.close = pmix_close,
};

#else

static int pmix_open(struct ln_boot *b, uint64_t deadline)
{
	(void)deadline;
	return ln_error(LUNE_ERR_UNSUPPORTED,
			"%s: this build has no PMIx (configure --with-pmix)",
			b->info.url);
}

static void pmix_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	(void)b;
	(void)clean;
	(void)deadline;
}

const struct ln_boot_ops ln_pmix_ops = {
	.scheme = "pmix",
	.open = pmix_open,
	.close = pmix_close,
};

#endif
