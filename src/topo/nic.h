/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LN_TOPO_NIC_H
#define LN_TOPO_NIC_H

#include "topo/topo.h"

/* Fill out->nics, best first. */
int ln_nic_read(const struct ln_config *conf, struct ln_topo *out);

#endif
