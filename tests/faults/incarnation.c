/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that restarts on the same address is somebody else: its
 * predecessor's tickets are refused, its own work.  The two processes are
 * worlds of their own that share a job key and pass tickets by hand.
 */
#include <unistd.h>

#include <lune/lune.h>

#include "tests/harness/unit.h"

#define BYTES 8192
#define FLAG_TICKET 1	/* tickets published */
#define FLAG_RESTART 2	/* the user asks for a restart */
#define FLAG_ENOUGH 3
#define MEET 5

struct board { /* in the scratch memory */
	size_t bytes;
	unsigned char ticket[LUNE_TICKET_MAX];
};

static int owner(void)
{
	struct board *b = ranks_scratch();
	lune_ctx *ctx;
	lune_mem *mem;

	CHECK_OK(lune_ctx_open(NULL, &ctx));
	CHECK_OK(lune_mem_alloc(ctx, BYTES, NULL, &mem));
	memset(lune_mem_addr(mem), 'a' + ranks_incarnation(), BYTES);
	CHECK_OK(lune_mem_ticket(mem, b->ticket, sizeof(b->ticket),
				 &b->bytes));
	ranks_add(FLAG_TICKET, 1);
	ranks_wait(FLAG_ENOUGH, 1);
	CHECK_OK(lune_mem_release(mem, 5000));
	return lune_ctx_close(ctx, 1000);
}

static int get(lune_rmem *r, char *out)
{
	lune_req *req = NULL;
	int rc = lune_get(r, 0, out, BYTES, &(struct lune_op){ .req = &req });

	return rc ? rc : lune_req_wait(&req, 10000, NULL);
}

static int user(void)
{
	struct board *b = ranks_scratch(), old;
	lune_ctx *ctx;
	lune_rmem *first, *again, *second;
	char got[BYTES];
	int rc;

	CHECK_OK(lune_ctx_open(NULL, &ctx));
	ranks_wait(FLAG_TICKET, 1);
	old = *b;
	CHECK_OK(lune_rmem_attach(ctx, old.ticket, old.bytes, &first));
	CHECK_OK(get(first, got));
	CHECK_EQ(got[BYTES - 1], 'a');

	ranks_restart(0);
	ranks_wait(FLAG_TICKET, 2);
	rc = get(first, got);
	CHECK_MSG(rc == LUNE_ERR_PEER, "an old ticket gave %s",
		  lune_strcode(rc));
	CHECK_OK(lune_rmem_attach(ctx, old.ticket, old.bytes, &again));
	rc = get(again, got);
	CHECK_MSG(rc == LUNE_ERR_PEER || rc == LUNE_ERR_UNREACHABLE,
		  "an old ticket attached again gave %s", lune_strcode(rc));
	CHECK_OK(lune_rmem_attach(ctx, b->ticket, b->bytes, &second));
	CHECK_OK(get(second, got));
	CHECK_EQ(got[0], 'b');
	lune_rmem_detach(first);
	lune_rmem_detach(again);
	lune_rmem_detach(second);
	ranks_set(FLAG_ENOUGH, 1);
	return lune_ctx_close(ctx, 1000);
}

static int body(int rank, int n, void *arg)
{
	(void)n;
	(void)arg;
	return rank == 0 ? owner() : user();
}

static char key_file[] = "/tmp/lune-test-key.XXXXXX";
static char key_env[64];

static int make_key(void **state)
{
	int fd = mkstemp(key_file);

	(void)state;
	if (fd < 0 || write(fd, "a key for the test", 18) != 18)
		return -1;
	close(fd);
	snprintf(key_env, sizeof(key_env), "LUNE_JOB_KEY_FILE=%s", key_file);
	return 0;
}

static int drop_key(void **state)
{
	(void)state;
	return unlink(key_file);
}

static void run(const char *transports, const char *port)
{
	const char *env[] = { "LUNE_BOOTSTRAP=self:", key_env, transports,
			      port, "LUNE_CONNECT_TIMEOUT=3000", NULL };
	struct ranks_opts o = { .n = 2, .fn = body, .env = env };

	assert_int_equal(ranks_run(&o), 0);
}

static void old_tickets_are_refused_on_shm(void **state)
{
	(void)state;
	run("LUNE_TRANSPORTS=self,shm,tcp", "LUNE_TCP_PORT=0");
}

static void old_tickets_are_refused_on_tcp_same_port(void **state)
{
	char port[40];

	(void)state;
	/* The second incarnation listens where the first did. */
	snprintf(port, sizeof(port), "0:LUNE_TCP_PORT=%d", ranks_free_port());
	run("LUNE_TRANSPORTS=self,tcp", port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_tickets_are_refused_on_shm),
		cmocka_unit_test(old_tickets_are_refused_on_tcp_same_port),
	};

	return cmocka_run_group_tests(tests, make_key, drop_key);
}
