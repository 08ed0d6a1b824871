# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += %D%/ckpt_bcast.sh
TESTS += %D%/ckpt_bcast.sh
dist_check_SCRIPTS += %D%/config_docs.sh %D%/lune_info.sh
TESTS += %D%/config_docs.sh %D%/lune_info.sh
