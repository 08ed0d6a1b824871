#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lune-info as a user meets it: what it prints, exit codes, and the metadata
# server that it runs.
set -u

build=${top_builddir:-.}
info=$build/lune-info
work=$(mktemp -d "${TMPDIR:-/tmp}/lune-info-test.XXXXXX")
failed=0
server=

cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*"
	sed 's/^/  | /' "$work/out" "$work/err"
	failed=$((failed + 1))
}

# run WANTED-EXIT-CODE WHAT ARGS...: output in $work/out and $work/err
run() {
	want=$1
	what=$2
	shift 2
	timeout 60 "$info" "$@" >"$work/out" 2>"$work/err"
	rc=$?
	if [ $rc -eq "$want" ]; then
		echo "ok: $what"
	else
		fail "$what: exit code $rc, not $want"
	fi
}

# says FILE PATTERN
says() {
	grep -q -- "$2" "$work/$1" || fail "$what: no '$2' in $1"
}

run 0 "the overview"
for word in '^lune [0-9]' 'pmix' '^machine ' 'identity [0-9a-f]\{32\}$' \
	'cores' '^network devices' ' lo ' '^bootstrap self:' 'because: '; do
	says out "$word"
done
run 0 "the configuration" --config
says out '^LUNE_TIMEOUT=30000$'
says out 'int, default 30000, from: default'
LUNE_TIMEOUT=5 run 0 "a variable that is set" --config
says out '^LUNE_TIMEOUT=5$'
says out 'int, default 30000, from: environment'
LUNE_NODE=n1 run 0 "a node's name"
says out 'node *n1 (LUNE_NODE)'
LUNE_NET_DEVICES=lo,nosuch0 run 0 "a filter with an unknown name"
says err 'no network device nosuch0; there are '
LUNE_BOOTSTRAP="tcp://127.0.0.1:9?rank=0&size=2" run 0 "the reason of a bootstrap"
says out '^bootstrap tcp://127.0.0.1:9?rank=0&size=2'
says out 'because: .*LUNE_BOOTSTRAP'
RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 PMIX_NAMESPACE=x \
	run 0 "torchrun before PMIx"
says out '^bootstrap torch:'

LUNE_TIMEOUT=soon run 1 "a bad value"
says err 'LUNE_TIMEOUT=soon: must be'
run 1 "a bad URL" --bootstrap ftp://x
says out 'bootstrap cannot be chosen'
run 2 "an unknown option" --bogus
run 2 "an unknown command" serve
run 2 "two modes" --config --routes
run 2 "a port without meta-serve" --port 1
run 2 "a port that is none" meta-serve --port 65536
run 2 "options that do not go with meta-serve" meta-serve --json
run 0 "help" --help
says out 'meta-serve'
run 0 "version" --version
says out '^lune-info [0-9]'

if command -v python3 >/dev/null 2>&1; then
	for mode in "" --config --routes; do
		# shellcheck disable=SC2086 # no option is no word
		run 0 "JSON ${mode:-overview}" $mode --json
		python3 -m json.tool <"$work/out" >/dev/null ||
			fail "$what: not JSON"
	done
	LUNE_NODE=$(printf 'n\377') run 0 "JSON of bytes that are no UTF-8" \
		--json
	python3 -m json.tool <"$work/out" >/dev/null || fail "$what: not JSON"
fi

run 0 "the routes of a world of one" --routes
says out '^routes of rank 0 of 1'
says out ' self '

# Two ranks, which LUNE_NODE puts on two nodes; $work/out is rank 0's.
what="the routes of two nodes"
before=$failed
port=$((21000 + $$ % 20000))
: >"$work/err"
LUNE_NODE=b LUNE_BOOTSTRAP="tcp://127.0.0.1:$port?rank=1&size=2" \
	timeout 60 "$info" --routes >"$work/out1" 2>"$work/err1" &
LUNE_NODE=a LUNE_BOOTSTRAP="tcp://127.0.0.1:$port?rank=0&size=2" \
	timeout 60 "$info" --routes >"$work/out" 2>"$work/err" ||
	fail "$what: rank 0 failed"
wait $! || fail "$what: rank 1 failed"
says out '^routes of rank 0 of 2'
says out '^  1 .* b .* tcp  *tcp '
says out '^     1  *tcp  *self$'
[ ! -s "$work/out1" ] || fail "$what: rank 1 printed, too"
[ $failed -ne $before ] || echo "ok: $what"

# ---- meta-serve
run 1 "a key file that is missing" meta-serve --key-file "$work/none"
says err "$work/none"

# Wait until a file has a line that matches; the server ends on failure.
wait_line() {
	i=0
	while ! grep -q -- "$2" "$1"; do
		i=$((i + 1))
		kill -0 "$server" 2>/dev/null && [ $i -lt 600 ] || return 1
		sleep 0.1
	done
}

echo secret >"$work/key"
for signal in INT TERM; do
	what="meta-serve until SIG$signal"
	: >"$work/err"
	env "$info" meta-serve --key-file "$work/key" >"$work/out" \
		2>"$work/err" &
	server=$!
	if wait_line "$work/out" 'metadata server at lune://127.0.0.1:[0-9]'
	then
		kill -s $signal $server
		wait $server
		rc=$?
		server=
		[ $rc -eq 0 ] || fail "$what: exit code $rc"
		says out 'stopped by'
		echo "ok: $what"
	else
		fail "$what: it does not say where"
	fi
done

[ $failed -eq 0 ]
