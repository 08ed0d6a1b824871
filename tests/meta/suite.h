/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests that every backend must pass.  The program of a backend starts
 * its service, tells where it is and runs them.
 */
#ifndef LUNE_TESTS_META_SUITE_H
#define LUNE_TESTS_META_SUITE_H

#include "tests/harness/unit.h"

#include "meta/meta.h"

#define SECONDS(n) (ln_now_ns() + (uint64_t)(n) * 1000000000u)
/* Ends a test that hangs; nothing waits for it when all is well. */
#define LONG SECONDS(30)

#define CHECK0(call) check0((call), #call)
void check0(int rc, const char *call);

/* "lune://127.0.0.1:PORT" or "etcd://127.0.0.1:PORT". */
extern char suite_url[128];

/* Run all tests; the service runs already.  What cmocka returns. */
int suite_run(const char *name);

/* Helpers of other tests. */
struct ln_meta *suite_open(const char *path);
int suite_put(struct ln_meta *m, const char *key, const char *value,
	      uint64_t lease);

#endif
