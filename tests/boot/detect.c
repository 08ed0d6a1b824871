/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every combination of what can be set, against the order in the manual, and
 * the job key's file.
 */
#include <unistd.h>

#include "boot/internal.h"
#include "tests/harness/unit.h"

enum { ARG = 1, VAR = 2, ELASTIC = 4, RANKS = 8, PMIX = 16, ETCD = 32,
       SIZE = 64, ALL = 128 };

static void set_environment(int bits)
{
	clearenv();
	if (bits & VAR)
		setenv("LUNE_BOOTSTRAP", "tcp://v:1?rank=0&size=2", 1);
	if (bits & ELASTIC)
		setenv("TORCHELASTIC_RUN_ID", "none", 1);
	if (bits & RANKS) {
		setenv("RANK", "0", 1);
		setenv("WORLD_SIZE", "2", 1);
		setenv("MASTER_ADDR", "m", 1);
	}
	if (bits & PMIX)
		setenv("PMIX_NAMESPACE", "n", 1);
	if (bits & ETCD) {
		setenv("LUNE_ETCD_ENDPOINTS", "e:1,f:2", 1);
		setenv("LUNE_JOB", "j", 1);
	}
	if (bits & SIZE)
		setenv("LUNE_WORLD_SIZE", "4", 1);
}

static const char *expected(int bits)
{
	if (bits & ARG)
		return "tcp://a:1?rank=1&size=2";
	if (bits & VAR)
		return "tcp://v:1?rank=0&size=2";
	if (bits & (ELASTIC | RANKS))
		return "torch:";
	if (bits & PMIX)
		return "pmix:";
	if (bits & ETCD)
		return bits & SIZE ? "etcd://e:1,f:2/j?size=4" :
				     "etcd://e:1,f:2/j";
	return "self:";
}

static void the_order_is_that_of_the_manual(void **state)
{
	char url[LN_BOOT_URL_MAX], why[256];
	struct ln_config conf;

	(void)state;
	for (int bits = 0; bits < ALL; bits++) {
		const char *arg = bits & ARG ? "tcp://a:1?rank=1&size=2" : NULL;

		set_environment(bits);
		assert_int_equal(ln_config_init(&conf), LUNE_OK);
		assert_int_equal(ln_boot_detect(&conf, arg, url, sizeof(url),
						why, sizeof(why)), LUNE_OK);
		assert_string_equal(url, expected(bits));
		assert_true(strlen(why) > 0);
		ln_config_fini(&conf);
	}
}

static void half_of_a_launcher_is_none(void **state)
{
	static const char *const parts[] = { "RANK", "WORLD_SIZE",
					     "MASTER_ADDR" };
	char url[LN_BOOT_URL_MAX], why[256];
	struct ln_config conf;

	(void)state;
	for (int without = 0; without < 3; without++) {
		clearenv();
		for (int i = 0; i < 3; i++)
			setenv(parts[i], i == without ? "" : "1", 1);
		/* A job without endpoints says nothing either. */
		setenv("LUNE_JOB", "j", 1);
		assert_int_equal(ln_config_init(&conf), LUNE_OK);
		assert_int_equal(ln_boot_detect(&conf, "", url, sizeof(url),
						why, sizeof(why)), LUNE_OK);
		assert_string_equal(url, "self:");
		ln_config_fini(&conf);
	}
}

static void a_bad_url_fails_detection(void **state)
{
	char url[LN_BOOT_URL_MAX], why[256];
	struct ln_config conf;

	(void)state;
	clearenv();
	setenv("LUNE_BOOTSTRAP", "udp://x", 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	assert_int_equal(ln_boot_detect(&conf, NULL, url, sizeof(url), why,
					sizeof(why)), LUNE_ERR_INVAL);
	assert_non_null(strstr(lune_last_error(), "udp://x"));
	ln_config_fini(&conf);
}

static void write_file(const char *path, const void *p, size_t bytes)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, bytes, f), bytes);
	assert_int_equal(fclose(f), 0);
}

static int open_self(const char *file, uint8_t key[LN_KEY_BYTES])
{
	struct ln_config conf;
	struct ln_boot *b;
	int rc;

	clearenv();
	if (file)
		setenv("LUNE_JOB_KEY_FILE", file, 1);
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	rc = ln_boot_open(&conf, NULL, ln_deadline(1000, 0), &b);
	if (!rc) {
		assert_int_equal(ln_boot_info(b)->rank, 0);
		assert_int_equal(ln_boot_info(b)->size, 1);
		memcpy(key, ln_boot_info(b)->key, LN_KEY_BYTES);
		ln_boot_close(b, true, ln_deadline(1000, 0));
	}
	ln_config_fini(&conf);
	return rc;
}

static void the_key_comes_from_the_file(void **state)
{
	static uint8_t big[65537];
	char path[] = "/tmp/lune-key-XXXXXX";
	uint8_t a[LN_KEY_BYTES], b[LN_KEY_BYTES];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(open_self(path, a), LUNE_ERR_INVAL); /* empty */
	write_file(path, "secret", 6);
	assert_int_equal(open_self(path, a), LUNE_OK);
	assert_int_equal(open_self(path, b), LUNE_OK);
	assert_memory_equal(a, b, LN_KEY_BYTES);
	write_file(path, "secreT", 6);
	assert_int_equal(open_self(path, b), LUNE_OK);
	assert_memory_not_equal(a, b, LN_KEY_BYTES);
	write_file(path, big, sizeof(big));
	assert_int_equal(open_self(path, a), LUNE_ERR_INVAL);
	assert_non_null(strstr(lune_last_error(), path));
	write_file(path, big, sizeof(big) - 1);
	assert_int_equal(open_self(path, a), LUNE_OK);
	unlink(path);
	assert_int_equal(open_self(path, a), LUNE_ERR_INVAL);
	/* Without a file every world has its own. */
	assert_int_equal(open_self(NULL, a), LUNE_OK);
	assert_int_equal(open_self(NULL, b), LUNE_OK);
	assert_memory_not_equal(a, b, LN_KEY_BYTES);
}

static void a_world_of_one_gets_its_own_card(void **state)
{
	static uint8_t card[LN_CARD_MAX + 1];
	struct ln_boot_card *cards;
	struct ln_config conf;
	struct ln_boot *b;

	(void)state;
	clearenv();
	assert_int_equal(ln_config_init(&conf), LUNE_OK);
	memset(card, 7, sizeof(card));
	assert_int_equal(ln_boot_open(&conf, "self:", 0, &b), LUNE_OK);
	assert_int_equal(ln_boot_exchange(b, card, 0, 0, &cards),
			 LUNE_ERR_INVAL);
	assert_int_equal(ln_boot_exchange(b, card, sizeof(card), 0, &cards),
			 LUNE_ERR_INVAL);
	assert_int_equal(ln_boot_join(b, card, 1, 0), LUNE_ERR_INVAL);
	assert_false(ln_boot_lost(b));
	assert_int_equal(ln_boot_exchange(b, card, LN_CARD_MAX, 0, &cards),
			 LUNE_OK);
	assert_int_equal(cards[0].len, LN_CARD_MAX);
	assert_memory_equal(cards[0].bytes, card, LN_CARD_MAX);
	ln_free(cards[0].bytes);
	ln_free(cards);
	/* Once only. */
	assert_int_equal(ln_boot_exchange(b, card, 1, 0, &cards),
			 LUNE_ERR_INVAL);
	ln_boot_close(b, true, 0);
	ln_config_fini(&conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_is_that_of_the_manual),
		cmocka_unit_test(half_of_a_launcher_is_none),
		cmocka_unit_test(a_bad_url_fails_detection),
		cmocka_unit_test(the_key_comes_from_the_file),
		cmocka_unit_test(a_world_of_one_gets_its_own_card),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
