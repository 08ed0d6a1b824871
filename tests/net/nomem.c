/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, for each n, while a net opens, connects, and
 * carries its first operations: an error or success, and nothing else.
 */
#include "tests/net/duo.h"

#include <lune/mem.h>

#define BIG (256u << 10)

static struct node b;
static struct ln_region *mem;

static bool code_is_known(int rc)
{
	return rc == LUNE_OK || rc == LUNE_ERR_NOMEM || rc == LUNE_ERR_PEER ||
	       rc == LUNE_ERR_UNREACHABLE || rc == LUNE_ERR_AUTH;
}

static void use(struct node *a)
{
	char *buf = calloc(1, BIG);
	struct ln_ticket t;
	struct ln_rmem r;
	struct job j;
	int rc;

	node_ticket(&b, mem, &t);
	rc = ln_rmem_init(a->net, &t, &r);
	CHECK(code_is_known(rc));
	if (!rc) {
		job_put(&j, &r, 0, buf, BIG);
		CHECK(code_is_known(job_run(a, &j)));
		job_get(&j, &r, 0, buf, BIG);
		CHECK(code_is_known(job_run(a, &j)));
		ln_rmem_fini(&r);
	}
	free(buf);
}

static bool one(long n)
{
	struct node a = { 0 };
	struct ln_net_opts no = { 0 };
	uint64_t before;
	int rc;

	CHECK_OK(ln_config_init(&a.conf));
	a.transports = a.conf.transports;
	a.modes = a.conf.shm_modes;
	a.conf.transports = (char *)"self,tcp";
	a.conf.connect_timeout = 1000;
	CHECK_OK(ln_topo_read(&a.conf, &a.topo));
	CHECK_OK(ln_mem_table_open(&a.conf, &a.topo, &a.mem));
	no.conf = &a.conf;
	no.topo = &a.topo;
	no.mem = a.mem;
	no.counters = &a.counters;
	before = ln_alloc_count();
	ln_alloc_fail_after(n);
	rc = ln_net_open(&no, &a.net);
	CHECK(rc == LUNE_OK || rc == LUNE_ERR_NOMEM);
	if (!rc) {
		use(&a);
		ln_net_close(a.net, ln_now_ns() + 1000000000u);
	}
	ln_alloc_fail_after(0);
	ln_mem_table_close(a.mem);
	a.conf.transports = a.transports;
	ln_config_fini(&a.conf);
	return ln_alloc_count() - before >= (uint64_t)n;
}

static void any_allocation_may_fail(void **state)
{
	struct node_opts o = { 0 };

	(void)state;
	node_open(&b, &o);
	mem = node_alloc(&b, BIG, 0);
	for (long n = 1; n < 200; n++)
		if (!one(n))
			break;
	node_release(&b, mem);
	node_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
