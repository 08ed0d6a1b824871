/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lune: processes join communicators, read and write each other's memory with
 * one-sided put and get, signal each other, and run collectives.
 *
 * Start at ctx.h (join a world), mem.h (memory and tickets), rma.h (put, get,
 * signals) and coll.h.  docs/concepts.md explains the guarantees.
 */
#ifndef LUNE_LUNE_H
#define LUNE_LUNE_H

#include <lune/coll.h>
#include <lune/comm.h>
#include <lune/ctx.h>
#include <lune/info.h>
#include <lune/log.h>
#include <lune/mem.h>
#include <lune/notify.h>
#include <lune/req.h>
#include <lune/rma.h>
#include <lune/signal.h>
#include <lune/status.h>

#endif
