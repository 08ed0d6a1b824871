#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: api.sh LIBLUNE.SO
#
# Every public header compiles alone, in C and C++, and the library exports
# what the headers declare: no function less, no symbol more.
set -u
lib=$1
top=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0

for h in "$top"/include/lune/*.h; do
	name=$(basename "$h")
	printf '#include <lune/%s>\nextern int one;\n' "$name" >"$tmp/one.c"
	cp "$tmp/one.c" "$tmp/one.cc"
	${CC:-gcc} -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only \
		-I"$top/include" "$tmp/one.c" || bad=1
	${CXX:-g++} -std=c++11 -Wall -Wextra -Werror -fsyntax-only \
		-I"$top/include" "$tmp/one.cc" || bad=1
	grep -q "/lune/$name" "$top/include/local.mk" || {
		echo "not installed: $name"
		bad=1
	}
done

# Comments away, then every lune_name( that is not a type of a function.
cat "$top"/include/lune/*.h |
	${CC:-gcc} -fpreprocessed -dD -E -P -w - |
	grep -v '^typedef' | grep -v '^static inline' |
	grep -oE '\<lune_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$tmp/declared"
nm -D --defined-only "$lib" | awk '$2 ~ /[TDBR]/ { print $3 }' |
	sed 's/@.*//' | sort -u >"$tmp/exported"
for f in $(comm -23 "$tmp/declared" "$tmp/exported"); do
	echo "declared, not exported: $f"
	bad=1
done
for f in $(comm -13 "$tmp/declared" "$tmp/exported"); do
	echo "exported, not declared: $f"
	bad=1
done
exit $bad
