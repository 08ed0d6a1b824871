/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fixed.c and elastic.c share: worlds in a metadata service.
 *
 *	lune/<job>/run			the fixed world, forming or running
 *	lune/<job>/<run>/rank/000003	who is rank 3 of that run
 *	lune/<job>/<run>/card/000003	its card
 *	lune/<job>/key			job key of the elastic world
 *	lune/<job>/member/000003	card of the member in slot 3
 */
#ifndef LN_BOOT_WORLD_H
#define LN_BOOT_WORLD_H

#include "boot/internal.h"
#include "meta/meta.h"

#define LN_WORLD_KEY_MAX 256

int ln_world_connect(const struct ln_boot *b, struct ln_meta **out);
/* "lune/<job>/" and what. */
void ln_world_key(const struct ln_boot *b, const char *what,
		  char out[LN_WORLD_KEY_MAX]);
/* prefix and the slot's number. */
void ln_world_slot_key(const char *prefix, int slot,
		       char out[LN_WORLD_KEY_MAX]);
/* The slot of a key with this prefix; -1: another key, or no number. */
int ln_world_slot(const char *prefix, const char *key);
/* "host, process 123", for others' messages. */
void ln_world_who(char *out, size_t cap);
/* "etcd" or "the metadata service", and where, before a sentence. */
int ln_world_error(int code, const struct ln_boot *b);

#endif
