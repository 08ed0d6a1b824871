# SPDX-License-Identifier: Apache-2.0
include %D%/harness/local.mk
include %D%/base/local.mk
include %D%/meta/local.mk
include %D%/topo/local.mk
include %D%/mem/local.mk
include %D%/boot/local.mk
include %D%/net/local.mk
include %D%/rt/local.mk
include %D%/rma/local.mk
include %D%/coll/local.mk
include %D%/tools/local.mk
include %D%/launch/local.mk
include %D%/fuzz/local.mk
include %D%/faults/local.mk
