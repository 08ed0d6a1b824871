/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's half forks the ranks, reaps them, restarts them on request and
 * enforces the deadline; the ranks' half works on one shared page.
 *
 * Invariants:
 *  1. Only the parent writes a slot's state, pid and incarnation; a rank that
 *     wants another one restarted asks by `restart` and SIGUSR1.
 *  2. No wait outlasts the run: the ranks' waits end a little before the
 *     parent's deadline, so that they can say what they waited for.
 *  3. Every rank dies with the parent (PR_SET_PDEATHSIG) and leads its own
 *     process group, so that what it started dies with it.
 */
#include "tests/harness/ranks.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/report.h"

#define MS 1000000u
#define DEFAULT_MS 30000
#define GRACE_MS 2000 /* for the others, when one rank has failed */

struct page {
	int n, parent;
	uint64_t deadline, wait_deadline; /* monotonic ns */
	struct slot slot[RANKS_MAX + 1];  /* the last is control's */
	_Atomic uint32_t flag[RANKS_FLAGS];
	_Atomic uint32_t barrier[RANKS_FLAGS];
	_Alignas(4096) uint8_t scratch[RANKS_SCRATCH_BYTES];
};

static struct page *page; /* of the run in progress */
static int my_rank, my_incarnation;
static bool in_rank;

/* ---- time and futexes ------------------------------------------------------ */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int64_t ranks_now_ms(void)
{
	return (int64_t)(now_ns() / MS);
}

int ranks_scale(void)
{
	const char *s = getenv("LUNE_TEST_SCALE");
	int scale = s ? atoi(s) : 1;

	if (scale < 1)
		scale = 1;
#if defined(__SANITIZE_THREAD__)
	scale *= 6;
#elif defined(__SANITIZE_ADDRESS__)
	scale *= 3;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	scale *= 6;
#elif __has_feature(address_sanitizer)
	scale *= 3;
#endif
#endif
	return scale;
}

static void wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep while *word is seen; false when the deadline has passed. */
static bool sleep_on(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
	uint64_t now = now_ns();
	struct timespec ts;

	if (now >= deadline)
		return false;
	ts.tv_sec = (time_t)((deadline - now) / 1000000000u);
	ts.tv_nsec = (long)((deadline - now) % 1000000000u);
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0);
	return true;
}

static bool wait_at_least(_Atomic uint32_t *word, uint32_t value,
			  uint64_t deadline)
{
	for (;;) {
		uint32_t seen = atomic_load(word);

		if (seen >= value)
			return true;
		if (!sleep_on(word, seen, deadline))
			return false;
	}
}

/* ---- inside a rank --------------------------------------------------------- */

static struct slot *slot_of(int rank)
{
	return &page->slot[rank == RANKS_CONTROL ? RANKS_MAX : rank];
}

void ranks_fail(const char *file, int line, const char *fmt, ...)
{
	struct slot *s = in_rank ? slot_of(my_rank) : NULL;
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fflush(NULL);
	if (!s) {
		fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
		exit(1);
	}
	if (!atomic_exchange(&s->failed, true))
		snprintf(s->message, sizeof(s->message),
			 "%s:%d: check failed: %s", file, line, text);
	_exit(1);
}

int ranks_rank(void)
{
	return my_rank;
}

int ranks_size(void)
{
	return page->n;
}

int ranks_incarnation(void)
{
	return my_incarnation;
}

void *ranks_scratch(void)
{
	return page->scratch;
}

void ranks_barrier_at(unsigned id, int count, const char *file, int line)
{
	_Atomic uint32_t *word = &page->barrier[id];
	uint32_t mine = atomic_fetch_add(word, 1);
	uint32_t full = (mine / (uint32_t)count + 1) * (uint32_t)count;

	wake(word);
	if (!wait_at_least(word, full, page->wait_deadline))
		ranks_fail(file, line, "barrier %u: %u of %d came before the "
			   "deadline", id, count - (full - atomic_load(word)),
			   count);
}

void ranks_set(unsigned flag, uint32_t value)
{
	atomic_store(&page->flag[flag], value);
	wake(&page->flag[flag]);
}

uint32_t ranks_add(unsigned flag, uint32_t value)
{
	uint32_t sum = atomic_fetch_add(&page->flag[flag], value) + value;

	wake(&page->flag[flag]);
	return sum;
}

uint32_t ranks_get(unsigned flag)
{
	return atomic_load(&page->flag[flag]);
}

void ranks_wait_at(unsigned flag, uint32_t value, const char *file, int line)
{
	if (!wait_at_least(&page->flag[flag], value, page->wait_deadline))
		ranks_fail(file, line, "flag %u is %u, not %u, at the deadline",
			   flag, ranks_get(flag), value);
}

bool ranks_wait_ms(unsigned flag, uint32_t value, int timeout_ms)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * MS;

	if (deadline > page->wait_deadline)
		deadline = page->wait_deadline;
	return wait_at_least(&page->flag[flag], value, deadline);
}

int ranks_pid(int rank)
{
	return atomic_load(&slot_of(rank)->pid);
}

bool ranks_running(int rank)
{
	return atomic_load(&slot_of(rank)->state) == SLOT_RUNS;
}

static void await_start(int rank)
{
	if (!wait_at_least(&slot_of(rank)->incarnation, 1,
			   page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d does not start", rank);
}

void ranks_kill(int rank)
{
	struct slot *s = slot_of(rank);

	/* The parent may still be forking it. */
	await_start(rank);
	atomic_store(&s->killed, true);
	if (!ranks_running(rank))
		return;
	kill(ranks_pid(rank), SIGKILL);
	if (!wait_at_least(&s->state, SLOT_ENDED, page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d does not die", rank);
}

void ranks_stop(int rank)
{
	await_start(rank);
	atomic_store(&slot_of(rank)->stopped, true);
	kill(ranks_pid(rank), SIGSTOP);
}

void ranks_continue(int rank)
{
	kill(ranks_pid(rank), SIGCONT);
	atomic_store(&slot_of(rank)->stopped, false);
}

void ranks_restart(int rank)
{
	struct slot *s = slot_of(rank);
	uint32_t next;

	await_start(rank);
	next = atomic_load(&s->incarnation) + 1;
	atomic_store(&s->killed, true);
	atomic_store(&s->restart, true);
	kill(page->parent, SIGUSR1);
	if (!wait_at_least(&s->incarnation, next, page->wait_deadline))
		ranks_fail(__FILE__, __LINE__, "rank %d was not restarted",
			   rank);
}

/* ---- ports ----------------------------------------------------------------- */

/*
 * A port stays ours while a socket is bound to it that does not listen: the
 * kernel gives it to nobody else, but a server with SO_REUSEADDR may bind it.
 */
static int reserve_port(int *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&sin, len) ||
	    getsockname(fd, (struct sockaddr *)&sin, &len))
		ranks_fail(__FILE__, __LINE__, "no free port: %s",
			   strerror(errno));
	*port = ntohs(sin.sin_port);
	return fd;
}

int ranks_free_port(void)
{
	int port;

	reserve_port(&port);
	return port;
}

/* ---- the parent ------------------------------------------------------------ */

struct run {
	const struct ranks_opts *o;
	struct page *page;
	FILE *output[RANKS_MAX + 1];
	sigset_t waits, old_mask;
	int port, port_fd;
	uint64_t grace_end; /* when one has failed: the others' end */
	bool timed_out;
};

/*
 * The handlers from before main(): a sanitizer's or the system's.  cmocka
 * puts its own in place, which must not catch the crash of a rank.
 */
static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS };
static struct sigaction crash_actions[5];

__attribute__((constructor)) static void save_handlers(void)
{
	for (int i = 0; i < 5; i++)
		sigaction(crash_signals[i], NULL, &crash_actions[i]);
}

/* Set NAME=value with {rank} replaced, or unset NAME. */
static void set_env(const char *entry, int rank)
{
	const char *eq = strchr(entry, '='), *at;
	char name[128], value[4096];

	if (!eq) {
		unsetenv(entry);
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(eq - entry), entry);
	at = strstr(eq + 1, "{rank}");
	if (at)
		snprintf(value, sizeof(value), "%.*s%d%s",
			 (int)(at - eq - 1), eq + 1, rank, at + 6);
	else
		snprintf(value, sizeof(value), "%s", eq + 1);
	setenv(name, value, 1);
}

static void child_env(const struct run *r, int rank)
{
	char url[128];

	if (rank != RANKS_CONTROL) {
		snprintf(url, sizeof(url),
			 "tcp://127.0.0.1:%d?rank=%d&size=%d", r->port, rank,
			 r->o->n);
		setenv("LUNE_BOOTSTRAP", url, 1);
	}
	for (const char *const *e = r->o->env; e && *e; e++) {
		char *end;
		long only = strtol(*e, &end, 10);

		if (end == *e || *end != ':')
			set_env(*e, rank);
		else if (only == rank)
			set_env(end + 1, rank);
	}
}

_Noreturn static void child(const struct run *r, int rank)
{
	ranks_fn *fn = rank == RANKS_CONTROL ? r->o->control : r->o->fn;
	FILE *out = r->output[rank == RANKS_CONTROL ? RANKS_MAX : rank];
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != r->page->parent)
		_exit(1);
	setpgid(0, 0);
	for (int i = 0; i < 5; i++)
		sigaction(crash_signals[i], &crash_actions[i], NULL);
	if (out) {
		dup2(fileno(out), STDOUT_FILENO);
		dup2(fileno(out), STDERR_FILENO);
	}
	close(r->port_fd);
	my_rank = rank;
	in_rank = true;
	child_env(r, rank);
	sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
	rc = fn(rank, r->o->n, r->o->arg);
	if (rc)
		ranks_fail(__FILE__, __LINE__, "returned %d", rc);
	/* Not _exit: a sanitizer looks for leaks, coverage is written. */
	exit(0);
}

static void spawn(struct run *r, int rank)
{
	struct slot *s = slot_of(rank);
	int pid;

	fflush(NULL);
	atomic_store(&s->killed, false);
	atomic_store(&s->stopped, false);
	my_incarnation = (int)atomic_load(&s->incarnation);
	pid = fork();
	if (pid < 0)
		ranks_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
	if (!pid)
		child(r, rank);
	setpgid(pid, pid);
	atomic_store(&s->pid, pid);
	atomic_store(&s->state, SLOT_RUNS);
	wake(&s->state);
	/* Last: who waits for it may then use the pid and the state. */
	atomic_fetch_add(&s->incarnation, 1);
	wake(&s->incarnation);
}

/* Judge how a process ended. */
static void ended(struct run *r, int rank, int status)
{
	struct slot *s = slot_of(rank);
	bool asked = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		     (atomic_load(&s->killed) || r->timed_out);

	if (!(WIFEXITED(status) && !WEXITSTATUS(status)) && !asked &&
	    !atomic_exchange(&s->failed, true))
		snprintf(s->message, sizeof(s->message), "%s %d%s%s",
			 WIFSIGNALED(status) ? "died of signal" :
					       "ended with status",
			 WIFSIGNALED(status) ? WTERMSIG(status) :
					       WEXITSTATUS(status),
			 WIFSIGNALED(status) ? ": " : "",
			 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) :
					       "");
	if (atomic_load(&s->failed) && !r->grace_end)
		r->grace_end = now_ns() +
			       (uint64_t)(GRACE_MS * ranks_scale()) * MS;
	/* What the rank has started goes with it. */
	kill(-ranks_pid(rank), SIGKILL);
	atomic_store(&s->state, SLOT_ENDED);
	wake(&s->state);
}

static void reap(struct run *r, int rank, bool wait)
{
	int status, pid = ranks_pid(rank), got;

	if (!ranks_running(rank))
		return;
	do
		got = waitpid(pid, &status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (got == pid)
		ended(r, rank, status);
}

/* Ranks that run; those left stopped on purpose apart. */
static int count_running(int *stopped)
{
	int runs = 0;

	*stopped = 0;
	for (int i = RANKS_CONTROL; i < page->n; i++) {
		if (!ranks_running(i))
			continue;
		if (atomic_load(&slot_of(i)->stopped))
			++*stopped;
		else
			runs++;
	}
	return runs;
}

static void serve(struct run *r)
{
	for (int i = RANKS_CONTROL; i < page->n; i++) {
		reap(r, i, false);
		if (!atomic_exchange(&slot_of(i)->restart, false))
			continue;
		if (ranks_running(i))
			kill(ranks_pid(i), SIGKILL);
		reap(r, i, true);
		spawn(r, i);
	}
}

static void kill_rest(struct run *r)
{
	char who[32];

	for (int i = RANKS_CONTROL; i < page->n; i++) {
		struct slot *s = slot_of(i);

		if (!ranks_running(i))
			continue;
		if (!atomic_load(&s->stopped)) {
			fprintf(stderr, "ranks: %s was still running\n",
				report_name(i, who, sizeof(who)));
			report_threads(i, ranks_pid(i));
			if (!atomic_exchange(&s->failed, true))
				snprintf(s->message, sizeof(s->message),
					 "was still running");
		}
		atomic_store(&s->killed, true);
		kill(-ranks_pid(i), SIGKILL);
		reap(r, i, true);
	}
}

static void supervise(struct run *r)
{
	struct timespec tick = { .tv_nsec = 50 * 1000000 };
	int stopped;

	while (count_running(&stopped) > 0) {
		uint64_t now = now_ns();

		r->timed_out = now >= page->deadline;
		if (r->timed_out || (r->grace_end && now >= r->grace_end))
			break;
		/* SIGCHLD or SIGUSR1 wakes; the tick only guards a miss. */
		sigtimedwait(&r->waits, NULL, &tick);
		serve(r);
	}
	if (r->timed_out)
		fprintf(stderr, "ranks: the deadline passed\n");
	kill_rest(r);
}

static int report(const struct run *r)
{
	int bad = 0;
	char who[32];

	for (int i = RANKS_CONTROL; i < page->n; i++)
		bad += atomic_load(&slot_of(i)->failed);
	for (int i = RANKS_CONTROL; bad && i < page->n; i++) {
		struct slot *s = slot_of(i);
		FILE *out = r->output[i == RANKS_CONTROL ? RANKS_MAX : i];

		report_output(i, out);
		if (atomic_load(&s->failed))
			fprintf(stderr, "ranks: %s of %d: %s\n",
				report_name(i, who, sizeof(who)), page->n,
				s->message);
	}
	return bad;
}

static void begin(struct run *r)
{
	int ms = (r->o->timeout_ms ? r->o->timeout_ms : DEFAULT_MS) *
		 ranks_scale();
	bool verbose = getenv("LUNE_TEST_VERBOSE") != NULL;

	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		ranks_fail(__FILE__, __LINE__, "mmap: %s", strerror(errno));
	r->page = page;
	page->n = r->o->n;
	page->parent = getpid();
	page->deadline = now_ns() + (uint64_t)ms * MS;
	page->wait_deadline = page->deadline - (uint64_t)(ms / 10) * MS;
	r->port_fd = reserve_port(&r->port);
	sigemptyset(&r->waits);
	sigaddset(&r->waits, SIGCHLD);
	sigaddset(&r->waits, SIGUSR1);
	sigprocmask(SIG_BLOCK, &r->waits, &r->old_mask);
	for (int i = 0; !verbose && i <= RANKS_MAX; i++)
		if (i < r->o->n || (i == RANKS_MAX && r->o->control))
			r->output[i] = tmpfile();
}

int ranks_run(const struct ranks_opts *o)
{
	struct run r = { .o = o };
	struct timespec none = { 0 };
	int bad;

	if (o->n < 1 || o->n > RANKS_MAX)
		ranks_fail(__FILE__, __LINE__, "%d ranks", o->n);
	begin(&r);
	for (int i = 0; i < o->n; i++)
		spawn(&r, i);
	if (o->control)
		spawn(&r, RANKS_CONTROL);
	supervise(&r);
	bad = report(&r);
	for (int i = 0; i <= RANKS_MAX; i++)
		if (r.output[i])
			fclose(r.output[i]);
	close(r.port_fd);
	/* A signal that came late must not hit the test program. */
	while (sigtimedwait(&r.waits, NULL, &none) > 0)
		;
	sigprocmask(SIG_SETMASK, &r.old_mask, NULL);
	munmap(page, sizeof(*page));
	page = NULL;
	return bad;
}
