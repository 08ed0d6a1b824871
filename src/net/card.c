/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards: what a process tells others of itself, in a bounded byte string that
 * lies in tickets, in the launcher's store and in HELLO.  Fields may be added
 * at the end by later versions; the version changes only when older readers
 * would be wrong.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "net/internal.h"

#define CARD_MAGIC 0x4443u /* "CD" */
#define CARD_VERSION 1

static void pack_addr(struct ln_pack *k, const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->ss_family == AF_INET) {
		ln_pack_u8(k, 4);
		ln_pack_u16(k, ntohs(v4->sin_port));
		ln_pack_bytes(k, &v4->sin_addr, 4);
	} else {
		ln_pack_u8(k, 6);
		ln_pack_u16(k, ntohs(v6->sin6_port));
		ln_pack_bytes(k, &v6->sin6_addr, 16);
		ln_pack_u32(k, v6->sin6_scope_id);
	}
}

static void unpack_addr(struct ln_unpack *u, struct sockaddr_storage *a)
{
	struct sockaddr_in *v4 = (void *)a;
	struct sockaddr_in6 *v6 = (void *)a;
	uint8_t kind = ln_unpack_u8(u);

	memset(a, 0, sizeof(*a));
	if (kind == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(ln_unpack_u16(u));
		ln_unpack_bytes(u, &v4->sin_addr, 4);
	} else if (kind == 6) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(ln_unpack_u16(u));
		ln_unpack_bytes(u, &v6->sin6_addr, 16);
		v6->sin6_scope_id = ln_unpack_u32(u);
	} else {
		u->bad = true;
	}
}

int ln_card_pack(const struct ln_card *c, void *out, size_t cap, size_t *bytes)
{
	struct ln_pack k = { .p = out, .cap = cap };

	ln_pack_u16(&k, CARD_MAGIC);
	ln_pack_u8(&k, CARD_VERSION);
	ln_pack_bytes(&k, c->uuid.b, sizeof(c->uuid.b));
	ln_pack_u64(&k, c->incarnation);
	ln_pack_u64(&k, c->node[0]);
	ln_pack_u64(&k, c->node[1]);
	ln_pack_u32(&k, (uint32_t)c->pid);
	ln_pack_str(&k, c->host);
	ln_pack_str(&k, c->node_name);
	ln_pack_str(&k, c->unix_name);
	ln_pack_u8(&k, (uint8_t)c->naddrs);
	for (int i = 0; i < c->naddrs; i++) {
		pack_addr(&k, &c->addrs[i]);
		ln_pack_u32(&k, c->speed_mbps[i]);
	}
	if (k.bad)
		return ln_error(LUNE_ERR_LIMIT, "a card needs over %zu bytes",
				cap);
	*bytes = k.len;
	return LUNE_OK;
}

int ln_card_unpack(const void *p, size_t bytes, struct ln_card *out)
{
	struct ln_unpack u = { .p = p, .len = bytes };
	struct ln_card c = { 0 };
	uint16_t magic = ln_unpack_u16(&u);
	uint8_t version = ln_unpack_u8(&u);

	if (u.bad || magic != CARD_MAGIC)
		return ln_error(LUNE_ERR_INVAL, "not a process's card");
	if (version != CARD_VERSION)
		return ln_error(LUNE_ERR_UNSUPPORTED,
				"a card of version %u, not %d", version,
				CARD_VERSION);
	ln_unpack_bytes(&u, c.uuid.b, sizeof(c.uuid.b));
	c.incarnation = ln_unpack_u64(&u);
	c.node[0] = ln_unpack_u64(&u);
	c.node[1] = ln_unpack_u64(&u);
	c.pid = (int32_t)ln_unpack_u32(&u);
	ln_unpack_str(&u, c.host, sizeof(c.host));
	ln_unpack_str(&u, c.node_name, sizeof(c.node_name));
	ln_unpack_str(&u, c.unix_name, sizeof(c.unix_name));
	c.naddrs = ln_unpack_u8(&u);
	if (c.naddrs > LN_CARD_ADDRS_MAX)
		u.bad = true;
	for (int i = 0; !u.bad && i < c.naddrs; i++) {
		unpack_addr(&u, &c.addrs[i]);
		c.speed_mbps[i] = ln_unpack_u32(&u);
	}
	if (u.bad)
		return ln_error(LUNE_ERR_INVAL, "a damaged card of a process");
	*out = c;
	return LUNE_OK;
}
