#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tcp rendezvous between network namespaces over IPv4 and IPv6, and mpirun
# across namespaces.
. "${top_srcdir:-.}/tests/launch/common.sh"
. "$top_srcdir/tests/launch/netns.sh"
[ -x "$probe" ] || skip "$probe is not built"
netns_up 2

for address in "$(netns_v4 0)" "[$(netns_v6 0)]"; do
	: >"$work/err"
	pids=
	for rank in 0 1 2 3; do
		# Ranks 0 and 2 on host 0, 1 and 3 on host 1.
		bounded 30 ip netns exec "$(netns_of $((rank % 2)))" \
			"$probe" -t 20000 \
			-u "tcp://$address:4711/job?rank=$rank&size=4" \
			>"$work/out.$rank" 2>>"$work/err" &
		pids="$pids $!"
	done
	status=0
	for pid in $pids; do
		wait "$pid" || status=1
	done
	cat "$work"/out.* >"$work/out"
	[ $status -eq 0 ] && lines 4 '^ok rank'
	check "4 ranks on 2 hosts meet at $address" $?
done

bounded 30 ip netns exec "$(netns_of 1)" "$probe" -t 1000 \
	-u "tcp://$(netns_v4 0):4711?rank=1&size=2" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && lines 1 'LUNE_ERR_TIMEOUT: rank 0 of 2 did not serve'
check "an empty rendezvous names rank 0" $?

if [ -n "$(command -v mpirun)" ]; then
	need_pmix
	MPIRUN="ip netns exec $(netns_of 0) $MPIRUN"
	# shellcheck disable=SC2046 # a list of words
	mpirun_ranks 4 $(netns_mpirun 2) -- "$probe" -n 5 &&
		lines 20 '^ok rank .*pmix:'
	check "mpirun across 2 hosts, five worlds one after the other" $?
fi
finish
