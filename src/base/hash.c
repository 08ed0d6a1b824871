/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums (XXH3, against accidents) and MACs (HMAC-SHA256, against
 * strangers).  Never use the former where the latter is meant.
 */
#include "base/base.h"

#include <sodium.h>
#include <xxhash.h>

_Static_assert(LN_MAC_BYTES == crypto_auth_hmacsha256_BYTES, "mac size");
_Static_assert(LN_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "key size");

uint64_t ln_hash64(const void *p, size_t bytes)
{
	return XXH3_64bits(p, bytes);
}

uint32_t ln_checksum32(const void *p, size_t bytes)
{
	return (uint32_t)XXH3_64bits(p, bytes);
}

void ln_hmac(const uint8_t key[LN_KEY_BYTES], const void *p, size_t bytes,
	     uint8_t mac[LN_MAC_BYTES])
{
	/* Cannot fail: it only computes. */
	crypto_auth_hmacsha256(mac, p, bytes, key);
}

bool ln_mac_equal(const uint8_t a[LN_MAC_BYTES], const uint8_t b[LN_MAC_BYTES])
{
	return sodium_memcmp(a, b, LN_MAC_BYTES) == 0;
}
