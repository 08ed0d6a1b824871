/* SPDX-License-Identifier: Apache-2.0 */
/* The common suite over a real etcd. */
#include "tests/meta/etcd_server.h"
#include "tests/meta/suite.h"

int main(void)
{
	struct etcd e;
	int rc = 1;

	etcd_find(&e);
	if (!etcd_start(&e, 1)) {
		snprintf(suite_url, sizeof(suite_url), "etcd://127.0.0.1:%d",
			 e.member[0].port);
		rc = suite_run("meta over etcd");
	}
	etcd_stop(&e);
	return rc;
}
