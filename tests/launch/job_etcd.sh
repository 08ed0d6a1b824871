#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job in worlds that meet in a real etcd: four processes with ranks
# that etcd gives, and the same job name again.
. "${top_srcdir:-.}/tests/launch/common.sh"
. "$top_srcdir/tests/launch/job.sh"
grep -q '^#define HAVE_ETCD 1' "$top_builddir/config.h" ||
	skip "this build has no etcd"
[ -n "$(command -v etcd)" ] || skip "etcd is not installed"
make_model 24

port=$((23000 + $$ % 9000))
stop_etcd() {
	kill "$etcd_pid" 2>/dev/null
	wait "$etcd_pid" 2>/dev/null
}
# In memory: its fsync would wait for everybody's writes to the disk.
data=$(mktemp -d /dev/shm/lune-etcd.XXXXXX 2>/dev/null || echo "$work/etcd")
remove_data() {
	rm -rf "$data"
}
cleanups="remove_data $cleanups"
etcd --data-dir "$data" --log-level error \
	--listen-client-urls "http://127.0.0.1:$port" \
	--advertise-client-urls "http://127.0.0.1:$port" \
	--listen-peer-urls "http://127.0.0.1:$((port + 1))" \
	--initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
	--initial-cluster "default=http://127.0.0.1:$((port + 1))" \
	>"$work/etcd.log" 2>&1 &
etcd_pid=$!
cleanups="stop_etcd $cleanups"

# etcd_ranks N PROGRAM...: no launcher, nobody told its rank.
etcd_ranks() {
	n=$1
	shift
	pids=
	i=0
	while [ $i -lt "$n" ]; do
		LUNE_BOOTSTRAP="etcd://127.0.0.1:$port/job?size=$n" \
			bounded 60 "$@" >"$work/out.$i" 2>"$work/err.$i" &
		pids="$pids $!"
		i=$((i + 1))
	done
	status=0
	for p in $pids; do
		wait "$p" || status=1
	done
	cat "$work"/out.* >"$work/out"
	cat "$work"/err.* >"$work/err"
	rm -f "$work"/out.* "$work"/err.*
	return $status
}

for round in first second; do
	etcd_ranks 4 "$top_builddir/put_get" &&
		lines 4 '^rank [0-3] got: hello from rank'
	check "put_get of 4 processes through etcd, $round job" $?
done
etcd_ranks 4 "$ckpt" bcast "$model" --to "$work/e-{rank}" --no-sync --verify &&
	same_copies "$work/e-" 4
check "a checkpoint to 4 processes through etcd" $?
finish
