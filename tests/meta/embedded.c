/* SPDX-License-Identifier: Apache-2.0 */
/* The common suite over the embedded server. */
#include "tests/meta/suite.h"

int main(void)
{
	struct ln_meta_server_opts o = { 0 };
	struct ln_meta_server *s;
	int rc;

	rc = ln_meta_server_start(&o, &s);
	if (rc) {
		fprintf(stderr, "%s\n", lune_last_error());
		return 1;
	}
	snprintf(suite_url, sizeof(suite_url), "lune://127.0.0.1:%d",
		 ln_meta_server_port(s));
	rc = suite_run("meta over the embedded server");
	ln_meta_server_stop(s);
	return rc;
}
