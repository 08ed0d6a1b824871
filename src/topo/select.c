/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which interfaces may be used (LUNE_NET_DEVICES), and which is best.
 *
 * The filter is a list of names; an RDMA device's name means the interface
 * over it.  With ^ first, those are left out.  A name that matches nothing is
 * a warning that says what exists: a cluster's nodes often differ in a name,
 * and a job should not fail on the node that lacks it.  For the same reason
 * loopback comes back when nothing else is left.
 */
#include <stdlib.h>

#include "topo/internal.h"

/* Where an interface that does not tell its speed stands in the order. */
#define SPEED_GUESS_MBPS 1000

static bool is_name(const struct ln_topo_nic *nic, const char *word, size_t n)
{
	return (strlen(nic->name) == n && !strncmp(nic->name, word, n)) ||
	       (strlen(nic->rdma) == n && !strncmp(nic->rdma, word, n));
}

static void names(const struct ln_topo *topo, char *out, size_t cap)
{
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < topo->nnics && len < cap; i++) {
		const struct ln_topo_nic *nic = &topo->nics[i];

		len += (size_t)snprintf(out + len, cap - len, "%s%s%s%s%s",
					i ? ", " : "", nic->name,
					nic->rdma[0] ? " (" : "", nic->rdma,
					nic->rdma[0] ? ")" : "");
	}
}

/* Mark what one word of the list names; warn when that is nothing. */
static void mark(struct ln_topo *topo, const char *word, size_t n, bool select)
{
	char exist[512];
	bool found = false;

	for (int i = 0; i < topo->nnics; i++) {
		if (!is_name(&topo->nics[i], word, n))
			continue;
		topo->nics[i].selected = select;
		found = true;
	}
	if (found)
		return;
	names(topo, exist, sizeof(exist));
	ln_warn("LUNE_NET_DEVICES: there is no network device %.*s; there are "
		"%s", (int)n, word, exist);
}

static bool usable(const struct ln_topo_nic *nic)
{
	return nic->up && nic->naddrs > 0;
}

static void keep_loopback(struct ln_topo *topo, const char *filter)
{
	struct ln_topo_nic *lo = NULL;

	for (int i = 0; i < topo->nnics; i++) {
		struct ln_topo_nic *nic = &topo->nics[i];

		if (nic->selected && usable(nic))
			return;
		if (nic->loopback && usable(nic))
			lo = nic;
	}
	if (!lo)
		return;
	lo->selected = true;
	ln_warn("LUNE_NET_DEVICES=%.100s leaves no network device with an "
		"address: %s is used, which reaches this host only", filter,
		lo->name);
}

void ln_select_nics(const char *filter, struct ln_topo *topo)
{
	bool exclude = *filter == '^', any = false;
	const char *word = filter + exclude;

	for (int i = 0; i < topo->nnics; i++)
		topo->nics[i].selected = exclude;
	while (*word) {
		size_t n = strcspn(word, ", ");

		if (n) {
			mark(topo, word, n, !exclude);
			any = true;
		}
		word += n;
		word += *word != '\0';
	}
	if (any) {
		keep_loopback(topo, filter);
		return;
	}
	for (int i = 0; i < topo->nnics; i++)
		topo->nics[i].selected = true;
}

/* 0 is best. */
static int class_of(const struct ln_topo_nic *nic)
{
	if (!usable(nic))
		return 3;
	if (nic->loopback)
		return 2;
	/* The bridge of a container engine: leads nowhere else. */
	return nic->bridge ? 1 : 0;
}

static int speed_of(const struct ln_topo_nic *nic)
{
	return nic->speed_mbps > 0 ? nic->speed_mbps : SPEED_GUESS_MBPS;
}

/* Unknown distance: as far as the next socket. */
static int distance_of(const struct ln_topo_nic *nic)
{
	return nic->distance < 0 ? 1 : nic->distance;
}

static int compare(const void *pa, const void *pb)
{
	const struct ln_topo_nic *a = pa, *b = pb;

	if (a->selected != b->selected)
		return a->selected ? -1 : 1;
	if (class_of(a) != class_of(b))
		return class_of(a) - class_of(b);
	if (speed_of(a) != speed_of(b))
		return speed_of(a) > speed_of(b) ? -1 : 1;
	if (distance_of(a) != distance_of(b))
		return distance_of(a) - distance_of(b);
	return strcmp(a->name, b->name);
}

void ln_select_sort(struct ln_topo *topo)
{
	qsort(topo->nics, (size_t)topo->nnics, sizeof(topo->nics[0]), compare);
}
