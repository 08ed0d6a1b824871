/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real etcd for tests: one or three members on loopback, on free ports, with
 * a temporary data folder.  A member dies with the test that started it.
 */
#ifndef LUNE_TESTS_ETCD_SERVER_H
#define LUNE_TESTS_ETCD_SERVER_H

#include <stdbool.h>

#define ETCD_MEMBERS_MAX 3

struct etcd {
	int members;
	char program[512];
	char folder[64]; /* data and logs */
	char cluster[256];
	struct {
		int port, peer_port, pid;
		bool frozen;
	} member[ETCD_MEMBERS_MAX];
};

/* Exits with 77 and the reason when there is no etcd on this machine. */
void etcd_find(struct etcd *e);
/* Start all; ready when it returns 0. */
int etcd_start(struct etcd *e, int members);
/* Kill one and wait for its end; start it again with its data. */
void etcd_kill(struct etcd *e, int member);
int etcd_restart(struct etcd *e, int member);
/* Of a member that does not run: forget its data. */
void etcd_wipe(struct etcd *e, int member);
/* Returns when it has stopped, or goes on. */
void etcd_freeze(struct etcd *e, int member, bool on);
/* Thaw what is frozen, start what was killed: after a failed test. */
int etcd_mend(struct etcd *e);
/* Kill all and remove everything. */
void etcd_stop(struct etcd *e);
/* A port of 127.0.0.1 on which nobody listens now. */
int etcd_free_port(void);

#endif
