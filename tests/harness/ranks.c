/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent of a run: it forks the ranks, reaps them, restarts them on request
 * and enforces the deadline.  inside.c is what the ranks themselves do.
 *
 * Invariants:
 *  1. Only the parent writes a slot's state, pid and incarnation; a rank that
 *     wants another one restarted asks by `restart` and SIGUSR1.
 *  2. No wait outlasts the run: the ranks' waits end a little before the
 *     parent's deadline, so that they can say what they waited for.
 *  3. Every rank dies with the parent (PR_SET_PDEATHSIG) and leads its own
 *     process group, so that what it started dies with it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/run.h"

#define DEFAULT_MS 30000
#define GRACE_MS 2000 /* for the others, when one rank has failed */

/* ---- ports ------------------------------------------------------------- */

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

/* ---- the parent -------------------------------------------------------- */

struct run {
	const struct ranks_opts *o;
	struct page *page;
	FILE *output[RANKS_MAX + 1];
	sigset_t waits, old_mask;
	int port, port_fd;
	int incarnation; /* of the rank that is being forked */
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
	ranks_become(rank, r->incarnation);
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
	struct slot *s = ranks_slot(rank);
	int pid;

	fflush(NULL);
	atomic_store(&s->killed, false);
	atomic_store(&s->stopped, false);
	r->incarnation = (int)atomic_load(&s->incarnation);
	pid = fork();
	if (pid < 0)
		ranks_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
	if (!pid)
		child(r, rank);
	setpgid(pid, pid);
	atomic_store(&s->pid, pid);
	atomic_store(&s->state, SLOT_RUNS);
	ranks_wake(&s->state);
	/* Last: who waits for it may then use the pid and the state. */
	atomic_fetch_add(&s->incarnation, 1);
	ranks_wake(&s->incarnation);
}

/* Judge how a process ended. */
static void ended(struct run *r, int rank, int status)
{
	struct slot *s = ranks_slot(rank);
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
		r->grace_end = ranks_now_ns() +
			       (uint64_t)(GRACE_MS * ranks_scale()) * MS;
	/* What the rank has started goes with it. */
	kill(-ranks_pid(rank), SIGKILL);
	atomic_store(&s->state, SLOT_ENDED);
	ranks_wake(&s->state);
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
	for (int i = RANKS_CONTROL; i < ranks_page->n; i++) {
		if (!ranks_running(i))
			continue;
		if (atomic_load(&ranks_slot(i)->stopped))
			++*stopped;
		else
			runs++;
	}
	return runs;
}

static void serve(struct run *r)
{
	for (int i = RANKS_CONTROL; i < ranks_page->n; i++) {
		reap(r, i, false);
		if (!atomic_exchange(&ranks_slot(i)->restart, false))
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

	for (int i = RANKS_CONTROL; i < ranks_page->n; i++) {
		struct slot *s = ranks_slot(i);

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
		uint64_t now = ranks_now_ns();

		r->timed_out = now >= ranks_page->deadline;
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

	for (int i = RANKS_CONTROL; i < ranks_page->n; i++)
		bad += atomic_load(&ranks_slot(i)->failed);
	for (int i = RANKS_CONTROL; bad && i < ranks_page->n; i++) {
		struct slot *s = ranks_slot(i);
		FILE *out = r->output[i == RANKS_CONTROL ? RANKS_MAX : i];

		report_output(i, out);
		if (atomic_load(&s->failed))
			fprintf(stderr, "ranks: %s of %d: %s\n",
				report_name(i, who, sizeof(who)), ranks_page->n,
				s->message);
	}
	return bad;
}

static void begin(struct run *r)
{
	int ms = (r->o->timeout_ms ? r->o->timeout_ms : DEFAULT_MS) *
		 ranks_scale();
	bool verbose = getenv("LUNE_TEST_VERBOSE") != NULL;

	ranks_page = mmap(NULL, sizeof(*ranks_page), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ranks_page == MAP_FAILED)
		ranks_fail(__FILE__, __LINE__, "mmap: %s", strerror(errno));
	r->page = ranks_page;
	ranks_page->n = r->o->n;
	ranks_page->parent = getpid();
	ranks_page->deadline = ranks_now_ns() + (uint64_t)ms * MS;
	ranks_page->wait_deadline =
		ranks_page->deadline - (uint64_t)(ms / 10) * MS;
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
	munmap(ranks_page, sizeof(*ranks_page));
	ranks_page = NULL;
	return bad;
}
