#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job under real mpirun: a checkpoint to 1, 2, 4 and 8 ranks, and the
# paged KV handoff, on shared memory and on tcp.
. "${top_srcdir:-.}/tests/launch/common.sh"
. "$top_srcdir/tests/launch/job.sh"
need_pmix
make_model 24

for n in 1 2 4 8; do
	mpirun_ranks $n "$top_builddir/put_get" &&
		lines $n '^rank [0-9]* got: hello from rank'
	check "put_get with $n ranks" $?
	mpirun_ranks $n "$ckpt" bcast "$model" --to "$work/c$n-{rank}" \
		--no-sync --verify && same_copies "$work/c$n-" $n
	check "a checkpoint to $n ranks" $?
done

for transports in self,shm,tcp self,tcp; do
	mpirun_ranks 2 -x LUNE_TRANSPORTS=$transports -- \
		"$top_builddir/kv_handoff" &&
		lines 1 '^decode: one signal, 7808 blocks, 0 wrong words'
	check "KV handoff over $transports" $?
	mpirun_ranks 3 -x LUNE_TRANSPORTS=$transports -- "$ckpt" bcast \
		"$model" --to "$work/$transports-{rank}" --no-sync &&
		same_copies "$work/$transports-" 3
	check "a checkpoint over $transports" $?
done

for bench in lune_put_bw lune_put_latency; do
	mpirun_ranks 2 "$top_builddir/$bench" -m 8:64K -i 20 -r 1 -c &&
		lines 14 'Pass$'
	check "$bench validates" $?
done
finish
