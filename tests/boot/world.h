/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the multi-rank tests of boot do in each rank: join, exchange, check.
 */
#ifndef LUNE_TESTS_BOOT_WORLD_H
#define LUNE_TESTS_BOOT_WORLD_H

#include "boot/boot.h"
#include "tests/harness/unit.h"

/* One member of a world, and what it read from the environment. */
struct member {
	struct ln_config conf;
	struct ln_boot *b;
	uint64_t deadline;
};

static inline int member_open(struct member *m, const char *url, int timeout_ms)
{
	CHECK_OK(ln_config_init(&m->conf));
	m->deadline = ln_deadline(timeout_ms, 0);
	m->b = NULL;
	return ln_boot_open(&m->conf, url, m->deadline, &m->b);
}

static inline void member_close(struct member *m)
{
	if (m->b)
		ln_boot_close(m->b, true, ln_deadline(2000, 0));
	ln_config_fini(&m->conf);
}

/* A card of another length for each rank; it holds the key's hash. */
static inline size_t member_card(const struct ln_boot_info *info, int rank,
				 uint8_t card[LN_CARD_MAX])
{
	size_t len = 16 + (size_t)rank * 37 % (LN_CARD_MAX - 16);
	uint64_t hash = ln_hash64(info->key, LN_KEY_BYTES);

	memset(card, rank + 1, LN_CARD_MAX);
	memcpy(card, &hash, sizeof(hash));
	return len;
}

static inline int member_exchange(struct member *m, struct ln_boot_card **cards)
{
	uint8_t card[LN_CARD_MAX];
	const struct ln_boot_info *info = ln_boot_info(m->b);
	size_t len = member_card(info, info->rank, card);

	return ln_boot_exchange(m->b, card, len, m->deadline, cards);
}

static inline void member_check(struct member *m, struct ln_boot_card *cards)
{
	uint8_t want[LN_CARD_MAX];
	const struct ln_boot_info *info = ln_boot_info(m->b);

	for (int i = 0; i < info->size; i++) {
		CHECK_EQ(cards[i].len, member_card(info, i, want));
		CHECK(!memcmp(cards[i].bytes, want, cards[i].len));
		ln_free(cards[i].bytes);
	}
	ln_free(cards);
}

/* The whole of it, where it is to succeed. */
static inline void member_run(const char *url, int rank, int size)
{
	struct ln_boot_card *cards;
	struct member m;

	CHECK_OK(member_open(&m, url, 20000));
	if (rank >= 0)
		CHECK_EQ(ln_boot_info(m.b)->rank, rank);
	CHECK_EQ(ln_boot_info(m.b)->size, size);
	CHECK_OK(member_exchange(&m, &cards));
	member_check(&m, cards);
	member_close(&m);
}

/* The last error of this thread says this. */
#define CHECK_SAYS(text)                                                 \
	CHECK_MSG(strstr(lune_last_error(), (text)), "not \"%s\": %s",   \
		  (text), lune_last_error())

#endif
