/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot: who am I, how many are we, and one exchange of cards.  A bootstrap is
 * a const table; the URL (or what the environment shows) chooses it.  After
 * the exchange Lune's own connections do everything.
 */
#ifndef LN_BOOT_H
#define LN_BOOT_H

#include "base/base.h"

#define LN_CARD_MAX 4096
#define LN_BOOT_URL_MAX 1024

struct ln_boot; /* opened bootstrap */

struct ln_boot_info {
	int rank, size;	      /* elastic: rank is the slot, size slots so far */
	int local_rank, local_size; /* -1 when the launcher does not say */
	bool elastic;
	char job[128];	      /* the job's name, for logs and key derivation */
	char url[LN_BOOT_URL_MAX]; /* resolved, e.g. "torch://host:port/..." */
	char why[256];	      /* why this one was chosen, one sentence */
	uint64_t epoch;	      /* restart count (torchrun), membership epoch */
	uint8_t key[LN_KEY_BYTES]; /* the job key */
};

/*
 * Choose by url (NULL or "": LUNE_BOOTSTRAP, else detect in the order of
 * docs/bootstrap.md), join the world, learn rank, size and the job key.
 * Errors: LUNE_ERR_BOOT (sentence names the service, and the missing ranks
 * where known), LUNE_ERR_AUTH, LUNE_ERR_TIMEOUT, LUNE_ERR_UNSUPPORTED (this
 * build lacks it), LUNE_ERR_INVAL (URL).
 */
int ln_boot_open(const struct ln_config *conf, const char *url,
		 uint64_t deadline, struct ln_boot **out);
const struct ln_boot_info *ln_boot_info(const struct ln_boot *b);

/* The key of LUNE_JOB_KEY_FILE; *have tells whether there is one. */
int ln_key_load(const struct ln_config *conf, uint8_t key[LN_KEY_BYTES],
		bool *have);

/* Only choose and explain, joining nothing (lune-info). */
int ln_boot_detect(const struct ln_config *conf, const char *url, char *out_url,
		   size_t cap, char *why, size_t why_cap);

/*
 * Give our card (1..LN_CARD_MAX bytes), get everyone's.  cards[i] is allocated
 * (ln_free each and the array).  On LUNE_ERR_TIMEOUT the sentence names the
 * ranks that are missing.  Fixed worlds only, once.
 */
struct ln_boot_card {
	uint8_t *bytes;
	size_t len;
};
int ln_boot_exchange(struct ln_boot *b, const void *card, size_t len,
		     uint64_t deadline, struct ln_boot_card **out);

/* ---- elastic worlds (etcd://h:p/job without size) ---------------------- */

struct ln_boot_member {
	int slot;
	uint64_t epoch; /* membership epoch of this change */
	bool left;	/* else joined */
	uint8_t *card;	/* of a joined one; ln_free */
	size_t card_len;
};
/* Publish the card under our lease; claims the lowest free slot. */
int ln_boot_join(struct ln_boot *b, const void *card, size_t len,
		 uint64_t deadline);
/*
 * The next change of membership: first every present member as joined, then
 * changes as they happen.  LUNE_ERR_TIMEOUT when none came.  A member that
 * vanished by lease and one that left are both `left`.  One caller at a time.
 */
int ln_boot_member_next(struct ln_boot *b, uint64_t deadline,
			struct ln_boot_member *out);
/* Our own lease was lost: the world has seen us leave. */
bool ln_boot_lost(const struct ln_boot *b);

/*
 * Leave.  clean: every rank is alive and closes too (lets PMIx finalize and
 * the tcp rendezvous' rank 0 wait briefly for the others); never hangs: the
 * deadline bounds it.
 */
void ln_boot_close(struct ln_boot *b, bool clean, uint64_t deadline);

#endif
