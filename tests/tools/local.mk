# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += %D%/ckpt_bcast.sh
TESTS += %D%/ckpt_bcast.sh
