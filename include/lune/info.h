/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this build of Lune is.
 */
#ifndef LUNE_INFO_H
#define LUNE_INFO_H

#include <lune/decls.h>

LUNE_DECLS_BEGIN

/* The version of these headers. */
#define LUNE_VERSION_MAJOR 0
#define LUNE_VERSION_MINOR 1
#define LUNE_VERSION_PATCH 0

LUNE_DECLS_END

#endif
