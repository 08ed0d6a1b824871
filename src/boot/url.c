/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URL of a world:
 *
 *	self:  pmix:  torch:
 *	tcp://host:port[/job]?rank=R&size=N
 *	etcd://host:port[,host:port...]/job[?size=N[&rank=R]]
 *	lune://host:port[,host:port...]/job[?size=N[&rank=R]]
 *
 * IPv6 addresses stand in brackets.  Everything else is refused with a
 * sentence that says what was wrong, because a typing error here would show
 * as a job that waits for ranks that never come.
 */
#include <errno.h>
#include <stdlib.h>

#include "boot/internal.h"

static int bad(const char *text, const char *what)
{
	return ln_error(LUNE_ERR_INVAL, "bootstrap URL \"%.200s\": %s", text,
			what);
}

static bool number(const char *p, size_t len, long lo, long hi, int *out)
{
	char digits[12];
	char *end;
	long v;

	if (!len || len >= sizeof(digits) || strspn(p, "0123456789") < len)
		return false;
	memcpy(digits, p, len);
	digits[len] = '\0';
	errno = 0;
	v = strtol(digits, &end, 10);
	if (errno || *end || v < lo || v > hi)
		return false;
	*out = (int)v;
	return true;
}

static bool copy(char *to, size_t cap, const char *from, size_t len)
{
	if (len >= cap)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

bool ln_url_job_ok(const char *job)
{
	size_t len = strlen(job);

	if (!len || len >= LN_BOOT_JOB_MAX)
		return false;
	/* No name may be a path that climbs, whatever it becomes a part of. */
	if (!strcmp(job, ".") || !strcmp(job, ".."))
		return false;
	return strspn(job, "abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			   "0123456789._-") == len;
}

int ln_url_host_port(const char *text, char *host, size_t cap, int *port)
{
	size_t len = strcspn(text, ",");
	const char *colon = NULL;
	size_t hlen;

	if (*text == '[') {
		const char *close = memchr(text, ']', len);

		if (close && close[1] == ':')
			colon = close + 1;
		text++;
		len--;
		hlen = close ? (size_t)(close - text) : 0;
	} else {
		colon = memchr(text, ':', len);
		hlen = colon ? (size_t)(colon - text) : 0;
	}
	if (!colon || !hlen || !copy(host, cap, text, hlen))
		return LUNE_ERR_INVAL;
	colon++;
	if (!number(colon, (size_t)(text + len - colon), 0, 65535, port))
		return LUNE_ERR_INVAL;
	return LUNE_OK;
}

/* Every element of the list, and the first into host and port. */
static int parse_hosts(const char *text, struct ln_boot_url *u)
{
	char host[LN_BOOT_HOST_MAX];
	const char *p = u->hosts;
	int port;

	if (ln_url_host_port(p, u->host, sizeof(u->host), &u->port))
		return bad(text, "needs host:port after //");
	while ((p = strchr(p, ','))) {
		p++;
		if (ln_url_host_port(p, host, sizeof(host), &port) || !port)
			return bad(text, "needs host:port in each element of "
					 "the list");
	}
	return LUNE_OK;
}

static int parse_query(const char *text, const char *q, struct ln_boot_url *u)
{
	while (*q) {
		size_t len = strcspn(q, "&");
		bool good = false;

		if (!strncmp(q, "rank=", 5))
			good = number(q + 5, len - 5, 0, LN_BOOT_SIZE_MAX - 1,
				      &u->rank);
		else if (!strncmp(q, "size=", 5))
			good = number(q + 5, len - 5, 1, LN_BOOT_SIZE_MAX,
				      &u->size);
		if (!good)
			return bad(text, "after \"?\" stand rank=R (from 0) "
					 "and size=N (1 to 65536)");
		q += len + (q[len] == '&');
	}
	if (u->rank >= 0 && !u->size)
		return bad(text, "rank= needs size=");
	if (u->size && u->rank >= u->size)
		return bad(text, "rank must be below size");
	return LUNE_OK;
}

static int check_scheme(const char *text, const struct ln_boot_url *u)
{
	bool tcp = !strcmp(u->scheme, "tcp");

	if (tcp && (u->rank < 0 || strchr(u->hosts, ',')))
		return bad(text, "needs one host:port and ?rank=R&size=N");
	/* A world of one needs no meeting point, so its port may be 0. */
	if (!u->port && !(tcp && u->size == 1))
		return bad(text, "needs a port from 1 to 65535");
	if (!tcp && !*u->job)
		return bad(text, "needs a job name: //host:port/job");
	return LUNE_OK;
}

static bool is_one_of(const char *word, const char *const *set)
{
	for (; *set; set++)
		if (!strcmp(word, *set))
			return true;
	return false;
}

int ln_url_parse(const char *text, struct ln_boot_url *out)
{
	static const char *const local[] = { "self", "pmix", "torch", NULL };
	static const char *const remote[] = { "tcp", "etcd", "lune", NULL };
	struct ln_boot_url u = { .rank = -1 };
	size_t len = strcspn(text, ":");
	const char *p = text + len;
	int rc;

	if (!copy(u.scheme, sizeof(u.scheme), text, len))
		u.scheme[0] = '\0';
	if (is_one_of(u.scheme, local)) {
		if (*p && p[1] && strcmp(p, "://"))
			return bad(text, "takes nothing after the colon");
		*out = u;
		return LUNE_OK;
	}
	if (!is_one_of(u.scheme, remote) || strncmp(p, "://", 3))
		return bad(text, "must begin with self:, pmix:, torch:, "
				 "tcp://, etcd:// or lune://");
	p += 3;
	len = strcspn(p, "/?");
	if (!copy(u.hosts, sizeof(u.hosts), p, len))
		return bad(text, "the list of hosts is too long");
	rc = parse_hosts(text, &u);
	if (rc)
		return rc;
	p += len;
	if (*p == '/') {
		p++;
		len = strcspn(p, "?");
		if (len && (!copy(u.job, sizeof(u.job), p, len) ||
			    !ln_url_job_ok(u.job)))
			return bad(text, "a job name has up to 127 letters, "
					 "digits, '.', '_' and '-'");
		p += len;
	}
	rc = *p ? parse_query(text, p + 1, &u) : LUNE_OK;
	if (!rc)
		rc = check_scheme(text, &u);
	if (!rc)
		*out = u;
	return rc;
}
