/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a world, for the launcher tests: joins, exchanges cards, checks
 * that everybody has the same key and the right cards, and says so in one line
 * on stdout.
 *
 *	boot_probe [-u URL] [-t MS] [-n WORLDS] [-k RANK] [-a RANK] [-f RANK]
 *
 * -k: this rank kills itself between joining and exchanging; -a: this rank
 * never joins (it sleeps until the test ends it).  With either, the others
 * must get an error in time: they print it and exit with success.  -f:
 * this rank fails after its first world in epoch 0, so that torchrun starts all
 * again.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "boot/boot.h"

struct probe {
	const char *url;
	int timeout_ms, worlds, kill_rank, absent_rank, fail_rank;
	struct ln_config conf;
};

#define CARD_BYTES 1000

static void make_card(uint8_t card[CARD_BYTES], int rank, int world,
		      const uint8_t key[LN_KEY_BYTES])
{
	struct ln_pack k = { .p = card, .cap = CARD_BYTES };

	memset(card, rank & 0xff, CARD_BYTES);
	ln_pack_u32(&k, (uint32_t)rank);
	ln_pack_u32(&k, (uint32_t)world);
	ln_pack_u64(&k, ln_hash64(key, LN_KEY_BYTES));
}

static int check_cards(const struct ln_boot_info *info, int world,
		       struct ln_boot_card *cards)
{
	uint8_t want[CARD_BYTES];
	int bad = 0;

	for (int i = 0; i < info->size; i++) {
		make_card(want, i, world, info->key);
		if (cards[i].len != CARD_BYTES ||
		    memcmp(cards[i].bytes, want, CARD_BYTES)) {
			printf("rank %d: the card of rank %d is wrong\n",
			       info->rank, i);
			bad = 1;
		}
		ln_free(cards[i].bytes);
	}
	ln_free(cards);
	return bad;
}

static int report(const struct probe *p, int rank, int rc)
{
	bool expected = p->kill_rank >= 0 || p->absent_rank >= 0;

	printf("rank %d: %s: %s\n", rank, lune_strcode(rc), lune_last_error());
	fflush(stdout);
	return expected ? 0 : 1;
}

static int one_world(const struct probe *p, int world)
{
	uint64_t deadline = ln_deadline(p->timeout_ms, 0);
	const struct ln_boot_info *info;
	struct ln_boot_card *cards;
	uint8_t card[CARD_BYTES];
	struct ln_boot *b;
	int bad, rank, rc = ln_boot_open(&p->conf, p->url, deadline, &b);

	if (rc)
		return report(p, -1, rc);
	info = ln_boot_info(b);
	rank = info->rank;
	if (rank == p->kill_rank)
		raise(SIGKILL);
	make_card(card, rank, world, info->key);
	rc = ln_boot_exchange(b, card, sizeof(card), deadline, &cards);
	if (rc) {
		ln_boot_close(b, false, ln_deadline(1000, 0));
		return report(p, rank, rc);
	}
	bad = check_cards(info, world, cards);
	if (!bad)
		printf("ok rank %d of %d local %d of %d epoch %llu %s\n", rank,
		       info->size, info->local_rank, info->local_size,
		       (unsigned long long)info->epoch, info->url);
	fflush(stdout);
	bad |= rank == p->fail_rank && !info->epoch;
	ln_boot_close(b, true, ln_deadline(5000, 0));
	return bad;
}

static int own_rank(void)
{
	const char *r = ln_config_launcher("RANK");

	if (!r)
		r = ln_config_launcher("PMIX_RANK");
	return r ? atoi(r) : -1;
}

int main(int argc, char **argv)
{
	struct probe p = { .timeout_ms = 60000, .worlds = 1, .kill_rank = -1,
			   .absent_rank = -1, .fail_rank = -1 };
	int opt, bad = 0;

	while ((opt = getopt(argc, argv, "u:t:n:k:a:f:")) != -1) {
		switch (opt) {
		case 'u':
			p.url = optarg;
			break;
		case 't':
			p.timeout_ms = atoi(optarg);
			break;
		case 'n':
			p.worlds = atoi(optarg);
			break;
		case 'k':
			p.kill_rank = atoi(optarg);
			break;
		case 'a':
			p.absent_rank = atoi(optarg);
			break;
		case 'f':
			p.fail_rank = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	if (ln_config_init(&p.conf)) {
		printf("%s\n", lune_last_error());
		return 1;
	}
	if (p.absent_rank >= 0 && own_rank() == p.absent_rank) {
		/* Longer than the others wait, and bounded. */
		sleep((unsigned)p.timeout_ms / 1000 + 5);
		p.worlds = 0;
	}
	for (int i = 0; i < p.worlds && !bad; i++)
		bad = one_world(&p, i);
	ln_config_fini(&p.conf);
	return bad;
}
