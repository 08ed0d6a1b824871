/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets around the declarations of every public header: C linkage for C++
 * programs, and default visibility, because the library itself is compiled
 * with -fvisibility=hidden and exports nothing else.
 */
#ifndef LUNE_DECLS_H
#define LUNE_DECLS_H

#ifdef __cplusplus
#define LUNE_LINKAGE_BEGIN extern "C" {
#define LUNE_LINKAGE_END }
#else
#define LUNE_LINKAGE_BEGIN
#define LUNE_LINKAGE_END
#endif

#define LUNE_DECLS_BEGIN \
	LUNE_LINKAGE_BEGIN _Pragma("GCC visibility push(default)")
#define LUNE_DECLS_END _Pragma("GCC visibility pop") LUNE_LINKAGE_END

#endif
