/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bootstrap: the argument, LUNE_BOOTSTRAP, then what the environment
 * shows, in this order:
 *
 *	torchrun	TORCHELASTIC_RUN_ID, or RANK, WORLD_SIZE, MASTER_ADDR
 *	PMIx		PMIX_NAMESPACE
 *	etcd		LUNE_ETCD_ENDPOINTS and LUNE_JOB [and LUNE_WORLD_SIZE]
 *	self		nothing of these
 *
 * torchrun comes before PMIx because torchrun started by mpirun or srun hands
 * its workers the agent's PMIX_RANK: several processes would then be one
 * rank to the PMIx server, and hang.
 */
#include <errno.h>
#include <stdlib.h>

#include "boot/internal.h"

const char *ln_detect_text(const char *name)
{
	const char *v = ln_config_launcher(name);

	return v ? v : "";
}

int ln_detect_int(const char *name, int lo, int hi, int missing, int *out)
{
	const char *text = ln_detect_text(name);
	char *end;
	long v;

	if (!*text) {
		*out = missing;
		return LUNE_OK;
	}
	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || v < lo || v > hi)
		return ln_error(LUNE_ERR_BOOT,
				"%s=%.100s: must be an integer from %d to %d",
				name, text, lo, hi);
	*out = (int)v;
	return LUNE_OK;
}

static bool is_set(const char *name)
{
	return *ln_detect_text(name);
}

static bool have_torch(void)
{
	return is_set("TORCHELASTIC_RUN_ID") ||
	       (is_set("RANK") && is_set("WORLD_SIZE") &&
		is_set("MASTER_ADDR"));
}

static void choose(struct ln_boot_info *out, const char *url, const char *why)
{
	snprintf(out->url, sizeof(out->url), "%s", url);
	snprintf(out->why, sizeof(out->why), "%s", why);
}

static int etcd_url(const struct ln_config *conf, struct ln_boot_info *out)
{
	int n = snprintf(out->url, sizeof(out->url), "etcd://%s/%s",
			 conf->etcd_endpoints, conf->job);

	if (n < 0 || (size_t)n + 20 >= sizeof(out->url))
		return ln_error(LUNE_ERR_INVAL,
				"LUNE_ETCD_ENDPOINTS is too long");
	if (conf->world_size > 0)
		snprintf(out->url + n, sizeof(out->url) - (size_t)n,
			 "?size=%lld", (long long)conf->world_size);
	snprintf(out->why, sizeof(out->why),
		 "LUNE_ETCD_ENDPOINTS and LUNE_JOB are set%s",
		 conf->world_size > 0 ? ", and LUNE_WORLD_SIZE" :
					" (no LUNE_WORLD_SIZE: elastic)");
	return LUNE_OK;
}

int ln_detect_url(const struct ln_config *conf, const char *arg,
		  struct ln_boot_info *out)
{
	const char *text = arg && *arg ? arg : conf->bootstrap;

	if (*text) {
		if (strlen(text) >= sizeof(out->url))
			return ln_error(LUNE_ERR_INVAL,
					"the bootstrap URL has over %d bytes",
					LN_BOOT_URL_MAX - 1);
		choose(out, text,
		       arg && *arg ? "it was given as an argument" :
				     "LUNE_BOOTSTRAP is set");
		return LUNE_OK;
	}
	if (is_set("TORCHELASTIC_RUN_ID"))
		choose(out, "torch:", "torchrun set TORCHELASTIC_RUN_ID");
	else if (have_torch())
		choose(out, "torch:",
		       "RANK, WORLD_SIZE and MASTER_ADDR are set");
	else if (is_set("PMIX_NAMESPACE"))
		choose(out, "pmix:",
		       "the launcher (mpirun, srun) set PMIX_NAMESPACE");
	else if (*conf->etcd_endpoints && *conf->job)
		return etcd_url(conf, out);
	else
		choose(out, "self:",
		       "no launcher was found and LUNE_BOOTSTRAP is not set");
	return LUNE_OK;
}
