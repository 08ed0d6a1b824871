#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The torch bootstrap under real torchrun: the agent's store, restarts, a
# worker that never joins, and torchrun started by mpirun.
. "${top_srcdir:-.}/tests/launch/common.sh"
need_torchrun

torchrun_ranks 4 "$probe" -n 2 && lines 8 '^ok rank .*(store'
check "4 workers join two worlds through the agent's store" $?

torchrun_ranks 4 --max-restarts 1 -- "$probe" -f 2 &&
	lines 4 '^ok rank .*epoch 1 .*(store'
check "after a restart all join again, in epoch 1" $?

torchrun_ranks 4 "$probe" -a 1 -t 3000 &&
	lines 3 'LUNE_ERR_TIMEOUT.*rank 1 of 4 did not join'
check "a worker that never joins is named" $?

torchrun_ranks 3 env TORCHELASTIC_USE_AGENT_STORE=False "$probe" &&
	lines 3 '^ok rank .*(tcp'
check "without the agent's store the workers meet by tcp" $?

if [ -n "$(command -v mpirun)" ]; then
	need_mpirun
	mpirun_ranks 1 "$LUNE_TORCH_VENV/bin/python" \
		-m torch.distributed.run --standalone --nproc-per-node 3 \
		--no-python "$probe" && lines 3 '^ok rank .*of 3.*(store'
	check "torchrun under mpirun: torchrun's ranks count" $?
fi
finish
