/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over a real etcd. */
#include <stdio.h>

#include "tests/boot/worlds.h"
#include "tests/meta/etcd_server.h"

int main(void)
{
	struct etcd e;
	char url[64];
	int failed;

	etcd_find(&e);
	if (etcd_start(&e, 1)) {
		fprintf(stderr, "etcd did not start\n");
		return 1;
	}
	snprintf(url, sizeof(url), "etcd://127.0.0.1:%d", e.member[0].port);
	failed = worlds_run(url);
	etcd_stop(&e);
	return failed;
}
