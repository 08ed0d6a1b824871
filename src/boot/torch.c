/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of torchrun: rank, size and place from its variables; the meeting
 * in the agent's TCPStore when it serves one, else by the tcp rendezvous on
 * the ports after MASTER_PORT (that port itself is for torch.distributed).
 *
 * The store outlives the workers, and torchrun starts them again after a
 * failure, or when nodes come and go; the restart count is in all key names,
 * but does not grow in the second case.  So a world has a random name, and
 * nothing that lies in the store from an earlier one can be taken for part
 * of it:
 *
 *	rank r	append (r, nonce) to "log"; await "welcome.r" with this nonce:
 *		it holds the name of the world and the job key; set
 *		"<name>.ack.r"
 *	rank 0	invents the name; welcomes every new entry of the log; until
 *		all have set their ack
 *	all	set "<name>.card.r", wait for everybody's, get them
 *
 * Entries of processes that are gone are welcomed in vain.
 *
 * A store that does not answer like one we know is not used: whether it does
 * is found by one request with a known answer.  All ranks talk to the same
 * server, so they come to the same result.
 */
#include <stdlib.h>

#include "boot/tcpstore.h"

#define PROBE_MS 10000
#define SEARCH_MS 2000
#define NAP_MS 10
#define NAP_MAX_MS 200
#define FALLBACK_PORTS 8
#define NONCE 16
#define NAME 16
#define LOG_ENTRY (4 + NONCE)

struct state {
	int fd; /* of the store, or -1 */
	char host[LN_BOOT_HOST_MAX];
	int port;
	char prefix[192]; /* of all keys: run and restart count */
	char world[2 * NAME + 1];
};

struct welcome {
	uint8_t nonce[NONCE], name[NAME], key[LN_KEY_BYTES];
};

static struct state *state_of(const struct ln_boot *b)
{
	return b->priv;
}

static void hex(char *to, const uint8_t *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*to++ = digits[p[i] >> 4];
		*to++ = digits[p[i] & 15];
	}
	*to = '\0';
}

#define KEY_BYTES 320
static const char *key_of(const struct state *s, const char *what,
			  char buf[KEY_BYTES])
{
	snprintf(buf, KEY_BYTES, "%s%s", s->prefix, what);
	return buf;
}

/* Keys of the world: "<prefix><name>.<what>." and the rank. */
static const char *world_key(const struct state *s, const char *what,
			     char buf[KEY_BYTES])
{
	snprintf(buf, KEY_BYTES, "%s%s.%s.", s->prefix, s->world, what);
	return buf;
}

static int read_environment(struct ln_boot *b, struct state *s)
{
	struct ln_boot_info *info = &b->info;
	const char *run = ln_detect_text("TORCHELASTIC_RUN_ID");
	const char *host = ln_detect_text("MASTER_ADDR");
	int most = LN_BOOT_SIZE_MAX, restarts;
	int rc = ln_detect_int("WORLD_SIZE", 1, most, 0, &info->size);

	if (!rc)
		rc = ln_detect_int("RANK", 0, most - 1, -1, &info->rank);
	if (!rc)
		rc = ln_detect_int("LOCAL_RANK", 0, most - 1, -1,
				   &info->local_rank);
	if (!rc)
		rc = ln_detect_int("LOCAL_WORLD_SIZE", 1, most, -1,
				   &info->local_size);
	if (!rc)
		rc = ln_detect_int("MASTER_PORT", 1, 65535, 0, &s->port);
	if (!rc)
		rc = ln_detect_int("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX,
				   0, &restarts);
	if (rc)
		return rc;
	if (!info->size || info->rank < 0 || info->rank >= info->size)
		return ln_error(LUNE_ERR_BOOT,
				"torch: RANK and WORLD_SIZE must be set, RANK "
				"below WORLD_SIZE");
	if (!*host || strlen(host) >= sizeof(s->host) || !s->port)
		return ln_error(LUNE_ERR_BOOT,
				"torch: MASTER_ADDR and MASTER_PORT must be "
				"set");
	info->epoch = (uint64_t)restarts;
	snprintf(s->host, sizeof(s->host), "%s", host);
	snprintf(info->job, sizeof(info->job), "%.127s", *run ? run : "torch");
	snprintf(s->prefix, sizeof(s->prefix), "/lune/%s/%d/", info->job,
		 restarts);
	return LUNE_OK;
}

static bool agent_serves(void)
{
	const char *v = ln_detect_text("TORCHELASTIC_USE_AGENT_STORE");

	return !strcmp(v, "True") || !strcmp(v, "true") || !strcmp(v, "1");
}

/* Connect to the agent's store; it runs already, but may be busy. */
static int find_store(struct state *s, uint64_t deadline)
{
	int left = ln_deadline_left_ms(deadline);
	/* The tcp rendezvous needs time, too. */
	int limit = left < 0 ? PROBE_MS : ln_min(left / 3, PROBE_MS);
	uint64_t till = ln_deadline(limit, 0);
	char key[KEY_BYTES];
	int rc;

	key_of(s, "probe", key);
	for (;;) {
		rc = ln_store_open(s->host, s->port, key, till, &s->fd);
		if (rc != LUNE_ERR_UNREACHABLE || ln_deadline_passed(till))
			return rc;
		ln_bsock_nap(till, NAP_MAX_MS);
	}
}

/* From here on this is a bootstrap of the tcp kind, with its state. */
static int use_tcp(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = b->priv;
	struct ln_tcp_where at = { .ports = FALLBACK_PORTS };
	char host[LN_BOOT_HOST_MAX];

	/* Above the last port there is room below. */
	at.port = s->port + FALLBACK_PORTS > 65535 ? s->port - FALLBACK_PORTS :
						     s->port + 1;
	snprintf(host, sizeof(host), "%s", s->host);
	at.host = host;
	ln_free(s);
	b->priv = NULL;
	b->ops = &ln_tcp_ops;
	snprintf(b->info.url, sizeof(b->info.url), "torch: (tcp %s:%d)", host,
		 at.port);
	return ln_tcp_open(b, &at, deadline);
}

static int share_key(struct ln_boot *b, struct welcome *w)
{
	int rc = ln_random(w->name, sizeof(w->name));

	if (!rc && !b->have_key) {
		rc = ln_random(w->key, sizeof(w->key));
		if (!rc)
			memcpy(b->info.key, w->key, LN_KEY_BYTES);
	}
	hex(state_of(b)->world, w->name, NAME);
	return rc;
}

/* Welcome whoever is new in the log since *seen bytes. */
static int welcome_new(struct ln_boot *b, struct welcome *w, size_t *seen,
		       uint64_t deadline)
{
	const struct state *s = b->priv;
	struct ln_boot_card log;
	char what[32], key[KEY_BYTES];
	struct ln_store_bytes value = { w, sizeof(*w) };
	int rc = ln_store_get(s->fd, key_of(s, "log", key), deadline, &log);

	if (rc)
		return rc;
	for (; !rc && *seen + LOG_ENTRY <= log.len; *seen += LOG_ENTRY) {
		struct ln_unpack u = { .p = log.bytes + *seen,
				       .len = LOG_ENTRY };

		snprintf(what, sizeof(what), "welcome.%u", ln_unpack_u32(&u));
		ln_unpack_bytes(&u, w->nonce, NONCE);
		rc = ln_store_set(s->fd, key_of(s, what, key), value,
				  deadline);
	}
	ln_free(log.bytes);
	return rc;
}

/* Which ranks have set their key of this kind. */
static int find_present(const struct ln_boot *b, const char *what,
			uint64_t deadline, bool *there)
{
	const struct state *s = b->priv;
	char prefix[KEY_BYTES];
	struct ln_store_keys one = { .count = 1 };
	int rc = LUNE_OK;

	one.prefix = world_key(s, what, prefix);
	for (int i = 0; !rc && i < b->info.size; i++) {
		one.first = i;
		rc = ln_store_check(s->fd, &one, deadline, &there[i]);
	}
	return rc;
}

static bool all_of(const bool *there, int n)
{
	for (int i = 0; i < n; i++)
		if (!there[i])
			return false;
	return true;
}

/*
 * After a deadline, over a fresh connection: who never came, or, if all did,
 * whose card is missing.
 */
static int name_missing(struct ln_boot *b)
{
	struct state *s = b->priv;
	uint64_t deadline = ln_deadline(SEARCH_MS, 0);
	bool *there = ln_calloc((size_t)b->info.size, sizeof(*there));
	char key[KEY_BYTES];
	int rc;

	if (!there)
		return LUNE_ERR_NOMEM;
	ln_bsock_close(&s->fd);
	rc = ln_store_open(s->host, s->port, key_of(s, "probe", key), deadline,
			   &s->fd);
	if (!rc)
		rc = find_present(b, "ack", deadline, there);
	if (!rc && all_of(there, b->info.size))
		rc = find_present(b, "card", deadline, there);
	if (rc)
		rc = ln_error_prefix(LUNE_ERR_BOOT,
				     "torchrun's store at %s:%d does not "
				     "answer any more", s->host, s->port);
	else
		rc = ln_ranks_error(LUNE_ERR_TIMEOUT, b, there,
				    "torchrun's store");
	ln_free(there);
	return rc;
}

/* What a lost or strange store is to the caller; others are said already. */
static int store_error(const struct ln_boot *b, int rc)
{
	const struct state *s = b->priv;

	if (rc != LUNE_ERR_PEER && rc != LUNE_ERR_PROTO)
		return rc;
	return ln_error_prefix(LUNE_ERR_BOOT, "torchrun's store at %s:%d",
			       s->host, s->port);
}

static int append_log(const struct ln_boot *b, const uint8_t nonce[NONCE],
		      uint64_t deadline)
{
	const struct state *s = b->priv;
	uint8_t entry[LOG_ENTRY];
	struct ln_pack k = { .p = entry, .cap = sizeof(entry) };
	struct ln_store_bytes value = { entry, sizeof(entry) };
	char key[KEY_BYTES];

	ln_pack_u32(&k, (uint32_t)b->info.rank);
	ln_pack_bytes(&k, nonce, NONCE);
	return ln_store_append(s->fd, key_of(s, "log", key), value, deadline);
}

static int set_mine(const struct ln_boot *b, const char *what,
		    struct ln_store_bytes value, uint64_t deadline)
{
	const struct state *s = b->priv;
	char prefix[KEY_BYTES], key[KEY_BYTES + 16];

	world_key(s, what, prefix);
	snprintf(key, sizeof(key), "%s%d", prefix, b->info.rank);
	return ln_store_set(s->fd, key, value, deadline);
}

static int lead(struct ln_boot *b, uint64_t deadline)
{
	const struct state *s = b->priv;
	struct ln_store_keys acks = { .count = b->info.size };
	char prefix[KEY_BYTES];
	struct welcome w = { 0 };
	bool all = false;
	size_t seen = 0;
	int nap = NAP_MS, rc = share_key(b, &w);

	acks.prefix = world_key(s, "ack", prefix);
	if (!rc)
		rc = append_log(b, w.nonce, deadline);
	if (!rc)
		rc = set_mine(b, "ack", (struct ln_store_bytes){ "1", 1 },
			      deadline);
	while (!rc && !all) {
		rc = welcome_new(b, &w, &seen, deadline);
		if (!rc)
			rc = ln_store_check(s->fd, &acks, deadline, &all);
		if (!rc && !all && ln_deadline_passed(deadline))
			rc = LUNE_ERR_TIMEOUT;
		if (!rc && !all)
			ln_bsock_nap(deadline, nap);
		nap = ln_min(nap + nap / 4 + 1, NAP_MAX_MS);
	}
	explicit_bzero(&w, sizeof(w));
	return rc == LUNE_ERR_TIMEOUT ? name_missing(b) : rc;
}

/* Is there a welcome for this nonce? */
static int look_for_welcome(const struct ln_boot *b, struct welcome *w,
			    uint64_t deadline, bool *out)
{
	const struct state *s = b->priv;
	char prefix[KEY_BYTES], key[KEY_BYTES + 16];
	struct ln_store_keys mine = { .first = b->info.rank, .count = 1 };
	struct ln_boot_card value;
	bool there;
	int rc;

	mine.prefix = key_of(s, "welcome.", prefix);
	rc = ln_store_check(s->fd, &mine, deadline, &there);
	if (rc || !there)
		return rc;
	snprintf(key, sizeof(key), "%s%d", prefix, b->info.rank);
	rc = ln_store_get(s->fd, key, deadline, &value);
	if (rc)
		return rc;
	/* Of an earlier world, unless it is the nonce of this one. */
	if (value.len == sizeof(*w) &&
	    !memcmp(value.bytes, w->nonce, sizeof(w->nonce))) {
		memcpy(w, value.bytes, sizeof(*w));
		*out = true;
	}
	ln_free(value.bytes);
	return LUNE_OK;
}

static int accept_welcome(struct ln_boot *b, struct welcome *w,
			  uint64_t deadline)
{
	hex(state_of(b)->world, w->name, NAME);
	if (!b->have_key)
		memcpy(b->info.key, w->key, LN_KEY_BYTES);
	return set_mine(b, "ack", (struct ln_store_bytes){ "1", 1 }, deadline);
}

static int follow(struct ln_boot *b, uint64_t deadline)
{
	struct welcome w = { 0 };
	bool found = false;
	int nap = NAP_MS, rc = ln_random(w.nonce, sizeof(w.nonce));

	if (!rc)
		rc = append_log(b, w.nonce, deadline);
	while (!rc && !found) {
		rc = look_for_welcome(b, &w, deadline, &found);
		if (!rc && !found && ln_deadline_passed(deadline))
			rc = ln_error(LUNE_ERR_TIMEOUT,
				      "rank 0 of %d did not join in time "
				      "(torchrun's store)", b->info.size);
		if (!rc && !found)
			ln_bsock_nap(deadline, nap);
		nap = ln_min(nap + nap / 4 + 1, NAP_MAX_MS);
	}
	if (!rc)
		rc = accept_welcome(b, &w, deadline);
	explicit_bzero(&w, sizeof(w));
	return rc;
}

static int torch_open(struct ln_boot *b, uint64_t deadline)
{
	struct state *s = ln_calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return LUNE_ERR_NOMEM;
	s->fd = -1;
	b->priv = s;
	rc = read_environment(b, s);
	if (rc)
		return rc;
	if (!agent_serves() || b->info.size == 1)
		return use_tcp(b, deadline);
	rc = find_store(s, deadline);
	if (rc) {
		ln_info("torchrun's store at %s:%d is not used: %s", s->host,
			s->port, lune_last_error());
		return use_tcp(b, deadline);
	}
	snprintf(b->info.url, sizeof(b->info.url), "torch: (store %s:%d)",
		 s->host, s->port);
	rc = b->info.rank ? follow(b, deadline) : lead(b, deadline);
	return store_error(b, rc);
}

static int torch_exchange(struct ln_boot *b, const struct ln_boot_card *mine,
			  uint64_t deadline, struct ln_boot_card *cards)
{
	struct state *s = b->priv;
	struct ln_store_bytes value = { mine->bytes, mine->len };
	struct ln_store_keys keys = { .count = b->info.size };
	char prefix[KEY_BYTES];
	int rc = set_mine(b, "card", value, deadline);

	keys.prefix = world_key(s, "card", prefix);
	if (!rc)
		rc = ln_store_wait(s->fd, &keys, deadline);
	if (rc == LUNE_ERR_TIMEOUT)
		return name_missing(b);
	for (int i = 0; !rc && i < b->info.size; i += keys.count) {
		keys.first = i;
		keys.count = ln_min(b->info.size - i, LN_STORE_BATCH);
		rc = ln_store_get_cards(s->fd, &keys, deadline, &cards[i]);
	}
	ln_bsock_close(&s->fd);
	return store_error(b, rc);
}

static void torch_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	struct state *s = b->priv;

	(void)clean;
	(void)deadline;
	if (!s)
		return;
	ln_bsock_close(&s->fd);
	ln_free(s);
	b->priv = NULL;
}

const struct ln_boot_ops ln_torch_ops = {
	.scheme = "torch",
	.open = torch_open,
	.exchange = torch_exchange,
	.close = torch_close,
};
