/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of boot: choose a table, keep its state, check arguments.
 *
 * Invariants:
 *  1. A failed open leaves nothing behind: it closes what it began.
 *  2. The cards of a failed exchange are freed here, so a bootstrap may stop
 *     anywhere.
 *  3. `generation` counts the opens of a bootstrap in this process, failed ones
 *     included: ranks that open the same worlds in the same order agree on it.
 */
#include "boot/internal.h"

/* Cleaning up after the deadline of an open that failed may take this long. */
#define GIVE_UP_MS 1000

static const struct ln_boot_ops *const tables[] = {
	&ln_self_ops, &ln_tcp_ops, &ln_torch_ops, &ln_pmix_ops,
	&ln_fixed_ops, &ln_elastic_ops,
};
static _Atomic unsigned generations[LN_ARRAY_SIZE(tables)];

static const char *scheme_of(const struct ln_boot_url *u)
{
	/* The embedded service and etcd are one to us. */
	if (strcmp(u->scheme, "etcd") && strcmp(u->scheme, "lune"))
		return u->scheme;
	return u->size ? "fixed" : "elastic";
}

static int find_table(struct ln_boot *b)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(tables); i++) {
		if (strcmp(tables[i]->scheme, scheme_of(&b->url)))
			continue;
		b->ops = tables[i];
		b->generation = atomic_fetch_add(&generations[i], 1);
		return LUNE_OK;
	}
	return ln_error(LUNE_ERR_UNSUPPORTED, "no bootstrap for %.100s",
			b->info.url);
}

/* Take back what a failed open did, without losing its sentence. */
static void give_up(struct ln_boot *b)
{
	char why[1024];

	snprintf(why, sizeof(why), "%s", lune_last_error());
	b->ops->close(b, false, ln_deadline(GIVE_UP_MS, 0));
	ln_error_set(why);
}

static int open_chosen(struct ln_boot *b, const char *url, uint64_t deadline)
{
	int rc = ln_detect_url(b->conf, url, &b->info);

	if (!rc)
		rc = ln_url_parse(b->info.url, &b->url);
	if (!rc)
		rc = ln_key_load(b->conf, b->info.key, &b->have_key);
	if (!rc)
		rc = find_table(b);
	if (rc)
		return rc;
	ln_info("bootstrap %s, because %s", b->info.url, b->info.why);
	rc = b->ops->open(b, deadline);
	if (rc)
		give_up(b);
	return rc;
}

int ln_boot_open(const struct ln_config *conf, const char *url,
		 uint64_t deadline, struct ln_boot **out)
{
	struct ln_boot *b = ln_calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return LUNE_ERR_NOMEM;
	b->conf = conf;
	b->opened = ln_now_ns();
	b->info.local_rank = -1;
	b->info.local_size = -1;
	rc = open_chosen(b, url, deadline);
	if (rc) {
		explicit_bzero(b, sizeof(*b));
		ln_free(b);
		return rc;
	}
	ln_info("rank %d of %d, job %s, epoch %llu", b->info.rank, b->info.size,
		b->info.job, (unsigned long long)b->info.epoch);
	*out = b;
	return LUNE_OK;
}

const struct ln_boot_info *ln_boot_info(const struct ln_boot *b)
{
	return &b->info;
}

int ln_boot_detect(const struct ln_config *conf, const char *url, char *out_url,
		   size_t cap, char *why, size_t why_cap)
{
	struct ln_boot_info info;
	struct ln_boot_url u;
	int rc = ln_detect_url(conf, url, &info);

	if (!rc)
		rc = ln_url_parse(info.url, &u);
	if (rc)
		return rc;
	snprintf(out_url, cap, "%s", info.url);
	snprintf(why, why_cap, "%s", info.why);
	return LUNE_OK;
}

static int check_card(size_t len)
{
	if (len >= 1 && len <= LN_CARD_MAX)
		return LUNE_OK;
	return ln_error(LUNE_ERR_INVAL, "a card has 1 to %d bytes, not %zu",
			LN_CARD_MAX, len);
}

static void free_cards(struct ln_boot_card *cards, int n)
{
	for (int i = 0; i < n; i++)
		ln_free(cards[i].bytes);
	ln_free(cards);
}

int ln_boot_exchange(struct ln_boot *b, const void *card, size_t len,
		     uint64_t deadline, struct ln_boot_card **out)
{
	/* Tables only read it. */
	struct ln_boot_card mine = { .bytes = (uint8_t *)card, .len = len };
	struct ln_boot_card *cards;
	int rc = check_card(len);

	if (rc)
		return rc;
	if (b->info.elastic || b->exchanged)
		return ln_error(LUNE_ERR_INVAL, "cards are exchanged once, in "
						"a world of fixed size");
	b->exchanged = true;
	cards = ln_calloc((size_t)b->info.size, sizeof(*cards));
	if (!cards)
		return LUNE_ERR_NOMEM;
	rc = b->ops->exchange(b, &mine, deadline, cards);
	if (rc) {
		free_cards(cards, b->info.size);
		return rc;
	}
	*out = cards;
	return LUNE_OK;
}

int ln_boot_join(struct ln_boot *b, const void *card, size_t len,
		 uint64_t deadline)
{
	struct ln_boot_card mine = { .bytes = (uint8_t *)card, .len = len };
	int rc = check_card(len);

	if (rc)
		return rc;
	if (!b->info.elastic)
		return ln_error(LUNE_ERR_INVAL, "only an elastic world can be "
						"joined");
	return b->ops->join(b, &mine, deadline);
}

int ln_boot_member_next(struct ln_boot *b, uint64_t deadline,
			struct ln_boot_member *out)
{
	if (!b->info.elastic)
		return ln_error(LUNE_ERR_INVAL, "only an elastic world has "
						"changes of membership");
	return b->ops->next(b, deadline, out);
}

bool ln_boot_lost(const struct ln_boot *b)
{
	return b->info.elastic && b->ops->lost(b);
}

void ln_boot_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	if (!b)
		return;
	b->ops->close(b, clean, deadline);
	explicit_bzero(b, sizeof(*b));
	ln_free(b);
}
