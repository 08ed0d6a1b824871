/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at the port: random bytes, HTTP, connections that say nothing or
 * speak too slowly, a process with another job's key.  They are refused and
 * counted; the job's own traffic goes on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lune/lune.h>

#include "tests/harness/unit.h"

#define FLAG_READY 1
#define FLAG_LEFT 2 /* the strangers have done their worst */
#define STRANGERS 24
#define BYTES 65536

struct board {
	size_t bytes;
	unsigned char ticket[LUNE_TICKET_MAX];
};

static int ports[2];
static char key_files[2][40];

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval tv = { .tv_sec = 15 };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Nothing is answered, and the connection is closed in bounded time. */
static void expect_silence(int fd)
{
	char buf[64];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	CHECK_MSG(n <= 0, "a stranger was answered %zd bytes", n);
	CHECK_MSG(n == 0 || errno == ECONNRESET,
		  "a stranger's connection stays open");
	close(fd);
}

static void babble(int port, unsigned seed)
{
	static const char http[] =
		"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
	unsigned char junk[512];
	int fd = dial(port);

	for (size_t i = 0; i < sizeof(junk); i++) {
		seed = seed * 1103515245u + 12345u;
		junk[i] = (unsigned char)(seed >> 16);
	}
	if (seed % 2)
		(void)!send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL);
	else
		(void)!send(fd, junk, seed % 400 + 80, MSG_NOSIGNAL);
	expect_silence(fd);
}

/* One byte every moment: a HELLO's deadline is for all of it. */
static void drip(int port)
{
	int fd = dial(port);
	char byte = 'L', buf[8];
	int64_t start = ranks_now_ms();
	struct timeval tv = { .tv_usec = 50000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	for (;;) {
		if (send(fd, &byte, 1, MSG_NOSIGNAL) < 0)
			break;
		if (recv(fd, buf, sizeof(buf), 0) == 0)
			break;
		CHECK_MSG(ranks_now_ms() - start < 15000 * ranks_scale(),
			  "a slow stranger may stay for ever");
	}
	close(fd);
}

static int control(int rank, int n, void *arg)
{
	int silent[2];

	(void)rank;
	(void)n;
	(void)arg;
	ranks_wait(FLAG_READY, 2);
	silent[0] = dial(ports[0]);
	silent[1] = dial(ports[1]);
	for (unsigned i = 0; i < STRANGERS; i++)
		babble(ports[i % 2], i * 2654435761u);
	drip(ports[0]);
	expect_silence(silent[0]);
	expect_silence(silent[1]);
	ranks_set(FLAG_LEFT, 1);
	return 0;
}

static uint64_t refused(lune_ctx *ctx)
{
	uint64_t auth, proto;

	CHECK_OK(lune_ctx_counter(ctx, "refused_auth", &auth));
	CHECK_OK(lune_ctx_counter(ctx, "refused_proto", &proto));
	return auth + proto;
}

static int members(int rank, int n, void *arg)
{
	lune_ctx *ctx;
	lune_comm *w;
	lune_mem *mem;
	lune_win *win;
	char *buf, from[BYTES];
	int rounds = 0, left, all_left[2];

	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	w = lune_ctx_world(ctx);
	CHECK_OK(lune_mem_alloc(ctx, BYTES, NULL, &mem));
	CHECK_OK(lune_win_open(w, mem, 10000, &win));
	buf = lune_mem_addr(mem);
	ranks_add(FLAG_READY, 1);
	/* Own traffic all the while. */
	do {
		memset(from, ++rounds & 127, sizeof(from));
		CHECK_OK(lune_put(lune_win_rmem(win, !rank), 0, from,
				  sizeof(from), NULL));
		CHECK_OK(lune_flush(w, LUNE_ALL_RANKS, 10000));
		CHECK_OK(lune_barrier(w, 10000));
		CHECK_EQ(buf[0], rounds & 127);
		CHECK_EQ(buf[BYTES - 1], rounds & 127);
		/* Rank 0 decides: the flag may rise between two looks. */
		left = (int)ranks_get(FLAG_LEFT);
		CHECK_OK(lune_allgather(w, &left, sizeof(left), all_left,
					10000));
	} while (rounds < 20 || !all_left[0]);
	ranks_barrier();
	CHECK_MSG(refused(ctx) >= STRANGERS / 2 + 1, "only %llu are counted",
		  (unsigned long long)refused(ctx));
	lune_win_close(win);
	CHECK_OK(lune_mem_release(mem, 5000));
	return lune_ctx_close(ctx, 1000);
}

static void strangers_are_refused_and_counted(void **state)
{
	char p0[40], p1[40];
	const char *env[] = { "LUNE_TRANSPORTS=self,tcp", p0, p1, NULL };
	struct ranks_opts o = { .n = 2, .fn = members, .control = control,
				.env = env, .timeout_ms = 60000 };

	(void)state;
	ports[0] = ranks_free_port();
	ports[1] = ranks_free_port();
	snprintf(p0, sizeof(p0), "0:LUNE_TCP_PORT=%d", ports[0]);
	snprintf(p1, sizeof(p1), "1:LUNE_TCP_PORT=%d", ports[1]);
	assert_int_equal(ranks_run(&o), 0);
}

/* ---- another job's key --------------------------------------------------- */

static int keys(int rank, int n, void *arg)
{
	struct board *b = ranks_scratch();
	lune_ctx *ctx;
	lune_mem *mem;
	lune_rmem *r;
	lune_req *req = NULL;
	char byte = 1;
	int rc;

	(void)n;
	(void)arg;
	CHECK_OK(lune_ctx_open(NULL, &ctx));
	if (rank == 0) {
		CHECK_OK(lune_mem_alloc(ctx, 4096, NULL, &mem));
		CHECK_OK(lune_mem_ticket(mem, b->ticket, sizeof(b->ticket),
					 &b->bytes));
		ranks_barrier();
		ranks_barrier();
		CHECK_EQ(*(char *)lune_mem_addr(mem), 0);
		CHECK(refused(ctx) >= 1);
		CHECK_OK(lune_mem_release(mem, 5000));
		return lune_ctx_close(ctx, 1000);
	}
	ranks_barrier();
	CHECK_OK(lune_rmem_attach(ctx, b->ticket, b->bytes, &r));
	rc = lune_put(r, 0, &byte, 1, &(struct lune_op){ .req = &req });
	if (!rc)
		rc = lune_req_wait(&req, 10000, NULL);
	CHECK_RC(rc, LUNE_ERR_AUTH);
	CHECK_MSG(strstr(lune_last_error(), "key"), "it only says: %s",
		  lune_last_error());
	lune_rmem_detach(r);
	ranks_barrier();
	return lune_ctx_close(ctx, 1000);
}

static int make_key(char *path, const char *text)
{
	int fd, rc;

	snprintf(path, sizeof(key_files[0]), "/tmp/lune-test-key.XXXXXX");
	fd = mkstemp(path);
	rc = fd < 0 || write(fd, text, strlen(text)) < 0;
	close(fd);
	return rc;
}

static void other_key(const char *transports)
{
	char k0[80], k1[80];
	const char *env[] = { "LUNE_BOOTSTRAP=self:", transports, k0, k1,
			      "LUNE_CONNECT_TIMEOUT=5000", NULL };
	struct ranks_opts o = { .n = 2, .fn = keys, .env = env };

	assert_int_equal(make_key(key_files[0], "one key"), 0);
	assert_int_equal(make_key(key_files[1], "another key"), 0);
	snprintf(k0, sizeof(k0), "0:LUNE_JOB_KEY_FILE=%s", key_files[0]);
	snprintf(k1, sizeof(k1), "1:LUNE_JOB_KEY_FILE=%s", key_files[1]);
	assert_int_equal(ranks_run(&o), 0);
	unlink(key_files[0]);
	unlink(key_files[1]);
}

static void another_key_is_refused_on_tcp(void **state)
{
	(void)state;
	other_key("LUNE_TRANSPORTS=self,tcp");
}

static void another_key_is_refused_on_shm(void **state)
{
	(void)state;
	other_key("LUNE_TRANSPORTS=self,shm,tcp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_are_refused_and_counted),
		cmocka_unit_test(another_key_is_refused_on_tcp),
		cmocka_unit_test(another_key_is_refused_on_shm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
