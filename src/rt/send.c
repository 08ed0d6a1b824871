/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of our own to members: sent and forgotten.  A copy travels in a
 * request of the pool.  The one thing that matters of the end is that a member
 * which cannot be reached at all counts as dead from then on, so that nobody
 * waits for it until his deadline.
 */
#include "rt/rt.h"

static void sent(struct lune_req *req)
{
	int code = req->op.code;

	if (code && code != LUNE_ERR_CANCELED && code != LUNE_ERR_NOMEM)
		ln_peer_kill(req->op.peer, code, lune_strerror(code));
	/* It is not the program's message: no flush shall tell of it. */
	req->op.code = LUNE_OK;
}

int ln_send(lune_comm *comm, int rank, const struct ln_msg *m)
{
	uint32_t nsegs = (uint32_t)((m->bytes + sizeof(struct ln_seg) - 1) /
				    sizeof(struct ln_seg));
	struct lune_req *req;
	struct ln_peer *peer;
	int rc = ln_comm_peer_of(comm, rank, &peer);

	if (rc)
		return rc;
	rc = ln_req_take(comm->ctx, nsegs, NULL, &req);
	if (rc)
		return rc;
	if (m->bytes)
		memcpy((void *)req->segs_buf, m->body, m->bytes);
	req->op.peer = peer;
	req->op.kind = LN_OP_MSG;
	req->op.chan = (uint8_t)m->chan;
	req->op.flags = LN_OP_LOCAL;
	req->op.args[0] = comm->id.a;
	req->op.args[1] = comm->id.b;
	req->op.args[2] = m->arg2;
	req->op.args[3] = m->arg3;
	req->op.body = req->segs_buf;
	req->op.body_bytes = m->bytes;
	req->on_done = sent;
	return ln_req_start(req, NULL);
}

void ln_send_ping(lune_comm *comm, int rank)
{
	struct ln_msg m = { .chan = LN_CHAN_RT,
			    .arg3 = (uint64_t)LN_RT_PING << 56 };
	struct ln_peer *p = ln_comm_peer(comm, rank);

	if (p && atomic_load(&p->state) != LN_PEER_UP)
		(void)ln_send(comm, rank, &m);
}
