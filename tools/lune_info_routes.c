/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lune-info --routes: how every rank of a job is reached.
 *
 * Each rank shares one page of allocated and one of registered memory in two
 * windows and asks for the route to every other rank's: that connects all
 * pairs, so the table is what is, not what might be.  Rank 0 prints its own
 * table and, up to MATRIX_MAX ranks, who reaches whom by what.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lune_info.h"

#define MATRIX_MAX 32
#define ROUTE_BYTES 16
#define PAGE 4096

struct job {
	lune_ctx *ctx;
	lune_comm *world;
	int rank, size, timeout_ms;
	void *page;
	lune_mem *mem[2];	   /* allocated, registered */
	lune_win *win[2];
	char (*routes)[2][ROUTE_BYTES]; /* by rank */
	char (*all)[ROUTE_BYTES];  /* rank 0: [from * size + to] */
	bool failed;
};

static int share(struct job *j)
{
	int rc;

	j->page = aligned_alloc(PAGE, PAGE);
	j->routes = calloc((size_t)j->size, sizeof(*j->routes));
	if (!j->page || !j->routes)
		return LUNE_ERR_NOMEM;
	memset(j->page, 0, PAGE);
	rc = lune_mem_alloc(j->ctx, PAGE, NULL, &j->mem[0]);
	if (!rc)
		rc = lune_mem_register(j->ctx, j->page, PAGE, NULL,
				       &j->mem[1]);
	for (int k = 0; k < 2 && !rc; k++)
		rc = lune_win_open(j->world, j->mem[k], j->timeout_ms,
				   &j->win[k]);
	return rc;
}

/* Connect to everybody.  A rank that is not reached is a row, not an end. */
static void find_routes(struct job *j)
{
	for (int i = 1; i <= j->size; i++) {
		/* Each begins at its right neighbour: no crowd at rank 0. */
		int to = (j->rank + i) % j->size;

		for (int k = 0; k < 2; k++) {
			char *out = j->routes[to][k];
			lune_rmem *r = lune_win_rmem(j->win[k], to);

			if (r && !lune_rmem_route(r, j->timeout_ms, out,
						  ROUTE_BYTES))
				continue;
			snprintf(out, ROUTE_BYTES, "none");
			j->failed = true;
			fprintf(stderr, "lune-info: rank %d to rank %d: %s\n",
				j->rank, to, lune_last_error());
		}
	}
}

static int gather(struct job *j)
{
	size_t n = (size_t)j->size;
	char (*mine)[ROUTE_BYTES];
	int rc;

	if (j->size > MATRIX_MAX)
		return LUNE_OK;
	mine = calloc(n, sizeof(*mine));
	j->all = calloc(n * n, sizeof(*j->all));
	if (!mine || !j->all) {
		free(mine);
		return LUNE_ERR_NOMEM;
	}
	for (size_t i = 0; i < n; i++)
		memcpy(mine[i], j->routes[i][0], ROUTE_BYTES);
	rc = lune_allgather(j->world, mine, n * sizeof(*mine), j->all,
			    j->timeout_ms);
	free(mine);
	return rc;
}

static void print_table(const struct job *j)
{
	printf("routes of rank %d of %d\n", j->rank, j->size);
	printf("  %-5s %-16s %-16s %8s  %-10s %-10s %-10s %s\n", "rank",
	       "host", "node", "pid", "state", "allocated", "registered",
	       "address");
	for (int i = 0; i < j->size; i++) {
		struct lune_peer_info p = { .size = sizeof(p) };

		if (lune_comm_peer(j->world, i, &p)) {
			printf("  %-5d %s\n", i, lune_last_error());
			continue;
		}
		printf("  %-5d %-16s %-16s %8d  %-10s %-10s %-10s %s\n", i,
		       p.host, p.node, p.pid, p.state, j->routes[i][0],
		       j->routes[i][1], *p.address ? p.address : "-");
	}
}

static void print_matrix(const struct job *j)
{
	if (!j->all || j->size < 2)
		return;
	printf("\nallocated memory: from the rank of the row to the rank of "
	       "the column\n  %4s", "");
	for (int to = 0; to < j->size; to++)
		printf(" %8d", to);
	printf("\n");
	for (int from = 0; from < j->size; from++) {
		printf("  %4d", from);
		for (int to = 0; to < j->size; to++)
			printf(" %8s", j->all[from * j->size + to]);
		printf("\n");
	}
}

static json_t *peers_json(const struct job *j)
{
	json_t *list = json_array();

	for (int i = 0; i < j->size; i++) {
		struct lune_peer_info p = { .size = sizeof(p) };

		if (lune_comm_peer(j->world, i, &p))
			snprintf(p.state, sizeof(p.state), "unknown");
		json_array_append_new(
			list,
			json_pack("{si so so si ss ss ss ss}", "rank", i,
				  "host", info_json_text(p.host), "node",
				  info_json_text(p.node), "pid", p.pid,
				  "state", p.state, "allocated",
				  j->routes[i][0], "registered",
				  j->routes[i][1], "address", p.address));
	}
	return list;
}

static json_t *matrix_json(const struct job *j)
{
	json_t *rows = json_array();

	for (int from = 0; j->all && from < j->size; from++) {
		json_t *row = json_array();

		for (int to = 0; to < j->size; to++)
			json_array_append_new(
				row, json_string(j->all[from * j->size + to]));
		json_array_append_new(rows, row);
	}
	return rows;
}

static int print_job(const struct job *j, bool json)
{
	if (j->rank)
		return 0;
	if (json)
		return info_print_json(json_pack(
			"{si si so so}", "rank", j->rank, "size", j->size,
			"peers", peers_json(j), "matrix", matrix_json(j)));
	print_table(j);
	print_matrix(j);
	return 0;
}

static void leave(struct job *j)
{
	bool held = false;

	for (int k = 0; k < 2; k++) {
		lune_win_close(j->win[k]);
		if (j->mem[k] && lune_mem_release(j->mem[k], j->timeout_ms))
			held = true;
	}
	lune_ctx_close(j->ctx, j->timeout_ms);
	/* A page that a peer may still touch is left to the system. */
	if (!held)
		free(j->page);
	free(j->routes);
	free(j->all);
}

int info_routes(const struct info_args *a)
{
	struct lune_ctx_opts o = { .size = sizeof(o),
				   .bootstrap = a->bootstrap,
				   .timeout_ms = a->timeout_ms };
	struct job j = { .timeout_ms = a->timeout_ms };
	int rc = lune_ctx_open(&o, &j.ctx), status = 0;

	if (rc)
		return info_fail("joining the job", rc);
	j.world = lune_ctx_world(j.ctx);
	j.rank = lune_comm_rank(j.world);
	j.size = lune_comm_size(j.world);
	rc = share(&j);
	if (!rc) {
		find_routes(&j);
		rc = gather(&j);
	}
	if (rc)
		status = info_fail("exchanging the routes", rc);
	else
		status = print_job(&j, a->json);
	/* Nobody goes before all have looked. */
	if (!rc && lune_barrier(j.world, j.timeout_ms))
		status = info_fail("leaving the job", LUNE_ERR_PEER);
	if (j.failed)
		status = EXIT_FAILED;
	leave(&j);
	return status;
}
