#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of docs/configuration.md is the one of src/base/config.def, and so
# is what lune-info prints.
set -u

build=${top_builddir:-.}
src=${top_srcdir:-..}
work=$(mktemp -d "${TMPDIR:-/tmp}/lune-config-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

awk -v form=md -f "$src/docs/man/config.awk" "$src/src/base/config.def" \
	>"$work/want"
grep '^| `LUNE_' "$src/docs/configuration.md" | grep '|.*|.*|.*|.*|' >"$work/have"
if diff -u "$work/have" "$work/want"; then
	echo "ok: docs/configuration.md has every variable"
else
	echo "FAIL: the table of docs/configuration.md is old; make it with"
	echo "  awk -v form=md -f docs/man/config.awk src/base/config.def"
	failed=1
fi

sed -n 's/^| `\(LUNE_[A-Z_]*\)`.*/\1/p' "$work/want" >"$work/names"
"$build/lune-info" --config | sed -n 's/^\(LUNE_[A-Z_]*\)=.*/\1/p' \
	>"$work/printed"
if [ -s "$work/names" ] && diff -u "$work/names" "$work/printed"; then
	echo "ok: lune-info --config prints every variable"
else
	echo "FAIL: lune-info --config and config.def differ"
	failed=1
fi
exit $failed
