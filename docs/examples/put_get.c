/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank puts its greeting into the next rank's memory, with a signal. */
#include <stdio.h>
#include <unistd.h>

#include <lune/lune.h>

int main(void)
{
	lune_ctx *ctx;
	lune_mem *mem;
	lune_win *win;
	char text[64];

	if (lune_ctx_open(NULL, &ctx)) { /* mpirun, torchrun, etcd, alone */
		fprintf(stderr, "%s\n", lune_last_error());
		return 1;
	}
	lune_comm *world = lune_ctx_world(ctx);
	int rank = lune_comm_rank(world), size = lune_comm_size(world);

	lune_mem_alloc(ctx, 4096, NULL, &mem);
	lune_win_open(world, mem, LUNE_TIMEOUT_DEFAULT, &win);

	int n = snprintf(text, sizeof(text), "hello from rank %d, pid %d",
			 rank, (int)getpid()) + 1;
	lune_rmem *next = lune_win_rmem(win, (rank + 1) % size);
	lune_put(next, 64, text, (size_t)n, &(struct lune_op){
		.signal = { .rmem = next, .offset = 0, .value = 1 } });
	lune_flush(world, LUNE_ALL_RANKS, LUNE_TIMEOUT_DEFAULT);

	struct lune_signal arrived = { mem, 0, LUNE_GE, 1 };
	if (lune_signal_wait(&arrived, LUNE_TIMEOUT_DEFAULT) == LUNE_OK)
		printf("rank %d got: %s\n", rank,
		       (char *)lune_mem_addr(mem) + 64);
	lune_barrier(world, LUNE_TIMEOUT_DEFAULT);
	lune_win_close(win);
	lune_mem_release(mem, LUNE_TIMEOUT_DEFAULT);
	return lune_ctx_close(ctx, 1000);
}
