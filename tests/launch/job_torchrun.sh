#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job under real torchrun.
. "${top_srcdir:-.}/tests/launch/common.sh"
. "$top_srcdir/tests/launch/job.sh"
need_torchrun
make_model 24

torchrun_ranks 4 "$ckpt" bcast "$model" --to "$work/t-{rank}" --no-sync \
	--verify && same_copies "$work/t-" 4
check "a checkpoint to 4 torchrun workers" $?

torchrun_ranks 4 "$ckpt" bcast "$model" --to "$work/node0" --no-sync \
	--verify && same_copies "$work/node" 1
check "one copy for the node of 4 workers" $?

torchrun_ranks 2 "$top_builddir/kv_handoff" &&
	lines 1 '^decode: one signal, 7808 blocks, 0 wrong words'
check "KV handoff between two workers" $?
finish
