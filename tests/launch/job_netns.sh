#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job between hosts: network namespaces, by the tcp rendezvous over
# IPv4 and IPv6, and by mpirun across them.
. "${top_srcdir:-.}/tests/launch/common.sh"
. "$top_srcdir/tests/launch/job.sh"
. "$top_srcdir/tests/launch/netns.sh"
[ -x "$ckpt" ] || skip "$ckpt is not built"
netns_up 2
make_model 24

for address in "$(netns_v4 0)" "[$(netns_v6 0)]"; do
	: >"$work/out"
	pids=
	for rank in 0 1 2 3; do
		on_host $((rank % 2)) timeout 60 env \
			"LUNE_BOOTSTRAP=tcp://$address:4712?rank=$rank&size=4" \
			"$ckpt" bcast "$model" --to "$work/n-{rank}" \
			--no-sync --verify >"$work/out.$rank" \
			2>"$work/err.$rank" &
		pids="$pids $!"
	done
	status=0
	for pid in $pids; do
		wait "$pid" || status=1
	done
	cat "$work"/out.? >"$work/out"
	cat "$work"/err.? >"$work/err"
	[ $status -eq 0 ] && same_copies "$work/n-" 4
	check "a checkpoint to 4 ranks on 2 hosts, meeting at $address" $?
done

if [ -n "$(command -v mpirun)" ]; then
	need_pmix
	MPIRUN="ip netns exec $(netns_of 0) $MPIRUN"
	# shellcheck disable=SC2046 # a list of words
	mpirun_ranks 4 $(netns_mpirun 2) -- "$ckpt" bcast "$model" \
		--to "$work/m-{rank}" --no-sync --verify &&
		same_copies "$work/m-" 4
	check "a checkpoint by mpirun across 2 hosts" $?
	# shellcheck disable=SC2046
	mpirun_ranks 2 $(netns_mpirun 1) -- "$top_builddir/kv_handoff" &&
		lines 1 '^decode: one signal, 7808 blocks, 0 wrong words'
	check "KV handoff by mpirun across 2 hosts" $?
fi
finish
