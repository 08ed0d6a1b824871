/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/net/duo.h"

#include <netinet/in.h>

#include <lune/mem.h>

#define WAIT_MS 20000

static bool keep(const struct sockaddr_storage *a, int family)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (family && a->ss_family != family)
		return false;
	if (a->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Tests stay on loopback. */
static void card_cut(struct ln_card *c, int family)
{
	int n = 0;

	for (int i = 0; i < c->naddrs; i++)
		if (keep(&c->addrs[i], family))
			c->addrs[n++] = c->addrs[i];
	c->naddrs = n;
}

void node_open(struct node *n, const struct node_opts *o)
{
	struct ln_net_opts no = { 0 };

	memset(n, 0, sizeof(*n));
	CHECK_OK(ln_config_init(&n->conf));
	n->transports = n->conf.transports;
	n->conf.transports = (char *)(o->transports ? o->transports
						    : "self,tcp");
	n->modes = n->conf.shm_modes;
	if (o->modes)
		n->conf.shm_modes = (char *)o->modes;
	n->conf.tcp_streams = o->streams;
	if (o->slice)
		n->conf.tcp_slice = o->slice;
	if (o->heartbeat_ms)
		n->conf.heartbeat = o->heartbeat_ms;
	if (o->peer_timeout_ms)
		n->conf.peer_timeout = o->peer_timeout_ms;
	if (o->connect_timeout_ms)
		n->conf.connect_timeout = o->connect_timeout_ms;
	CHECK_OK(ln_topo_read(&n->conf, &n->topo));
	CHECK_OK(ln_mem_table_open(&n->conf, &n->topo, &n->mem));
	no.conf = &n->conf;
	no.topo = &n->topo;
	no.mem = n->mem;
	no.counters = &n->counters;
	memset(no.key, o->key, sizeof(no.key));
	no.manual = o->manual;
	no.cb = o->cb;
	CHECK_OK(ln_net_open(&no, &n->net));
	n->card = *ln_net_card(n->net);
	card_cut(&n->card, o->family);
}

void node_close(struct node *n)
{
	ln_net_close(n->net, ln_now_ns() + 1000000000u);
	ln_mem_table_close(n->mem);
	n->conf.transports = n->transports;
	n->conf.shm_modes = n->modes;
	ln_config_fini(&n->conf);
}

struct ln_region *node_alloc(struct node *n, size_t bytes, uint32_t rights)
{
	struct ln_alloc_how how = { .rights = rights ? rights : LUNE_MEM_ALL,
				    .numa = -1, .shareable = true };
	struct ln_region *r;

	CHECK_OK(ln_mem_alloc(n->mem, bytes, &how, &r));
	return r;
}

void node_release(struct node *n, struct ln_region *r)
{
	ln_mem_revoke(n->mem, r);
	CHECK_OK(ln_net_fence_region(n->net, r,
				     ln_now_ns() + 10000000000u));
	ln_mem_free(n->mem, r);
}

void node_ticket(struct node *n, const struct ln_region *r,
		 struct ln_ticket *out)
{
	size_t bytes;

	memset(out, 0, sizeof(*out));
	out->key = r->key;
	out->base = (uintptr_t)r->addr;
	out->bytes = r->bytes;
	out->rights = r->rights;
	out->shareable = r->fd >= 0;
	CHECK_OK(ln_card_pack(&n->card, out->card, sizeof(out->card), &bytes));
	out->card_len = (uint16_t)bytes;
}

void node_attach(struct node *from, struct node *owner,
		 const struct ln_region *r, struct ln_rmem *out)
{
	struct ln_ticket t;

	node_ticket(owner, r, &t);
	CHECK_OK(ln_rmem_init(from->net, &t, out));
}

static void job_done(struct ln_op *op)
{
	struct job *j = ln_container_of(op, struct job, op);

	atomic_fetch_add(&j->done, 1);
}

void job_list(struct job *j, struct ln_rmem *r, int kind,
	      struct ln_seg *segs, uint32_t n)
{
	memset(j, 0, sizeof(*j));
	j->op.peer = r->peer;
	j->op.done = job_done;
	j->op.kind = (uint8_t)kind;
	j->op.segs = segs;
	j->op.nsegs = n;
}

void job_put(struct job *j, struct ln_rmem *r, uint64_t off, void *from,
	     size_t bytes)
{
	job_list(j, r, LN_OP_PUT, &j->seg, 1);
	j->seg = (struct ln_seg){ from, r, off, bytes };
}

void job_get(struct job *j, struct ln_rmem *r, uint64_t off, void *to,
	     size_t bytes)
{
	job_list(j, r, LN_OP_GET, &j->seg, 1);
	j->seg = (struct ln_seg){ to, r, off, bytes };
}

void job_signal(struct job *j, struct ln_rmem *r, uint64_t off, uint64_t value,
		int how)
{
	j->op.sig_rmem = r;
	j->op.sig_offset = off;
	j->op.sig_value = value;
	j->op.sig_how = (uint8_t)how;
}

void job_atomic(struct job *j, struct ln_rmem *r, uint64_t off, int how,
		uint64_t operand, uint64_t compare, uint64_t *old)
{
	job_list(j, r, LN_OP_ATOMIC, NULL, 0);
	job_signal(j, r, off, operand, how);
	j->op.compare = compare;
	j->op.result = old;
}

void job_msg(struct job *j, struct ln_peer *p, int chan, uint64_t arg,
	     const void *body, uint32_t bytes)
{
	memset(j, 0, sizeof(*j));
	j->op.peer = p;
	j->op.done = job_done;
	j->op.kind = LN_OP_MSG;
	j->op.chan = (uint8_t)chan;
	j->op.args[0] = arg;
	j->op.body = body;
	j->op.body_bytes = bytes;
}

void job_post(struct job *j)
{
	j->post_rc = ln_op_post(&j->op);
}

static bool job_ready(void *arg)
{
	struct job *j = arg;

	return atomic_load(&j->done) > 0;
}

int job_wait(struct node *n, struct job *j)
{
	if (j->post_rc)
		return j->post_rc;
	CHECK_OK(ln_net_wait(n->net, job_ready, j,
			     ln_now_ns() + WAIT_MS * 1000000ull *
						   (uint64_t)ranks_scale()));
	CHECK_EQ(atomic_load(&j->done), 1);
	return j->op.code;
}

int job_run(struct node *n, struct job *j)
{
	job_post(j);
	return job_wait(n, j);
}

struct word {
	const _Atomic uint64_t *w;
	uint64_t value;
};

static bool word_ready(void *arg)
{
	struct word *w = arg;

	return atomic_load_explicit(w->w, memory_order_acquire) >= w->value;
}

void word_wait(struct node *n, const void *word, uint64_t value)
{
	struct word w = { word, value };

	CHECK_OK(ln_net_wait(n->net, word_ready, &w,
			     ln_now_ns() + WAIT_MS * 1000000ull *
						   (uint64_t)ranks_scale()));
}

static uint8_t pattern(uint64_t seed, size_t i)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

void fill(void *p, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)p)[i] = pattern(seed, i);
}

size_t verify(const void *p, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)p)[i] != pattern(seed, i))
			return i;
	return bytes;
}
