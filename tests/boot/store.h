/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small TCPStore for tests, written from the description of the protocol,
 * and servers that only look like one.
 */
#ifndef LUNE_TESTS_BOOT_STORE_H
#define LUNE_TESTS_BOOT_STORE_H

enum store_kind {
	STORE_GOOD,
	STORE_SILENT,	/* accepts and never answers */
	STORE_CLOSES,	/* closes at the first byte */
	STORE_GARBAGE,	/* answers everything with 0xff */
	STORE_STOPS,	/* good, until the ranks' cards are asked for */
};

/* Serve on 127.0.0.1:port until flag `done` of the run is `ranks`. */
void store_serve(int port, enum store_kind kind, unsigned done, int ranks);

#endif
