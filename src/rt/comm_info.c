/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may know of members: who failed, and who they are. */
#include "rt/rt.h"

int lune_comm_failed(lune_comm *comm, int *ranks, int max, int *out)
{
	int n = 0;

	if (!comm || !out || (max > 0 && !ranks))
		return ln_error(LUNE_ERR_INVAL, "lune_comm_failed: NULL");
	LN_CTX_CHECK(comm->ctx);
	for (int r = 0; r < lune_comm_size(comm); r++) {
		const struct ln_peer *p = ln_comm_peer(comm, r);

		/* A hole, or it closed its context: no failure. */
		if (!p || !ln_comm_dead(comm, r) || ln_peer_left(p))
			continue;
		if (n < max)
			ranks[n] = r;
		n++;
	}
	*out = n;
	return LUNE_OK;
}

bool lune_comm_alive(lune_comm *comm, int rank)
{
	return comm && rank >= 0 && rank < lune_comm_size(comm) &&
	       !ln_comm_dead(comm, rank);
}

static const char *const states[] = {
	[LN_PEER_IDLE] = "idle",
	[LN_PEER_CONNECTING] = "connecting",
	[LN_PEER_UP] = "up",
	[LN_PEER_DEAD] = "dead",
};

/* net tells the address only inside its sentence. */
static void address_of(const struct ln_peer *p, char *out, size_t cap)
{
	char text[256];
	const char *at;

	ln_peer_text(p, text, sizeof(text));
	at = strstr(text, " at ");
	snprintf(out, cap, "%.127s", at ? at + 4 : "");
}

static const char *transport_of(const lune_comm *comm, const struct ln_peer *p,
				const char *address)
{
	if (ln_uuid_equal(&p->card.uuid, &ln_net_card(comm->ctx->net)->uuid))
		return "self";
	if (atomic_load(&p->state) != LN_PEER_UP)
		return "";
	return strncmp(address, "unix:", 5) ? "tcp" : "shm";
}

int lune_comm_peer(lune_comm *comm, int rank, struct lune_peer_info *info)
{
	struct lune_peer_info i;
	const struct ln_peer *p;
	size_t size;

	if (!comm || !info || info->size < sizeof(info->size))
		return ln_error(LUNE_ERR_INVAL,
				"lune_comm_peer: NULL, or size is not set");
	LN_CTX_CHECK(comm->ctx);
	if (rank < 0 || rank >= lune_comm_size(comm))
		return ln_error(LUNE_ERR_INVAL, "rank %d of a communicator of "
				"%d", rank, lune_comm_size(comm));
	p = ln_comm_peer(comm, rank);
	if (!p)
		return ln_error(LUNE_ERR_PEER, "no member in slot %d", rank);
	memset(&i, 0, sizeof(i));
	size = ln_min(info->size, sizeof(i));
	i.size = info->size;
	snprintf(i.host, sizeof(i.host), "%s", p->card.host);
	snprintf(i.node, sizeof(i.node), "%s", p->card.node_name);
	snprintf(i.state, sizeof(i.state), "%s",
		 states[atomic_load(&p->state)]);
	address_of(p, i.address, sizeof(i.address));
	snprintf(i.transport, sizeof(i.transport), "%s",
		 transport_of(comm, p, i.address));
	memcpy(i.uuid, p->card.uuid.b, sizeof(i.uuid));
	i.incarnation = p->card.incarnation;
	i.pid = p->card.pid;
	memcpy(info, &i, size);
	return LUNE_OK;
}

int lune_comm_event(lune_comm *comm, int timeout_ms,
		    struct lune_member_event *out)
{
	if (!comm || !out)
		return ln_error(LUNE_ERR_INVAL, "lune_comm_event: NULL");
	LN_CTX_CHECK(comm->ctx);
	if (!comm->elastic)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"the members of this communicator are fixed");
	return ln_elastic_event(comm,
				ln_deadline(timeout_ms,
					    (int)comm->ctx->conf.timeout),
				out);
}
