#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lune-ckpt bcast as a user meets it: ranks by the tcp bootstrap, real files,
# and what must go wrong cleanly.  Needs no launcher.
set -u

build=${top_builddir:-.}
src=${top_srcdir:-..}
ckpt=$build/lune-ckpt
# In memory where there is room: the disk is not what is tested.
base=${TMPDIR:-/tmp}
[ "$(df -k /dev/shm 2>/dev/null | awk 'END { print $4 }')" -lt 3000000 ] 2>/dev/null ||
	base=/dev/shm
work=$(mktemp -d "$base/lune-ckpt-test.XXXXXX")
failed=0
port_base=$((21000 + $$ % 20000))
runs=0

cleanup() {
	[ -z "${tiny:-}" ] || umount "$tiny" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*"
	failed=$((failed + 1))
}

ok() {
	echo "ok: $*"
}

# ranks N ARGS...: start N ranks; pids in $pids, output in $work/out.R
ranks() {
	n=$1
	shift
	runs=$((runs + 1))
	port=$((port_base + runs))
	pids=
	r=0
	while [ "$r" -lt "$n" ]; do
		LUNE_BOOTSTRAP="tcp://127.0.0.1:$port?rank=$r&size=$n" \
			"$ckpt" "$@" >"$work/out.$r" 2>&1 &
		pids="$pids $!"
		r=$((r + 1))
	done
}

# collect: wait for all; exit codes in $codes
collect() {
	codes=
	for p in $pids; do
		wait "$p"
		codes="$codes $?"
	done
}

expect_codes() {
	what=$1
	want=$2
	for c in $codes; do
		case " $want " in
		*" $c "*) ;;
		*)
			fail "$what: exit codes$codes, wanted $want"
			cat "$work"/out.*
			return 1
			;;
		esac
	done
	return 0
}

no_leftovers() {
	left=$(find "$work" -name '*.partial-*' -o -name '*.old-*')
	[ -z "$left" ] || fail "$1: left behind: $left"
}

says() {
	grep -q -- "$2" "$work"/out.* || {
		fail "$1: no rank says '$2'"
		cat "$work"/out.*
	}
}

python3 "$src/tools/make_model.py" "$work/model" 24 3 || exit 99
mkdir "$work/model/sub"
printf x >"$work/model/sub/one_byte"
ln -s ../config.json "$work/model/sub/linked.json"

ranks 3 bcast "$work/model" --to "$work/a-{rank}" --verify --no-sync
collect
expect_codes "three copies" 0 && {
	for r in 0 1 2; do
		diff -r "$work/model" "$work/a-$r" >/dev/null ||
			fail "copy $r differs"
	done
	ok "a directory arrives in three copies"
}

ranks 3 bcast "$work/model" --to "$work/node" --block 64K --no-sync
collect
expect_codes "once per node" 0 &&
	diff -r "$work/model" "$work/node" >/dev/null &&
	ok "one copy for a node, small blocks"

ranks 2 bcast "$work/model" --to "$work/node" --no-sync
collect
expect_codes "existing destination" 1 && says "existing destination" "exists"
diff -r "$work/model" "$work/node" >/dev/null || fail "it was touched"
ranks 2 bcast "$work/model" --to "$work/node" --force --no-sync
collect
expect_codes "--force" 0 && ok "an existing destination is kept, or replaced"

: >"$work/empty"
ranks 2 bcast "$work/empty" --to "$work/e-{rank}" --no-sync --verify
collect
expect_codes "empty file" 0 && [ ! -s "$work/e-1" ] && [ -f "$work/e-1" ] &&
	ok "an empty file arrives"

ranks 1 bcast "$work/model" --to "$work/alone" --no-sync --verify
collect
expect_codes "alone" 0 && ok "a world of one copies"

ranks 2 bcast "$work/nothing" --to "$work/n-{rank}"
collect
expect_codes "no source" 1 && says "no source" "No such file"

ranks 2 bcast "$work/model" --to "$work/model"
collect
expect_codes "onto itself" 1 && ok "missing source, source as destination"

head -c 3000000 "$work/model/model-00001-of-00003.safetensors" \
	>"$work/cut.safetensors"
ranks 2 bcast "$work/cut.safetensors" --to "$work/cut-{rank}"
collect
expect_codes "truncated safetensors" 3 &&
	says "truncated safetensors" "truncated" &&
	ok "a truncated safetensors file is refused"

for bad in "" "bcast" "push x" "bcast x --block 1" "bcast x --timeout z" \
	"bcast x y" "bcast x --what"; do
	# shellcheck disable=SC2086
	"$ckpt" $bad >"$work/usage" 2>&1
	[ $? -eq 2 ] || fail "lune-ckpt $bad: not exit 2"
done
ok "wrong arguments give usage and exit 2"

tiny=$work/tiny
mkdir "$tiny"
if mount -t tmpfs -o size=4m tmpfs "$tiny" 2>/dev/null; then
	ranks 2 bcast "$work/model" --to "$tiny/m-{rank}"
	collect
	expect_codes "full disk" 1 && says "full disk" "free" &&
		ok "a full disk is told before the first byte"
	[ -z "$(ls "$tiny")" ] || fail "full disk: left $(ls "$tiny")"
else
	tiny=
	echo "skipped: a full disk (mounting a tmpfs is not allowed)"
fi

# A job is under way when all its partial directories exist: look until then.
python3 "$src/tools/make_model.py" "$work/big" 256 2 || exit 99
under_way() {
	i=0
	while [ "$(find "$work" -maxdepth 1 -name "$1.partial-*" | wc -l)" \
		-lt "$2" ] && [ $i -lt 1000 ]; do
		i=$((i + 1))
		sleep 0.02
	done
}

ranks 3 bcast "$work/big" --to "$work/k-{rank}" --block 64K
under_way 'k-*' 3
set -- $pids
kill -KILL "$3"
collect
set -- $codes
{ [ "$1" -eq 1 ] && [ "$2" -eq 1 ]; } || {
	fail "killed rank: exit codes$codes"
	cat "$work"/out.*
}
[ ! -e "$work/k-0" ] && [ ! -e "$work/k-1" ] && [ ! -e "$work/k-2" ] ||
	fail "killed rank: a final name appeared"
rm -rf "$work"/k-2.partial-*
no_leftovers "killed rank"
ok "a killed rank: the others end with an error and clean up"

ranks 3 bcast "$work/big" --to "$work/i-{rank}" --block 64K
under_way 'i-*' 3
for p in $pids; do kill -INT "$p"; done
collect
expect_codes "interrupt" "130"
[ ! -e "$work/i-0" ] && [ ! -e "$work/i-1" ] || fail "interrupt: half copy"
no_leftovers "interrupt"
ok "Ctrl-C: everything is taken back"

no_leftovers "the end"
echo "$failed checks failed"
[ "$failed" -eq 0 ]
