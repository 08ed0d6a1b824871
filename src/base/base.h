/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: what every other folder stands on.  Nothing here knows of ranks,
 * peers or memory regions.  See README.md of this folder.
 */
#ifndef LN_BASE_H
#define LN_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <lune/log.h>
#include <lune/status.h>

#define LN_CACHELINE 64
#define LN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ln_container_of(p, type, member) \
	((type *)((char *)(p)-offsetof(type, member)))
#define LN_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ln_min(a, b) ((a) < (b) ? (a) : (b))
#define ln_max(a, b) ((a) > (b) ? (a) : (b))

/* ---- error.c: the thread's last error ---------------------------------- */

/*
 * Record the sentence of a failure and return code, so that the first
 * function that knows the cause writes `return ln_error(LUNE_ERR_PEER, "rank
 * %d ...", r)`.  ln_error_errno appends ": strerror(errno)" and returns code.
 * Callers further up pass codes on and do not record again, unless they know
 * more: ln_error_prefix puts "prefix: " before what is recorded.
 */
int ln_error(int code, const char *fmt, ...) LN_PRINTF(2, 3);
int ln_error_errno(int code, const char *fmt, ...) LN_PRINTF(2, 3);
int ln_error_prefix(int code, const char *fmt, ...) LN_PRINTF(2, 3);
/* Replace the thread's sentence (used to hand an error to another thread). */
void ln_error_set(const char *sentence);

/* ---- log.c ------------------------------------------------------------- */

/* Levels are in <lune/log.h>.  A message below the level costs one load. */
extern _Atomic int ln_log_level;
void ln_log_write(int level, const char *fmt, ...) LN_PRINTF(2, 3);
#define ln_log(level, ...)                                                   \
	do {                                                                 \
		if ((level) <= atomic_load_explicit(&ln_log_level,           \
						    memory_order_relaxed))   \
			ln_log_write((level), __VA_ARGS__);                  \
	} while (0)
#define ln_warn(...) ln_log(LUNE_LOG_WARN, __VA_ARGS__)
#define ln_info(...) ln_log(LUNE_LOG_INFO, __VA_ARGS__)
#define ln_debug(...) ln_log(LUNE_LOG_DEBUG, __VA_ARGS__)

/* ---- clock.c ----------------------------------------------------------- */

/* Monotonic nanoseconds. */
uint64_t ln_now_ns(void);
/* Deadlines are absolute monotonic ns; LN_NEVER never passes. */
#define LN_NEVER UINT64_MAX
/*
 * The deadline `timeout_ms` from now: LUNE_TIMEOUT_DEFAULT (-1) takes
 * default_ms, LUNE_FOREVER (-2) gives LN_NEVER, 0 gives now.
 */
uint64_t ln_deadline(int timeout_ms, int default_ms);
/* Milliseconds left, rounded up, for poll(2): 0 when passed, -1 for never. */
int ln_deadline_left_ms(uint64_t deadline);
bool ln_deadline_passed(uint64_t deadline);

/* ---- alloc.c ----------------------------------------------------------- */

/*
 * All allocation goes through these, so that tests can make the n-th one
 * fail (ln_alloc_fail_after).  NULL on failure with the thread's error
 * recorded.  ln_free takes NULL.  ln_calloc and ln_realloc_array check the
 * multiplication.
 */
void *ln_malloc(size_t bytes);
void *ln_calloc(size_t count, size_t bytes);
void *ln_realloc_array(void *old, size_t count, size_t bytes);
void *ln_alloc_aligned(size_t align, size_t bytes); /* zeroed */
char *ln_strdup(const char *s);
char *ln_asprintf(const char *fmt, ...) LN_PRINTF(1, 2);
void ln_free(void *p);
/* Test hook: the n-th allocation from now (1 = next) fails once; 0 = never. */
void ln_alloc_fail_after(long n);
/* Allocations made so far by this process (for "nothing on the data path"). */
uint64_t ln_alloc_count(void);

/* ---- rand.c, hash.c ---------------------------------------------------- */

int ln_random(void *buf, size_t bytes);  /* from the kernel */
uint64_t ln_hash64(const void *p, size_t bytes); /* XXH3 */
uint32_t ln_checksum32(const void *p, size_t bytes); /* XXH3 low 32 bits */
#define LN_MAC_BYTES 32
#define LN_KEY_BYTES 32
/* HMAC-SHA256 and its constant-time comparison (libsodium). */
void ln_hmac(const uint8_t key[LN_KEY_BYTES], const void *p, size_t bytes,
	     uint8_t mac[LN_MAC_BYTES]);
bool ln_mac_equal(const uint8_t a[LN_MAC_BYTES],
		  const uint8_t b[LN_MAC_BYTES]);

/* ---- uuid.c ------------------------------------------------------------ */

struct ln_uuid {
	uint8_t b[16];
};
int ln_uuid_make(struct ln_uuid *out);
bool ln_uuid_equal(const struct ln_uuid *a, const struct ln_uuid *b);
int ln_uuid_compare(const struct ln_uuid *a, const struct ln_uuid *b);
#define LN_UUID_TEXT 33 /* 32 hex digits and NUL */
void ln_uuid_text(const struct ln_uuid *u, char out[LN_UUID_TEXT]);

/* ---- pack.c: bounded little-endian encoding ---------------------------- */

/*
 * A writer or reader over a caller's buffer.  Once a step does not fit, `bad`
 * is set and all later steps do nothing (a reader gives zeroes), so a parser
 * checks `bad` once, at the end and before using a length.
 */
struct ln_pack {
	uint8_t *p;
	size_t len, cap;
	bool bad;
};
struct ln_unpack {
	const uint8_t *p;
	size_t pos, len;
	bool bad;
};
void ln_pack_u8(struct ln_pack *k, uint8_t v);
void ln_pack_u16(struct ln_pack *k, uint16_t v);
void ln_pack_u32(struct ln_pack *k, uint32_t v);
void ln_pack_u64(struct ln_pack *k, uint64_t v);
void ln_pack_bytes(struct ln_pack *k, const void *p, size_t n);
/* u16 length + bytes (no NUL). */
void ln_pack_str(struct ln_pack *k, const char *s);
uint8_t ln_unpack_u8(struct ln_unpack *u);
uint16_t ln_unpack_u16(struct ln_unpack *u);
uint32_t ln_unpack_u32(struct ln_unpack *u);
uint64_t ln_unpack_u64(struct ln_unpack *u);
void ln_unpack_bytes(struct ln_unpack *u, void *out, size_t n);
/* Copies at most cap-1 bytes and a NUL; longer strings are `bad`. */
void ln_unpack_str(struct ln_unpack *u, char *out, size_t cap);

/* ---- config.c ---------------------------------------------------------- */

enum ln_config_type { LN_CONF_INT, LN_CONF_SIZE, LN_CONF_BOOL, LN_CONF_STR };

/* The values, one member per row of config.def (named in lower case). */
struct ln_config {
#define LN_CONF_MEMBER_INT int64_t
#define LN_CONF_MEMBER_SIZE uint64_t
#define LN_CONF_MEMBER_BOOL bool
#define LN_CONF_MEMBER_STR char *
#define X(member, env, type, def, lo, hi, choices, help) \
	LN_CONF_MEMBER_##type member;
#include "config.def"
#undef X
	uint64_t set_by_env; /* bit i: row i came from the environment */
};

/*
 * Read the environment once into *c: bad values fail with LUNE_ERR_INVAL and
 * a sentence naming variable, value and what is allowed; an unknown LUNE_*
 * is warned about with the nearest known name.  SIZE takes k, M, G (1024).
 */
int ln_config_init(struct ln_config *c);
void ln_config_fini(struct ln_config *c);
/* Row i as text, for lune-info and the manual; false past the end. */
struct ln_config_row {
	const char *env, *type, *def, *help;
	char value[256];
	const char *source; /* "default" or "environment" */
};
bool ln_config_row(const struct ln_config *c, int i, struct ln_config_row *out);
/* Environment of the launcher (RANK, PMIX_NAMESPACE, ...): the only getenv. */
const char *ln_config_launcher(const char *name);

/* ---- counters.c -------------------------------------------------------- */

/* Counters of one context; relaxed atomics.  Rows in counters.def. */
struct ln_counters {
#define X(name, help) _Atomic uint64_t name;
#include "counters.def"
#undef X
};
#define ln_count(c, name, n) \
	atomic_fetch_add_explicit(&(c)->name, (n), memory_order_relaxed)
/* Row i: name, help and value; false past the end. */
bool ln_counters_row(const struct ln_counters *c, int i, const char **name,
		     const char **help, uint64_t *value);

#endif
