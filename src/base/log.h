/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between log.c and config.c only: how LUNE_LOG sets the level.
 */
#ifndef LN_LOG_H
#define LN_LOG_H

/* The level of a name ("warn"), or LUNE_ERR_INVAL. */
int ln_log_level_parse(const char *name);

/* Set the level unless the program has set one itself. */
void ln_log_level_default(int level);

#endif
