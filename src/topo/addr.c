/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as text: "10.0.0.1", "10.0.0.1:80", "[fe80::1%eth0]:80".  IPv6 is
 * always in brackets, so that a port can be told from the address.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include "topo/topo.h"

static void v6_text(const struct sockaddr_in6 *a, char *out, size_t cap)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];

	if (!inet_ntop(AF_INET6, &a->sin6_addr, text, sizeof(text)))
		text[0] = '\0';
	if (!a->sin6_scope_id)
		snprintf(out, cap, "[%s]", text);
	else if (if_indextoname(a->sin6_scope_id, name))
		snprintf(out, cap, "[%s%%%s]", text, name);
	else
		snprintf(out, cap, "[%s%%%u]", text, a->sin6_scope_id);
}

void ln_topo_addr_text(const struct sockaddr_storage *a, int port, char *out,
		       size_t cap)
{
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 4] = "?";

	if (a->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr,
			  text, sizeof(text));
	else if (a->ss_family == AF_INET6)
		v6_text((const struct sockaddr_in6 *)a, text, sizeof(text));
	if (port > 0)
		snprintf(out, cap, "%s:%d", text, port);
	else
		snprintf(out, cap, "%s", text);
}
