/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport for peers of the same node.  What can be mapped is copied by
 * the initiator alone (rma does that without coming here); other memory goes
 * by CMA, or by the ring where CMA is forbidden.  Messages, and signals and
 * atomics on words that are not mapped, are frames over the control
 * connection, which is an abstract unix socket here.
 *
 *   up: both sides send control memory, directory and eventfd;
 *       with all three of the peer's it is ready, and CMA is probed.
 *
 * A peer's mappings outlive the connection: rmems hold a reference, because
 * their generation and their doorbell lie there.
 */
#include "net/shm.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "mem/alloc.h"

/* ---- life ---------------------------------------------------------------- */

static int shm_probe(struct ln_net *net, char *why, size_t cap)
{
	if (ln_mem_directory_fd(net->mem) >= 0)
		return LUNE_OK;
	snprintf(why, cap, "no memory can be shared: neither memfd_create nor "
			   "files in /dev/shm are allowed");
	return LUNE_ERR_UNSUPPORTED;
}

static bool mode_named(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; *p; p += *p == ',') {
		size_t len = strcspn(p, ",");

		if (len == n && !strncmp(p, name, n))
			return true;
		p += len;
	}
	return false;
}

/* yama's ptrace_scope 1: a process must say who may read it. */
static void allow_cma(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (!f)
		return;
	if (fscanf(f, "%d", &scope) == 1 && scope == 1)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	fclose(f);
}

static int shm_on_ctl(struct ln_peer *p, const struct ln_frame *f,
		      const void *body, int fd);
static int shm_on_dir(struct ln_peer *p, const struct ln_frame *f,
		      const void *body, int fd);
static int shm_on_evfd(struct ln_peer *p, const struct ln_frame *f,
		       const void *body, int fd);

static int shm_open_net(struct ln_net *net, struct ln_card *card)
{
	struct shm_tp *tp = ln_calloc(1, sizeof(*tp));
	void *p;
	int rc;

	(void)card;
	if (!tp)
		return LUNE_ERR_NOMEM;
	rc = ln_alloc_shared("lune-control", sizeof(*tp->ctl), &tp->ctl_fd, &p);
	if (rc) {
		ln_free(tp);
		return rc;
	}
	tp->ctl = p;
	tp->ctl->magic = SHM_MAGIC;
	tp->ctl->version = 1;
	if (ln_random(&tp->ctl->cookie, sizeof(tp->ctl->cookie)))
		tp->ctl->cookie = ln_now_ns();
	for (int i = 0; i < SHM_LINES; i++)
		tp->owners[i].pidfd = -1;
	pthread_mutex_init(&tp->lock, NULL);
	tp->net = net;
	tp->allowed[SHM_MAP] = mode_named(net->conf->shm_modes, "map");
	tp->allowed[SHM_CMA] = mode_named(net->conf->shm_modes, "cma");
	tp->allowed[SHM_RING] = mode_named(net->conf->shm_modes, "ring");
	if (tp->allowed[SHM_CMA])
		allow_cma();
	net->tp[LN_TP_SHM] = tp;
	net->bell = &tp->ctl->bell;
	ln_frame_register(net, SHM_FRAME_CTL, shm_on_ctl);
	ln_frame_register(net, SHM_FRAME_DIR, shm_on_dir);
	ln_frame_register(net, SHM_FRAME_EVFD, shm_on_evfd);
	ln_frame_register(net, SHM_FRAME_FDREQ, shm_map_request);
	ln_frame_register(net, SHM_FRAME_FDREP, shm_map_reply);
	ln_frame_register(net, SHM_FRAME_RING, shm_ring_arrived);
	return LUNE_OK;
}

static void shm_close_net(struct ln_net *net)
{
	struct shm_tp *tp = shm_of(net);

	for (int i = 0; i < SHM_LINES; i++)
		if (tp->owners[i].pidfd >= 0)
			close(tp->owners[i].pidfd);
	net->bell = &net->bell_own;
	munmap(tp->ctl, sizeof(*tp->ctl));
	close(tp->ctl_fd);
	pthread_mutex_destroy(&tp->lock);
	ln_free(tp);
	net->tp[LN_TP_SHM] = NULL;
}

static bool shm_reaches(struct ln_net *net, const struct ln_card *card)
{
	return card->node[0] == net->card.node[0] &&
	       card->node[1] == net->card.node[1] && *card->unix_name;
}

/* ---- peers --------------------------------------------------------------- */

void shm_peer_put(struct shm_tp *tp, struct shm_peer *sp)
{
	if (--sp->refs)
		return;
	shm_ring_free(tp, sp);
	if (sp->ctl)
		munmap(sp->ctl, sizeof(*sp->ctl));
	if (sp->dir)
		munmap(sp->dir, sizeof(*sp->dir));
	if (sp->evfd >= 0)
		close(sp->evfd);
	ln_free(sp);
}

static int send_ours(struct shm_tp *tp, struct ln_peer *p, struct shm_peer *sp)
{
	struct ln_frame ctl = { .type = SHM_FRAME_CTL,
				.index = sp->pid > 0,
				.a = (uint64_t)sp->their_line,
				.b = (uintptr_t)&tp->ctl->cookie };
	struct ln_frame dir = { .type = SHM_FRAME_DIR };
	struct ln_frame evfd = { .type = SHM_FRAME_EVFD };
	int rc;

	rc = ln_link_send(p, &ctl, NULL, tp->ctl_fd);
	if (!rc)
		rc = ln_link_send(p, &dir, NULL,
				  ln_mem_directory_fd(tp->net->mem));
	if (!rc)
		rc = ln_link_send(p, &evfd, NULL, tp->net->evfd);
	return rc;
}

static void maps_drop(struct shm_tp *tp, struct shm_peer *sp)
{
	struct shm_map *m, *tmp;

	/* Those that rmems use go with them. */
	DL_FOREACH_SAFE(sp->maps, m, tmp) {
		if (m->refs)
			continue;
		if (m->addr && m->code)
			atomic_fetch_sub(&tp->populating, 1);
		DL_DELETE(sp->maps, m);
		if (m->addr)
			munmap(m->addr, m->bytes);
		ln_free(m);
	}
}

static void shm_down(struct ln_peer *p)
{
	struct shm_tp *tp = shm_of(p->net);
	struct shm_peer *sp = shm_peer_of(p);

	if (!sp)
		return;
	atomic_store(&p->bell, NULL);
	/* An import may be looking at the peer's structures. */
	pthread_mutex_lock(&p->net->import_lock);
	pthread_mutex_lock(&tp->lock);
	shm_line_drop(tp, sp);
	maps_drop(tp, sp);
	DL_DELETE(tp->peers, sp);
	sp->peer = NULL;
	p->tp[LN_TP_SHM] = NULL;
	pthread_mutex_unlock(&tp->lock);
	pthread_mutex_unlock(&p->net->import_lock);
	/* No ring can be opened any more.  Reports ops, so without a lock. */
	shm_ring_down(sp, p->death_code);
	pthread_mutex_lock(&tp->lock);
	shm_peer_put(tp, sp);
	pthread_mutex_unlock(&tp->lock);
}

static int shm_up(struct ln_peer *p)
{
	struct shm_tp *tp = shm_of(p->net);
	struct shm_peer *sp;
	int rc;

	if (!ln_link_is_unix(p))
		return LUNE_ERR_UNSUPPORTED;
	if (shm_peer_of(p))
		return LUNE_OK;
	sp = ln_calloc(1, sizeof(*sp));
	if (!sp)
		return LUNE_ERR_NOMEM;
	sp->peer = p;
	sp->refs = 1;
	sp->evfd = -1;
	sp->pid = ln_link_pid(p);
	pthread_mutex_lock(&tp->lock);
	sp->their_line = shm_line_take(tp, sp);
	if (sp->their_line >= 0) {
		DL_APPEND(tp->peers, sp);
		p->tp[LN_TP_SHM] = sp;
	}
	pthread_mutex_unlock(&tp->lock);
	if (sp->their_line < 0) {
		ln_free(sp);
		return ln_error(LUNE_ERR_LIMIT, "%d peers of this node are "
				"connected already", SHM_LINES);
	}
	rc = send_ours(tp, p, sp);
	if (rc)
		shm_down(p);
	return rc;
}

/* All of `bytes` behind fd, or NULL. */
static void *map_all(int fd, size_t bytes, int prot)
{
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < bytes)
		return NULL;
	p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void arrived(struct ln_peer *p, struct shm_peer *sp, unsigned bit)
{
	struct shm_tp *tp = shm_of(p->net);

	sp->got |= bit;
	if (sp->got != SHM_GOT_ALL)
		return;
	if (tp->allowed[SHM_CMA] && sp->may_cma)
		shm_cma_probe(tp, sp);
	p->bell_fd = sp->evfd;
	atomic_store_explicit(&p->bell, &sp->ctl->bell, memory_order_release);
	ln_peer_pump(p);
	ln_net_event(p->net);
}

static int bad_share(const char *what)
{
	return ln_error(LUNE_ERR_PROTO, "the peer's %s cannot be used", what);
}

static int shm_on_ctl(struct ln_peer *p, const struct ln_frame *f,
		      const void *body, int fd)
{
	struct shm_peer *sp = shm_peer_of(p);
	struct shm_ctl *c = map_all(fd, sizeof(*c), PROT_READ | PROT_WRITE);

	(void)body;
	if (fd >= 0)
		close(fd);
	if (!sp || sp->ctl || !c || c->magic != SHM_MAGIC ||
	    c->version != 1 || f->a >= SHM_LINES) {
		if (c)
			munmap(c, sizeof(*c));
		return bad_share("control memory");
	}
	sp->ctl = c;
	sp->line = (int)f->a;
	sp->cookie_addr = f->b;
	sp->may_cma = f->index;
	arrived(p, sp, 1);
	return LUNE_OK;
}

static int shm_on_dir(struct ln_peer *p, const struct ln_frame *f,
		      const void *body, int fd)
{
	struct shm_peer *sp = shm_peer_of(p);
	struct ln_directory *d = map_all(fd, sizeof(*d), PROT_READ);

	(void)f;
	(void)body;
	if (fd >= 0)
		close(fd);
	if (!sp || sp->dir || !d) {
		if (d)
			munmap(d, sizeof(*d));
		return bad_share("directory");
	}
	sp->dir = d;
	arrived(p, sp, 2);
	return LUNE_OK;
}

static int shm_on_evfd(struct ln_peer *p, const struct ln_frame *f,
		       const void *body, int fd)
{
	struct shm_peer *sp = shm_peer_of(p);

	(void)f;
	(void)body;
	if (!sp || sp->evfd >= 0 || fd < 0) {
		if (fd >= 0)
			close(fd);
		return bad_share("eventfd");
	}
	sp->evfd = fd;
	arrived(p, sp, 4);
	return LUNE_OK;
}

/* ---- routes -------------------------------------------------------------- */

struct shm_peer *shm_rmem_peer(const struct ln_rmem *r)
{
	if (r->mode == SHM_MAP)
		return ((struct shm_map *)r->tp)->sp;
	return r->tp;
}

static int import_unmapped(struct shm_tp *tp, struct shm_peer *sp,
			   struct ln_rmem *r)
{
	int mode = SHM_NONE, rc = LUNE_OK;

	if (tp->allowed[SHM_CMA] && atomic_load(&sp->cma)) {
		mode = SHM_CMA;
	} else if (tp->allowed[SHM_RING]) {
		rc = shm_ring_open(sp);
		mode = SHM_RING;
	}
	if (rc || mode == SHM_NONE)
		return rc ? rc : LUNE_ERR_UNSUPPORTED;
	pthread_mutex_lock(&tp->lock);
	sp->refs++;
	pthread_mutex_unlock(&tp->lock);
	r->tp = sp;
	r->gen = &sp->dir->gen[(uint32_t)r->key];
	r->mode = mode;
	return LUNE_OK;
}

static int shm_import(struct ln_rmem *r)
{
	struct shm_tp *tp = shm_of(r->peer->net);
	struct shm_peer *sp = shm_peer_of(r->peer);
	int rc;

	if (!sp || (uint32_t)r->key >= LN_REGIONS_MAX)
		return LUNE_ERR_UNSUPPORTED;
	if (!atomic_load_explicit(&r->peer->bell, memory_order_acquire))
		return LUNE_ERR_AGAIN;
	if (r->shareable && tp->allowed[SHM_MAP]) {
		rc = shm_map_import(sp, r);
		if (rc != LUNE_ERR_UNSUPPORTED)
			return rc;
	}
	return import_unmapped(tp, sp, r);
}

static void shm_forget(struct ln_rmem *r)
{
	struct shm_tp *tp = shm_of(r->peer->net);

	pthread_mutex_lock(&tp->lock);
	if (r->mode == SHM_MAP)
		shm_map_forget(tp, r->tp);
	else
		shm_peer_put(tp, r->tp);
	pthread_mutex_unlock(&tp->lock);
	r->tp = NULL;
}

static void shm_route_text(const struct ln_rmem *r, char *out, size_t cap)
{
	static const char *const names[] = { "shm", "shm/map", "shm/cma",
					     "shm/ring" };

	snprintf(out, cap, "%s", names[r->mode]);
}

/* ---- progress ------------------------------------------------------------ */

static int shm_progress(struct ln_net *net)
{
	struct shm_tp *tp = shm_of(net);
	struct shm_peer *sp, *tmp;
	int n = 0;

	bool rings = atomic_load_explicit(&tp->rings, memory_order_relaxed);
	bool maps = atomic_load_explicit(&tp->populating,
					 memory_order_relaxed);

	if (!rings && !maps)
		return 0;
	/* The list changes in the poller only, and we are the poller. */
	DL_FOREACH_SAFE(tp->peers, sp, tmp) {
		if (rings)
			n += shm_ring_progress(sp);
		if (maps)
			n += shm_map_progress(sp);
	}
	return n;
}

const struct ln_net_ops ln_net_shm = {
	.name = "shm",
	.index = LN_TP_SHM,
	.probe = shm_probe,
	.open = shm_open_net,
	.close = shm_close_net,
	.reaches = shm_reaches,
	.up = shm_up,
	.down = shm_down,
	.import = shm_import,
	.forget = shm_forget,
	.post = shm_op_post,
	.cancel = shm_op_cancel,
	.progress = shm_progress,
	.fence = shm_cma_fence,
	.route_text = shm_route_text,
};
