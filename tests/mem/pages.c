/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages behind allocated memory where the machine is poor: memfd
 * forbidden by seccomp, and LUNE_ALLOC=private.  Each case in its own process,
 * because a filter cannot be taken back.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lune/mem.h>

#include "mem/alloc.h"
#include "tests/harness/unit.h"

/* From now on memfd_create gives EPERM. */
static bool forbid_memfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { LN_ARRAY_SIZE(code), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int alloc_one(size_t bytes, int *fd, char **out)
{
	struct ln_alloc_how how = { .rights = LUNE_MEM_ALL, .numa = -1,
				    .shareable = true };
	struct ln_config conf;
	void *p = NULL;
	int rc;

	CHECK_OK(ln_config_init(&conf));
	rc = ln_alloc_region(&conf, bytes, &how, fd, &p);
	ln_config_fini(&conf);
	*out = p;
	return rc;
}

static int without_memfd(int rank, int n, void *arg)
{
	struct stat st;
	char *p;
	int fd;

	(void)rank;
	(void)n;
	(void)arg;
	if (!forbid_memfd()) {
		fprintf(stderr, "seccomp filters are not allowed here\n");
		return 0;
	}
	CHECK_OK(alloc_one(100000, &fd, &p));
	for (int i = 0; i < 100000; i++)
		CHECK_EQ(p[i], 0);
	memset(p, 7, 100000);
	if (fd < 0)
		return 0; /* no /dev/shm: private, and still memory */
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_nlink, 0);
	CHECK_MSG(st.st_blocks * 512 >= 100000, "only %lld bytes are there",
		  (long long)st.st_blocks * 512);
	return 0;
}

static void without_memfd_an_unlinked_file_serves(void **state)
{
	struct ranks_opts o = { .n = 1, .fn = without_memfd };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

/* More than /dev/shm can ever hold, less than an address space. */
static int without_memfd_too_large(int rank, int n, void *arg)
{
	char *p;
	void *q;
	int fd;

	(void)rank;
	(void)n;
	(void)arg;
	if (!forbid_memfd()) {
		fprintf(stderr, "seccomp filters are not allowed here\n");
		return 0;
	}
	CHECK_RC(ln_alloc_shared("t", (size_t)1 << 44, &fd, &q),
		 LUNE_ERR_UNSUPPORTED);
	CHECK(strstr(lune_last_error(), "/dev/shm"));
	CHECK_RC(alloc_one((size_t)1 << 44, &fd, &p), LUNE_ERR_NOMEM);
	return 0;
}

static void a_full_dev_shm_is_an_error_and_no_sigbus(void **state)
{
	struct ranks_opts o = { .n = 1, .fn = without_memfd_too_large };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int private_only(int rank, int n, void *arg)
{
	char *p;
	int fd;

	(void)rank;
	(void)n;
	(void)arg;
	CHECK_OK(alloc_one(12345, &fd, &p));
	CHECK_EQ(fd, -1);
	memset(p, 1, 12345);
	return 0;
}

static void alloc_private_shares_nothing(void **state)
{
	static const char *const env[] = { "LUNE_ALLOC=private", NULL };
	struct ranks_opts o = { .n = 1, .fn = private_only, .env = env };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

static int with_hugetlb(int rank, int n, void *arg)
{
	char *p;
	int fd;

	(void)rank;
	(void)n;
	(void)arg;
	/* Reserved pages or not: it is memory, and it does not crash. */
	CHECK_OK(alloc_one(4 << 20, &fd, &p));
	CHECK(fd >= 0);
	memset(p, 1, 4 << 20);
	return 0;
}

static void hugetlb_without_reserved_pages_falls_back(void **state)
{
	static const char *const env[] = { "LUNE_HUGETLB=yes", NULL };
	struct ranks_opts o = { .n = 1, .fn = with_hugetlb, .env = env };

	(void)state;
	assert_int_equal(ranks_run(&o), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_memfd_an_unlinked_file_serves),
		cmocka_unit_test(a_full_dev_shm_is_an_error_and_no_sigbus),
		cmocka_unit_test(alloc_private_shares_nothing),
		cmocka_unit_test(hugetlb_without_reserved_pages_falls_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
