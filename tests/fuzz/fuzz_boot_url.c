/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of worlds: what is accepted is bounded and makes sense. */
#include <string.h>

#include "boot/internal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct ln_boot_url u;
	char text[1024];

	if (bytes >= sizeof(text))
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (ln_url_parse(text, &u))
		return 0;
	fuzz_require(u.size >= 0 && u.size <= LN_BOOT_SIZE_MAX, "a size");
	fuzz_require(u.rank >= -1 && (u.rank < 0 || u.rank < u.size),
		     "a rank below the size");
	fuzz_require(u.port >= 0 && u.port <= 65535, "a port");
	fuzz_require(!*u.job || ln_url_job_ok(u.job), "a job name");
	fuzz_require(strlen(u.host) < sizeof(u.host), "a host");
	return 0;
}

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	static const char *const seeds[] = {
		"self:",
		"tcp://[::1]:4711/job?rank=3&size=8",
		"etcd://a:1,b:22,[fe80::1]:333/a.job?size=16&rank=15",
		"lune://host:9/x",
	};

	if (i >= sizeof(seeds) / sizeof(seeds[0]))
		return NULL;
	*bytes = strlen(seeds[i]);
	return (const uint8_t *)seeds[i];
}
