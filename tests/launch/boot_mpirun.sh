#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pmix bootstrap under real mpirun: worlds of 1 to 8, several in a row, a
# rank that dies between joining and exchanging, a rank that never joins.
. "${top_srcdir:-.}/tests/launch/common.sh"
need_pmix

for n in 1 2 4 8; do
	mpirun_ranks $n "$probe" -n 2 && lines $((2 * n)) '^ok rank .*pmix:'
	check "$n ranks join two worlds one after the other" $?
done

for victim in 0 2; do
	mpirun_ranks 4 --enable-recovery -- "$probe" -k $victim -t 5000
	# Whatever mpirun makes of it, it came back and the others could tell.
	[ $? -ne 124 ] && lines 3 "LUNE_ERR.*rank $victim of 4"
	check "rank $victim is killed: the others say so and mpirun ends" $?
done

mpirun_ranks 4 --enable-recovery -- "$probe" -a 1 -t 3000
[ $? -ne 124 ] &&
	lines 3 'LUNE_ERR_TIMEOUT.*rank 1 of 4 did not join'
check "a rank that never joins is named" $?

printf 'a secret\n' >"$work/key"
mpirun_ranks 2 -x "LUNE_JOB_KEY_FILE=$work/key" -- "$probe" &&
	lines 2 '^ok rank'
check "a key file is used under mpirun" $?
finish
