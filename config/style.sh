#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rules of the house that a machine can check; prints what breaks them.
set -u
cd "$(dirname "$0")/.." || exit 1

complain() { # title, lines on stdin
	lines=$(cat)
	[ -z "$lines" ] || printf '%s:\n%s\n' "$1" "$lines"
}

sources() { # folders...
	find "$@" -name '*.[ch]' 2>/dev/null | sort
}

library=$(sources src coll)
all=$(sources include src coll tools perf tests docs)

rules() {
# shellcheck disable=SC2086 # lists of words from here on
grep -nE '\<(strcpy|strcat|sprintf|vsprintf|gets|strtok)\(' $all |
	complain "banned functions"
grep -nE '\<(abort|exit|_exit|assert)\(|\<printf\(|\<puts\(|stdout\>' \
	$library | grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)' |
	complain "a library neither ends the process nor prints"
grep -nE '\<(secure_)?getenv\(' $library | grep -v '^src/base/config.c:' |
	complain "getenv outside src/base/config.c"
grep -nE '\<(malloc|calloc|realloc|strdup|asprintf|posix_memalign|aligned_alloc)\(' \
	$library | grep -vE '^src/base/alloc.c:|ln_' |
	grep -vE ':[0-9]+:[[:space:]]*(/?\*|//)' |
	complain "allocation outside src/base/alloc.c"
grep -nE '\<(TODO|FIXME|XXX|HACK)\>' $all | complain "unfinished"
grep -nE '(^|[^[:alnum:]_./])/(work|root|home)/' $(git ls-files) 2>/dev/null |
	grep -vE '^(config/style.sh|LICENSE):' | complain "paths of a machine"
for f in $all; do
	head -n 1 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
		echo "$f"
done | complain "no licence line first"
for f in $all; do
	awk -v f="$f" 'END { if (NR > 600) print f ": " NR " lines" }' "$f"
done | complain "files over 600 lines"
# Kernel style makes a function's braces the only ones in the first column.
awk '
	FNR == 1 { open = 0 }
	/^[a-z].*\(/ { name = $0 }
	/^\{/ { open = FNR }
	/^\}/ {
		if (open && FNR - open - 1 > 70)
			print FILENAME ":" open ": " FNR - open - 1 \
				" lines: " name
		open = 0
	}' $all | complain "functions over 70 lines"
for f in $all; do
	expand "$f" | awk -v f="$f" 'length > 80 { print f ":" FNR }'
done | complain "lines over 80 columns"
}

broken=$(rules)
[ -z "$broken" ] || { printf '%s\n' "$broken"; exit 1; }
