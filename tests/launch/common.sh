# SPDX-License-Identifier: Apache-2.0
# Functions of the launcher tests; to be sourced.
#
#	mpirun_ranks N [MPIRUN OPTIONS --] PROGRAM ARGUMENTS...
#	torchrun_ranks N [TORCHRUN OPTIONS --] PROGRAM ARGUMENTS...
#
# Any program can be run.  Output goes to $work/out, and stays when a test
# fails.  Every command has a time limit; what is missing is a skip.

: "${top_builddir:=.}" "${top_srcdir:=.}"
: "${LUNE_TEST_SCALE:=1}"
: "${LUNE_TORCH_VENV:=$HOME/.cache/lune/torch-venv}"
probe=$top_builddir/tests/launch/boot_probe
work=$(mktemp -d "${TMPDIR:-/tmp}/lune-launch.XXXXXX") || exit 99
failures=0
cleanups=

cleanup() {
	for c in $cleanups; do $c; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

skip() {
	echo "SKIP: $*"
	exit 77
}

# bounded SECONDS COMMAND...: its status, 124 when it had to be ended.
bounded() {
	limit=$(($1 * LUNE_TEST_SCALE))
	shift
	timeout -k 5 "$limit" "$@"
}

need_mpirun() {
	: "${MPIRUN:=$(command -v mpirun)}"
	[ -n "$MPIRUN" ] || skip "mpirun is not installed"
	$MPIRUN --version 2>/dev/null | grep -q 'Open MPI' ||
		skip "mpirun is not Open MPI's"
	[ -x "$probe" ] || skip "$probe is not built"
}

need_pmix() {
	need_mpirun
	grep -q '^#define HAVE_PMIX 1' "$top_builddir/config.h" ||
		skip "this build has no PMIx"
}

need_torchrun() {
	[ -e "$LUNE_TORCH_VENV/bin/python" ] &&
		ls "$LUNE_TORCH_VENV"/lib/python*/site-packages/torch \
			>/dev/null 2>&1 ||
		skip "no PyTorch in $LUNE_TORCH_VENV" \
			"(tests/launch/get-torch.sh installs it)"
}

# Split "OPTIONS -- COMMAND": sets $options, and the rest by `shift $taken`.
take_options() {
	options=
	taken=0
	case " $* " in
	*" -- "*) ;;
	*) return ;;
	esac
	while [ "$1" != -- ]; do
		options="$options $1"
		taken=$((taken + 1))
		shift
	done
	taken=$((taken + 1))
}

mpirun_ranks() {
	n=$1
	shift
	take_options "$@"
	shift $taken
	root=
	[ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
	# shellcheck disable=SC2086 # lists of words
	bounded 60 $MPIRUN $root --oversubscribe $options -n "$n" "$@" \
		>"$work/out" 2>"$work/err"
}

torchrun_ranks() {
	n=$1
	shift
	take_options "$@"
	shift $taken
	# shellcheck disable=SC2086 # lists of words
	bounded 120 "$LUNE_TORCH_VENV/bin/python" -m torch.distributed.run \
		--standalone $options --nproc-per-node "$n" --no-python "$@" \
		>"$work/out" 2>"$work/err"
}

# check NAME STATUS: report one case; shows the output of a failed one.
check() {
	if [ "$2" -eq 0 ]; then
		echo "ok: $1"
		return
	fi
	echo "FAILED: $1"
	sed 's/^/	| /' "$work/out" "$work/err"
	failures=$((failures + 1))
}

# lines COUNT PATTERN: that many lines of the output match.
lines() {
	[ "$(grep -c "$2" "$work/out")" -eq "$1" ]
}

finish() {
	[ "$failures" -eq 0 ] || exit 1
	exit 0
}
