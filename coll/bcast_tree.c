/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small broadcast: a binomial tree of messages.  With v = (rank - root) mod n
 * a rank hears from v with its lowest set bit cleared, and tells v + 2^k for
 * all 2^k below that bit.
 */
#include "coll/coll.h"

int ln_bcast_tree(struct ln_coll *c, const struct ln_bcast *b)
{
	int n = lune_comm_size(c->comm), rc = LUNE_OK;
	int v = (c->comm->rank - b->root + n) % n;
	struct ln_recv r = { .tag = { c->seq, c->sig, 0 }, .buf = b->buf,
			     .cap = (uint32_t)b->bytes };
	int bit = 1;

	while (bit < n && !(v & bit))
		bit *= 2;
	if (v) {
		r.from = (v - bit + b->root) % n;
		rc = ln_inbox_recv(c->comm, &r, c->deadline);
		if (!rc && r.bytes != b->bytes)
			rc = ln_failure_break(c->comm, LUNE_ERR_INVAL, r.from);
	}
	for (bit /= 2; bit > 0 && !rc; bit /= 2)
		if (v + bit < n)
			rc = ln_inbox_send(c->comm, (v + bit + b->root) % n,
					   &r.tag, b->buf,
					   (uint32_t)b->bytes);
	return rc;
}
