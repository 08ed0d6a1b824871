#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job, on this machine: a checkpoint from rank 0 to several ranks,
# then a paged KV-cache handoff between two processes.  Called by `make demo`
# in the build directory; CHECKPOINT=path takes a model of your own.
set -eu

src=${top_srcdir:-..}
ranks=${RANKS:-4}
work=$(mktemp -d "${TMPDIR:-/tmp}/lune-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say() {
	printf '\n== %s\n' "$*"
}

# Several ranks: mpirun where it is installed, else the tcp bootstrap alone.
launch() {
	n=$1
	shift
	if command -v mpirun >/dev/null 2>&1; then
		root=
		[ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
		mpirun $root --oversubscribe -n "$n" "$@"
		return
	fi
	port=$((20000 + $$ % 20000))
	pids=
	r=0
	while [ "$r" -lt "$n" ]; do
		LUNE_BOOTSTRAP="tcp://127.0.0.1:$port?rank=$r&size=$n" \
			"$@" &
		pids="$pids $!"
		r=$((r + 1))
	done
	rc=0
	for p in $pids; do
		wait "$p" || rc=$?
	done
	return "$rc"
}

if [ -n "${CHECKPOINT:-}" ]; then
	model=$CHECKPOINT
else
	model=$work/model
	say "making a sample model of 256 MiB (safetensors, 4 shards)"
	python3 "$src/tools/make_model.py" "$model" 256 4
	ls -l "$model"
fi

say "checkpoint to $ranks ranks, each its own copy, read back by every rank"
launch "$ranks" ./lune-ckpt bcast "$model" --to "$work/copy-{rank}" --verify

say "checkpoint once into this node's shared memory, for all $ranks ranks"
shm=/dev/shm/lune-demo.$$
[ -w /dev/shm ] || shm=$work/shm
trap 'rm -rf "$work" "$shm"' EXIT
launch "$ranks" ./lune-ckpt bcast "$model" --to "$shm" --verify

say "comparing the copies with cmp(1)"
r=0
while [ "$r" -lt "$ranks" ]; do
	diff -r "$model" "$work/copy-$r"
	r=$((r + 1))
done
diff -r "$model" "$shm"
echo "all copies equal the source"

say "KV-cache handoff: 61 layers x K and V x 64 pages of 16 KiB, one signal"
launch 2 ./kv_handoff

say "done: checkpoint delivered and verified, KV cache handed off"
