/* SPDX-License-Identifier: Apache-2.0 */
/* The copy into mapped memory: every byte, and none beside them. */
#include "tests/harness/unit.h"

#include "net/shm_copy.h"

#define ROOM (LN_SHM_STREAM_BYTES + 8192)
#define GUARD 0xa5

static unsigned char *src, *dst;

static void check_copy(size_t from, size_t to, size_t bytes, int streamed)
{
	memset(dst, GUARD, to + bytes + 256);
	if (streamed)
		ln_shm_copy_stream(dst + to, src + from, bytes);
	else
		ln_shm_copy(dst + to, src + from, bytes);
	CHECK(!memcmp(dst + to, src + from, bytes));
	for (size_t i = 0; i < to; i++)
		CHECK_EQ(dst[i], GUARD);
	for (size_t i = to + bytes; i < to + bytes + 256; i++)
		CHECK_EQ(dst[i], GUARD);
}

static int setup(void **state)
{
	(void)state;
	src = malloc(ROOM);
	dst = malloc(ROOM);
	for (size_t i = 0; src && i < ROOM; i++)
		src[i] = (unsigned char)(i * 2654435761u >> 11);
	return src && dst ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(src);
	free(dst);
	return 0;
}

static void small_sizes_at_any_alignment_are_whole(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes < 200; bytes += bytes < 70 ? 1 : 13)
		for (size_t at = 0; at < 65; at += 3)
			check_copy(at % 17, at, bytes, 1);
}

static void sizes_around_the_threshold_are_whole(void **state)
{
	(void)state;
	for (size_t d = 0; d < 3; d++)
		for (size_t at = 1; at < 64; at += 31)
			check_copy(at, 64 - at, LN_SHM_STREAM_BYTES - 1 + d, 0);
	check_copy(0, 0, LN_SHM_STREAM_BYTES + 4097, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_sizes_at_any_alignment_are_whole),
		cmocka_unit_test(sizes_around_the_threshold_are_whole),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
