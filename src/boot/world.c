/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and connections of worlds in a metadata service.
 */
#include <unistd.h>

#include "boot/world.h"

int ln_world_connect(const struct ln_boot *b, struct ln_meta **out)
{
	char url[sizeof(b->url.scheme) + sizeof(b->url.hosts) + 8];
	int rc;

	snprintf(url, sizeof(url), "%s://%s", b->url.scheme, b->url.hosts);
	rc = ln_meta_open(url, out);
	if (!rc && b->have_key)
		ln_meta_set_key(*out, b->info.key);
	return rc;
}

void ln_world_key(const struct ln_boot *b, const char *what,
		  char out[LN_WORLD_KEY_MAX])
{
	snprintf(out, LN_WORLD_KEY_MAX, "lune/%s/%s", b->info.job, what);
}

void ln_world_slot_key(const char *prefix, int slot, char out[LN_WORLD_KEY_MAX])
{
	snprintf(out, LN_WORLD_KEY_MAX, "%s%06d", prefix, slot);
}

int ln_world_slot(const char *prefix, const char *key)
{
	size_t len = strlen(prefix);
	int slot = 0;

	if (strncmp(key, prefix, len))
		return -1;
	key += len;
	if (strlen(key) != 6 || strspn(key, "0123456789") != 6)
		return -1;
	for (; *key; key++)
		slot = slot * 10 + (*key - '0');
	return slot < LN_BOOT_SIZE_MAX ? slot : -1;
}

void ln_world_who(char *out, size_t cap)
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(out, cap, "%s, process %d", host, (int)getpid());
}

int ln_world_error(int code, const struct ln_boot *b)
{
	return ln_error_prefix(code, "job %s at %s://%s", b->info.job,
			       b->url.scheme, b->url.hosts);
}
