# SPDX-License-Identifier: Apache-2.0
# What the tests of the main job share; to be sourced after common.sh.

ckpt=$top_builddir/lune-ckpt
model=$work/model

make_model() {
	python3 "$top_srcdir/tools/make_model.py" "$model" "$1" 3 || exit 99
}

# same_copies PREFIX N: PREFIX0 .. PREFIX(N-1) equal the model; removed then.
same_copies() {
	i=0
	while [ $i -lt "$2" ]; do
		diff -r "$model" "$1$i" >>"$work/err" || return 1
		rm -rf "$1$i"
		i=$((i + 1))
	done
}
