/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of worlds in a metadata service, for any service.
 */
#ifndef LUNE_TESTS_BOOT_WORLDS_H
#define LUNE_TESTS_BOOT_WORLDS_H

/* url: "etcd://host:port" or "lune://host:port".  The number of failures. */
int worlds_run(const char *url);

#endif
