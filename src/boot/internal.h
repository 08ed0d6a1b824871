/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of boot share: the table of a bootstrap, the parsed URL and
 * small helpers.
 */
#ifndef LN_BOOT_INTERNAL_H
#define LN_BOOT_INTERNAL_H

#include "boot/boot.h"

#define LN_BOOT_SIZE_MAX 65536 /* ranks of one world */
#define LN_BOOT_HOST_MAX 256
#define LN_BOOT_JOB_MAX 128

/* ---- url.c --------------------------------------------------------------- */

struct ln_boot_url {
	char scheme[8];	 /* "tcp", without the colon */
	char hosts[512]; /* "host:port[,host:port...]" */
	char host[LN_BOOT_HOST_MAX]; /* of the first, without brackets */
	int port;
	char job[LN_BOOT_JOB_MAX];
	int rank; /* -1: not given */
	int size; /* 0: not given */
};
int ln_url_parse(const char *text, struct ln_boot_url *out);
/* The first "host:port" or "[host]:port" of a list. */
int ln_url_host_port(const char *text, char *host, size_t cap, int *port);
/* May be a part of keys: letters, digits, '.', '_' and '-'. */
bool ln_url_job_ok(const char *job);

/* ---- one bootstrap ------------------------------------------------------- */

struct ln_boot_ops {
	const char *scheme;
	/* Fill b->info: rank, size, job, key unless b->have_key. */
	int (*open)(struct ln_boot *b, uint64_t deadline);
	/* cards is zeroed and has info.size entries; freed by the caller. */
	int (*exchange)(struct ln_boot *b, const struct ln_boot_card *mine,
			uint64_t deadline, struct ln_boot_card *cards);
	/* Elastic only, else NULL. */
	int (*join)(struct ln_boot *b, const struct ln_boot_card *mine,
		    uint64_t deadline);
	int (*next)(struct ln_boot *b, uint64_t deadline,
		    struct ln_boot_member *out);
	bool (*lost)(const struct ln_boot *b);
	/* Also after a failed open; frees b->priv. */
	void (*close)(struct ln_boot *b, bool clean, uint64_t deadline);
};
extern const struct ln_boot_ops ln_self_ops, ln_tcp_ops, ln_torch_ops,
	ln_pmix_ops, ln_fixed_ops, ln_elastic_ops;

struct ln_boot {
	const struct ln_boot_ops *ops;
	const struct ln_config *conf;
	struct ln_boot_info info;
	struct ln_boot_url url;
	bool have_key;	  /* info.key came from LUNE_JOB_KEY_FILE */
	bool exchanged;
	/*
	 * How many of this kind this process opened before.  All ranks open
	 * theirs in the same order, so it tells one world from the next in
	 * names that the launcher's store keeps for the whole job.
	 */
	unsigned generation;
	uint64_t opened; /* monotonic ns */
	void *priv;
};

/* ---- detect.c ------------------------------------------------------------ */

/* The URL that was given or is found, and why, as a sentence. */
int ln_detect_url(const struct ln_config *conf, const char *arg,
		  struct ln_boot_info *out);
/* A launcher's variable as a number in lo..hi; false: absent.  Bad: error. */
int ln_detect_int(const char *name, int lo, int hi, int missing, int *out);
const char *ln_detect_text(const char *name); /* "" when absent */

/* ---- ranks.c ------------------------------------------------------------- */

/*
 * "rank 3", "ranks 3 and 5..7": those whose `there` is false; ends with "and
 * more" when it does not fit.  Returns how many.
 */
int ln_ranks_missing(const bool *there, int n, char *out, size_t cap);
/* Record "ranks ... of n did not join within t s (where)". */
int ln_ranks_error(int code, const struct ln_boot *b, const bool *there,
		   const char *where);
/* The sentence that ln_ranks_error records. */
void ln_ranks_sentence(const struct ln_boot *b, const bool *there,
		       const char *where, char *out, size_t cap);
/* Copy a card into its place. */
int ln_ranks_card(struct ln_boot_card *to, const void *p, size_t len);

/* ---- bsock.c: blocking sockets with deadlines ---------------------------- */

/*
 * LUNE_OK, LUNE_ERR_TIMEOUT (deadline), LUNE_ERR_PEER (closed or reset) or
 * LUNE_ERR_UNREACHABLE (no connection).  Sockets are non-blocking, CLOEXEC.
 */
int ln_bsock_connect(const char *host, int port, uint64_t deadline, int *out);
int ln_bsock_listen(const char *host, int port, int *out);
int ln_bsock_port(int fd);
int ln_bsock_read(int fd, void *p, size_t bytes, uint64_t deadline);
int ln_bsock_write(int fd, const void *p, size_t bytes, uint64_t deadline);
void ln_bsock_close(int *fd); /* -1 is nothing */
void ln_bsock_nap(uint64_t deadline, int ms); /* sleep, not past deadline */

/* ---- tcp.c --------------------------------------------------------------- */

/*
 * The rendezvous as torch.c uses it.  Ports port to port + ports - 1 are
 * tried: rank 0 serves on the first that is free, the others look for it.
 */
struct ln_tcp_where {
	const char *host;
	int port, ports;
};
int ln_tcp_open(struct ln_boot *b, const struct ln_tcp_where *at,
		uint64_t deadline);

#endif
