#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install PyTorch for the torchrun tests into a virtual environment outside
# the tree: $LUNE_TORCH_VENV, by default ~/.cache/lune/torch-venv.
#
#	get-torch.sh [--force] [--index URL] [VERSION]
#
# The package index is the one that pip is configured with, unless --index is
# given.  Only the launcher and its store are needed, never a GPU: of the
# package's dependencies the pure Python ones are installed, and the CUDA
# libraries (several GiB) are replaced by small libraries whose functions do
# nothing, so that the dynamic linker is content.
set -eu
venv=${LUNE_TORCH_VENV:-$HOME/.cache/lune/torch-venv}
version=2.6.0
index=
force=

while [ $# -gt 0 ]; do
	case $1 in
	--force) force=yes ;;
	--index)
		index="--index-url $2"
		shift
		;;
	-*)
		sed -n 's/^# \{0,1\}//p' "$0" | sed -n 2,7p
		exit 2
		;;
	*) version=$1 ;;
	esac
	shift
done

works() {
	"$1/bin/python" -c 'import torch.distributed.run' >/dev/null 2>&1
}

if [ -z "$force" ] && works "$venv"; then
	echo "$venv: there already"
	exit 0
fi

# Built aside and renamed at the end, so that a half one is never used.
new=$venv.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "${venv%/*}"
for python in python3.12 python3.11 python3.10 python3.9 python3; do
	"$python" -m venv "$new" 2>/dev/null && break
done
# shellcheck disable=SC2086 # options
install() {
	"$new/bin/python" -m pip install --quiet --no-cache-dir \
		--disable-pip-version-check $index "$@"
}
install --no-deps "torch==$version"
install typing_extensions filelock networkx jinja2 fsspec sympy==1.13.1

# The functions that PyTorch's libraries take from CUDA's, and the names of
# those libraries.  A version tag has the library's name.
lib=$(echo "$new"/lib/python*/site-packages/torch/lib)
for f in "$lib"/*.so*; do
	nm -D --undefined-only "$f"
done | sed -n 's/^ *U \(\(__cuda\|cu\|nccl\|nvrtc\|nvml\)[A-Za-z0-9_]*\).*/\1/p' |
	sort -u | sed 's/.*/long &(void) { return 0; }/' >"$new/stubs.c"
for f in "$lib"/*.so*; do
	readelf -d "$f"
done | sed -n 's/.*NEEDED.*\[\(lib\(cu\|nccl\|nv\)[^]]*\)\].*/\1/p' | sort -u |
	while read -r name; do
		[ ! -e "$lib/$name" ] || continue
		echo "$name { global: *; };" >"$new/stubs.map"
		${CC:-cc} -w -shared -fPIC -o "$lib/$name" \
			"-Wl,-soname,$name" \
			"-Wl,--version-script=$new/stubs.map" "$new/stubs.c"
	done

works "$new" || {
	echo "PyTorch $version does not load:" >&2
	"$new/bin/python" -c 'import torch.distributed.run' >&2 || :
	exit 1
}
# Its scripts begin with the path of its python.
find "$new/bin" -type f -exec sed -i "1s|^#!$new/|#!$venv/|" {} +
rm -rf "$venv"
mv "$new" "$venv"
echo "$venv: PyTorch $version"
