/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random identities (RFC 9562 version 4).  Order is by bytes.
 */
#include "base/base.h"

int ln_uuid_make(struct ln_uuid *out)
{
	struct ln_uuid u;
	int rc = ln_random(u.b, sizeof(u.b));

	if (rc)
		return rc;
	u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x40);
	u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
	*out = u;
	return LUNE_OK;
}

bool ln_uuid_equal(const struct ln_uuid *a, const struct ln_uuid *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

int ln_uuid_compare(const struct ln_uuid *a, const struct ln_uuid *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

void ln_uuid_text(const struct ln_uuid *u, char out[LN_UUID_TEXT])
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < sizeof(u->b); i++) {
		out[2 * i] = digit[u->b[i] >> 4];
		out[2 * i + 1] = digit[u->b[i] & 15];
	}
	out[LN_UUID_TEXT - 1] = '\0';
}
