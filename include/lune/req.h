/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: operations in flight.  A request is done when its bytes are
 * visible at the target (put) or here (get); with LUNE_OP_LOCAL when the local
 * buffer may be reused.
 *
 * A finished request is freed by the call that reports it (test, wait, ...),
 * which sets the handle to NULL.  A NULL handle is a finished request.
 * Alternatively operations report to a completion queue, drained in batches;
 * those have no request to free.
 */
#ifndef LUNE_REQ_H
#define LUNE_REQ_H

#include <lune/ctx.h>
#include <lune/decls.h>

LUNE_DECLS_BEGIN

typedef struct lune_req lune_req;
typedef struct lune_cq lune_cq;

struct lune_status {
	int code;	/* LUNE_OK, or why it failed */
	uint64_t bytes; /* done before the failure */
	uint64_t index; /* of the first entry that failed (lists), else 0 */
};

/*
 * test: LUNE_ERR_AGAIN while in flight.  wait: LUNE_ERR_TIMEOUT when the
 * deadline passes; the request stays in flight.  Both return the code of the
 * finished request and fill *status when it is not NULL.
 */
int lune_req_test(lune_req **req, struct lune_status *status);
int lune_req_wait(lune_req **req, int timeout_ms, struct lune_status *status);
/*
 * All finished: LUNE_OK if all were well, else the first bad code.  statuses:
 * NULL or `count` of them.
 */
int lune_req_waitall(lune_req **reqs, size_t count, int timeout_ms,
		     struct lune_status *statuses);
/* One of them finished: *index says which.  All NULL: LUNE_ERR_NOTFOUND. */
int lune_req_waitany(lune_req **reqs, size_t count, int timeout_ms,
		     size_t *index);
/*
 * Ask to end it early; wait for it as usual: it ends with LUNE_ERR_CANCELED
 * or, if it was too late, as it would have.  Once it has ended, the local
 * buffers are no longer touched; remote bytes may be partly written.
 */
int lune_req_cancel(lune_req *req);
/* Forget it: it goes on, its result is dropped, errors show in flush. */
void lune_req_free(lune_req **req);

struct lune_completion {
	void *user;
	struct lune_status status;
};
/* depth: operations that may be unreported at once (then LUNE_ERR_LIMIT). */
int lune_cq_open(lune_ctx *ctx, unsigned depth, lune_cq **out);
/* LUNE_ERR_BUSY while operations are in flight to it. */
int lune_cq_close(lune_cq *cq);
/*
 * Take up to max completions; waits for the first up to timeout_ms.  Returns
 * how many (0: none in time) or an error.
 */
int lune_cq_drain(lune_cq *cq, struct lune_completion *out, int max,
		  int timeout_ms);

LUNE_DECLS_END
#endif
