#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: packages.sh PURPOSE...
#
# See that the Debian packages of these purposes (first column of the file
# `packages`) are there: as root install what is missing, else print the one
# line that does.  On other distributions configure says what it misses.
set -eu
list=$(dirname "$0")/packages

command -v dpkg-query >/dev/null 2>&1 || exit 0
missing=
for purpose in "$@"; do
	for p in $(awk -v w="$purpose" '$1 == w { print $2 }' "$list"); do
		s=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) ||
			s=no
		[ "$s" = installed ] || missing="$missing $p"
	done
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "These packages are missing; as root run:" >&2
	echo "apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# The lists may be absent (a fresh container) or old: try without first.
# shellcheck disable=SC2086 # a list of words
apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 || {
	apt-get update -q >/dev/null
	apt-get install -y -q --no-install-recommends $missing
}
