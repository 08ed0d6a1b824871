/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of one.  It has a key, too: others may still be given tickets.
 */
#include "boot/internal.h"

static int self_open(struct ln_boot *b, uint64_t deadline)
{
	(void)deadline;
	b->info.rank = 0;
	b->info.size = 1;
	b->info.local_rank = 0;
	b->info.local_size = 1;
	snprintf(b->info.job, sizeof(b->info.job), "self");
	return b->have_key ? LUNE_OK : ln_random(b->info.key, LN_KEY_BYTES);
}

static int self_exchange(struct ln_boot *b, const struct ln_boot_card *mine,
			 uint64_t deadline, struct ln_boot_card *cards)
{
	(void)b;
	(void)deadline;
	return ln_ranks_card(&cards[0], mine->bytes, mine->len);
}

static void self_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	(void)b;
	(void)clean;
	(void)deadline;
}

const struct ln_boot_ops ln_self_ops = {
	.scheme = "self",
	.open = self_open,
	.exchange = self_exchange,
	.close = self_close,
};
