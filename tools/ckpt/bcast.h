/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BCAST_H
#define CKPT_BCAST_H

#include "ckpt.h"

/* One rank of `lune-ckpt bcast`; the exit code of the program. */
int ckpt_bcast(const struct ckpt_args *args);

#endif
