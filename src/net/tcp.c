/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport: listening, the addresses of the card, and the table.
 * What travels is wire's business (wire.c, target.c): the same frames go over
 * unix control connections, for which this table is also the last resort.
 */
#include <netinet/in.h>

#include "net/link.h"

static int tcp_probe(struct ln_net *net, char *why, size_t cap)
{
	(void)net;
	(void)why;
	(void)cap;
	return LUNE_OK;
}

static bool addr_usable(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->ss_family == AF_INET)
		return true;
	/* A link-local address means nothing without our own scope. */
	return a->ss_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static void card_add(struct ln_card *card, const struct ln_topo_nic *nic,
		     const struct sockaddr_storage *a, const int port[2])
{
	struct sockaddr_storage s = *a;
	bool v6 = s.ss_family == AF_INET6;

	if (!addr_usable(a) || !port[v6] || card->naddrs == LN_CARD_ADDRS_MAX)
		return;
	if (v6)
		((struct sockaddr_in6 *)&s)->sin6_port =
			htons((uint16_t)port[1]);
	else
		((struct sockaddr_in *)&s)->sin_port = htons((uint16_t)port[0]);
	card->addrs[card->naddrs] = s;
	card->speed_mbps[card->naddrs++] = (uint32_t)ln_max(0, nic->speed_mbps);
}

/* Loopback last: it serves peers of the same machine only. */
static void card_addrs(struct ln_net *net, struct ln_card *card,
		       const int port[2])
{
	for (int loop = 0; loop < 2; loop++) {
		for (int i = 0; i < net->topo->nnics; i++) {
			const struct ln_topo_nic *nic = &net->topo->nics[i];

			if (nic->loopback != (loop == 1) || !nic->up ||
			    (!nic->selected && !nic->loopback))
				continue;
			for (int k = 0; k < nic->naddrs; k++)
				card_add(card, nic, &nic->addrs[k], port);
		}
	}
}

static int tcp_open(struct ln_net *net, struct ln_card *card)
{
	int port[2];
	int rc = ln_listen_tcp(net, &port[0], &port[1]);

	if (rc)
		return rc;
	card_addrs(net, card, port);
	if (!card->naddrs)
		ln_info("tcp: no usable address on any selected interface");
	return LUNE_OK;
}

static bool tcp_reaches(struct ln_net *net, const struct ln_card *card)
{
	return card->naddrs > 0 &&
	       !ln_uuid_equal(&net->card.uuid, &card->uuid);
}

/* The target checks everything; nothing is needed here. */
static int tcp_import(struct ln_rmem *r)
{
	(void)r;
	return LUNE_OK;
}

static void tcp_route_text(const struct ln_rmem *r, char *out, size_t cap)
{
	snprintf(out, cap, "%s", ln_link_is_unix(r->peer) ? "unix" : "tcp");
}

const struct ln_net_ops ln_net_tcp = {
	.name = "tcp",
	.index = LN_TP_TCP,
	.probe = tcp_probe,
	.open = tcp_open,
	.reaches = tcp_reaches,
	.import = tcp_import,
	.post = ln_wire_post,
	.route_text = tcp_route_text,
};
