/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp rendezvous, as every rank sees it: find rank 0, join, give the card,
 * get all cards.  Rank 0 is a rank like the others, over a socket pair to its
 * own server thread (tcp_server.c).
 *
 * A rank may start before rank 0 serves, so connecting is repeated until the
 * deadline.  What answers on the port need not be ours: whatever does not
 * speak the protocol, or serves another epoch, counts as not there yet.
 *
 * Without LUNE_JOB_KEY_FILE the key is handed out to all who join, over the
 * network as it is: that keeps accidents out, not attackers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "boot/rendezvous.h"

/* How long one answer to HELLO may take before another port is tried. */
#define ANSWER_MS 5000
#define RETRY_MS 50
#define CLOSE_MS 3000

struct state {
	int fd;
	struct ln_rdv_server *server; /* rank 0 only */
	char where[LN_BOOT_HOST_MAX + 16];
};

static int send_message(int fd, int type, const void *p, size_t len,
			uint64_t deadline)
{
	uint8_t buf[LN_RDV_HEAD + LN_RDV_IN_MAX];
	size_t n = ln_rdv_frame(buf, sizeof(buf), type, p, len);

	return ln_bsock_write(fd, buf, n, deadline);
}

static int read_error(int fd, uint32_t len, uint64_t deadline)
{
	uint8_t buf[LN_RDV_OUT_MAX];
	struct ln_unpack u = { .p = buf, .len = len };
	char text[LN_RDV_SENTENCE];
	int rc, code;

	if (len > sizeof(buf))
		return ln_error(LUNE_ERR_PROTO, "an error of %u bytes", len);
	rc = ln_bsock_read(fd, buf, len, deadline);
	if (rc)
		return rc;
	code = (int)ln_unpack_u32(&u);
	ln_unpack_str(&u, text, sizeof(text));
	if (u.bad || code >= 0)
		return ln_error(LUNE_ERR_PROTO, "an error that has no sense");
	return ln_error(code, "%s", text);
}

/*
 * The head of the next message, which must be of this type; an ERROR becomes
 * this call's error.
 */
static int read_head(int fd, int want, uint64_t deadline, uint32_t *len)
{
	uint8_t head[LN_RDV_HEAD];
	int type, rc = ln_bsock_read(fd, head, sizeof(head), deadline);

	if (rc)
		return rc;
	if (!ln_rdv_head_unpack(head, &type, len))
		return ln_error(LUNE_ERR_PROTO,
				"another service than Lune answers");
	if (type == LN_RDV_ERROR)
		return read_error(fd, *len, deadline);
	if (type != want)
		return ln_error(LUNE_ERR_PROTO, "message %d instead of %d",
				type, want);
	return LUNE_OK;
}

static int read_fixed(int fd, int type, void *p, size_t bytes,
		      uint64_t deadline)
{
	uint32_t len;
	int rc = read_head(fd, type, deadline, &len);

	if (rc)
		return rc;
	if (len != bytes)
		return ln_error(LUNE_ERR_PROTO, "message %d of %u bytes", type,
				len);
	return ln_bsock_read(fd, p, bytes, deadline);
}

/* Prove the key; then the server's proof must come with WELCOME. */
static int prove(const struct ln_boot *b, int fd, const struct ln_rdv_hello *h,
		 uint64_t deadline, uint8_t nonce[LN_RDV_NONCE])
{
	uint8_t mac[LN_MAC_BYTES];
	int rc = read_fixed(fd, LN_RDV_CHALLENGE, nonce, LN_RDV_NONCE,
			    deadline);

	if (rc)
		return rc;
	ln_rdv_proof(b->info.key, "rank", h, nonce, mac);
	return send_message(fd, LN_RDV_PROOF, mac, sizeof(mac), deadline);
}

static int read_welcome(struct ln_boot *b, int fd, const struct ln_rdv_hello *h,
			const uint8_t nonce[LN_RDV_NONCE], uint64_t deadline)
{
	uint8_t buf[1 + LN_MAC_BYTES], want[LN_MAC_BYTES];
	int rc = read_fixed(fd, LN_RDV_WELCOME, buf, sizeof(buf), deadline);

	if (rc)
		return rc;
	if (!b->have_key) {
		/* Rank 0 made it, and its server is reading it. */
		if (b->info.rank)
			memcpy(b->info.key, buf + 1, LN_KEY_BYTES);
		return LUNE_OK;
	}
	ln_rdv_proof(b->info.key, "server", h, nonce, want);
	if (!buf[0] || !ln_mac_equal(buf + 1, want))
		return ln_error(LUNE_ERR_AUTH,
				"the server does not prove the job key");
	return LUNE_OK;
}

static int join(struct ln_boot *b, int fd, uint64_t deadline)
{
	struct ln_rdv_hello h = {
		.rank = (uint32_t)b->info.rank,
		.size = (uint32_t)b->info.size,
		.epoch = b->info.epoch,
		.keyed = b->have_key,
	};
	uint8_t buf[sizeof(h) + 16], nonce[LN_RDV_NONCE] = { 0 };
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	int rc = ln_random(h.nonce, sizeof(h.nonce));

	if (rc)
		return rc;
	memcpy(h.job, b->info.job, sizeof(h.job));
	ln_rdv_hello_pack(&k, &h);
	rc = send_message(fd, LN_RDV_HELLO, buf, k.len, deadline);
	if (!rc && b->have_key)
		rc = prove(b, fd, &h, deadline, nonce);
	if (!rc)
		rc = read_welcome(b, fd, &h, nonce, deadline);
	return rc;
}

/* Is it worth to try again?  Not after a definite answer of our server. */
static bool may_come(int rc)
{
	return rc == LUNE_ERR_UNREACHABLE || rc == LUNE_ERR_PEER ||
	       rc == LUNE_ERR_PROTO || rc == LUNE_ERR_AGAIN ||
	       rc == LUNE_ERR_TIMEOUT;
}

static void set_where(struct state *s, const char *host, int port)
{
	bool v6 = strchr(host, ':');

	snprintf(s->where, sizeof(s->where), "%s%s%s:%d", v6 ? "[" : "", host,
		 v6 ? "]" : "", port);
}

static int try_port(struct ln_boot *b, const char *host, int port,
		    uint64_t deadline)
{
	struct state *s = b->priv;
	uint64_t soon = ln_deadline(ANSWER_MS, 0);
	int rc = ln_bsock_connect(host, port, deadline, &s->fd);

	if (rc)
		return rc;
	rc = join(b, s->fd, ln_min(soon, deadline));
	if (rc)
		ln_bsock_close(&s->fd);
	else
		set_where(s, host, port);
	return rc;
}

static int find_server(struct ln_boot *b, const struct ln_tcp_where *at,
		       uint64_t deadline)
{
	int rc = LUNE_ERR_TIMEOUT;
	int port = at->port;

	/* One attempt at least, however short the time. */
	do {
		rc = try_port(b, at->host, port, deadline);
		if (!rc || !may_come(rc))
			break;
		port = port + 1 < at->port + at->ports ? port + 1 : at->port;
		if (port == at->port)
			ln_bsock_nap(deadline, RETRY_MS);
	} while (!ln_deadline_passed(deadline));
	if (!rc)
		return LUNE_OK;
	if (!may_come(rc))
		return ln_error_prefix(rc, "rank %d of %d, rendezvous at %s:%d",
				       b->info.rank, b->info.size, at->host,
				       at->port);
	return ln_error_prefix(LUNE_ERR_TIMEOUT,
			       "rank 0 of %d did not serve the rendezvous at "
			       "%s:%d in time", b->info.size, at->host,
			       at->port);
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return ln_error_errno(LUNE_ERR_SYSTEM, "fcntl");
	return LUNE_OK;
}

static int listen_somewhere(const struct ln_tcp_where *at, uint64_t deadline,
			    int *out)
{
	int rc, port = at->port;

	/* The port may still belong to the world before this one. */
	for (;;) {
		rc = ln_bsock_listen(at->host, port, out);
		if (!rc || errno != EADDRINUSE || ln_deadline_passed(deadline))
			break;
		port = port + 1 < at->port + at->ports ? port + 1 : at->port;
		if (port == at->port)
			ln_bsock_nap(deadline, RETRY_MS);
	}
	return rc ? ln_error_prefix(LUNE_ERR_BOOT, "rank 0, tcp rendezvous") :
		    LUNE_OK;
}

static int serve(struct ln_boot *b, const struct ln_tcp_where *at,
		 uint64_t deadline)
{
	struct ln_rdv_server_opts o = { .b = b };
	struct state *s = b->priv;
	int pair[2], rc;

	if (!b->have_key) {
		rc = ln_random(b->info.key, LN_KEY_BYTES);
		if (rc)
			return rc;
	}
	rc = listen_somewhere(at, deadline, &o.listen_fd);
	if (rc)
		return rc;
	set_where(s, at->host, ln_bsock_port(o.listen_fd));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		ln_error_errno(LUNE_ERR_SYSTEM, "socketpair");
		ln_bsock_close(&o.listen_fd);
		return LUNE_ERR_SYSTEM;
	}
	s->fd = pair[0];
	o.own_fd = pair[1];
	set_nonblocking(pair[0]);
	set_nonblocking(pair[1]);
	rc = ln_rdv_server_start(&o, &s->server);
	return rc ? rc : join(b, s->fd, deadline);
}

int ln_tcp_open(struct ln_boot *b, const struct ln_tcp_where *at,
		uint64_t deadline)
{
	struct state *s = ln_calloc(1, sizeof(*s));

	if (!s)
		return LUNE_ERR_NOMEM;
	s->fd = -1;
	b->priv = s;
	if (b->info.size == 1)
		return b->have_key ? LUNE_OK :
				     ln_random(b->info.key, LN_KEY_BYTES);
	if (b->info.rank)
		return find_server(b, at, deadline);
	return serve(b, at, deadline);
}

static int tcp_open(struct ln_boot *b, uint64_t deadline)
{
	struct ln_tcp_where at = { b->url.host, b->url.port, 1 };

	b->info.rank = b->url.rank;
	b->info.size = b->url.size;
	snprintf(b->info.job, sizeof(b->info.job), "%s",
		 *b->url.job ? b->url.job : "tcp");
	return ln_tcp_open(b, &at, deadline);
}

static int send_card(const struct state *s, const struct ln_boot_card *mine,
		     uint64_t deadline)
{
	uint8_t buf[4 + LN_CARD_MAX];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	int left = ln_deadline_left_ms(deadline);

	/* LN_NEVER is -1: a day will do. */
	ln_pack_u32(&k, (uint32_t)(left < 0 ? 86400 * 1000 : left));
	ln_pack_bytes(&k, mine->bytes, mine->len);
	return send_message(s->fd, LN_RDV_CARD, buf, k.len, deadline);
}

static int take_cards(struct ln_unpack *u, int size, struct ln_boot_card *cards)
{
	int rc = LUNE_OK;

	for (int i = 0; i < size && !rc; i++) {
		size_t len = ln_unpack_u32(u);

		if (u->bad || len > u->len - u->pos)
			return ln_error(LUNE_ERR_PROTO, "cards cut short");
		rc = ln_ranks_card(&cards[i], u->p + u->pos, len);
		u->pos += len;
	}
	if (!rc && u->pos != u->len)
		rc = ln_error(LUNE_ERR_PROTO, "bytes after the last card");
	return rc;
}

static int read_cards(const struct ln_boot *b, uint64_t deadline,
		      struct ln_boot_card *cards)
{
	const struct state *s = b->priv;
	size_t most = (size_t)b->info.size * (4 + LN_CARD_MAX);
	struct ln_unpack u = { 0 };
	uint8_t *buf;
	uint32_t len;
	int rc = read_head(s->fd, LN_RDV_ALL, deadline, &len);

	if (rc)
		return rc;
	if (len > most)
		return ln_error(LUNE_ERR_PROTO, "cards of %u bytes", len);
	buf = ln_malloc(len + 1);
	if (!buf)
		return LUNE_ERR_NOMEM;
	rc = ln_bsock_read(s->fd, buf, len, deadline);
	u.p = buf;
	u.len = len;
	if (!rc)
		rc = take_cards(&u, b->info.size, cards);
	ln_free(buf);
	return rc;
}

static int tcp_exchange(struct ln_boot *b, const struct ln_boot_card *mine,
			uint64_t deadline, struct ln_boot_card *cards)
{
	struct state *s = b->priv;
	int rc;

	if (b->info.size == 1)
		return ln_ranks_card(&cards[0], mine->bytes, mine->len);
	rc = send_card(s, mine, deadline);
	/* Also after a failed send: an ERROR may lie there for us. */
	if (!rc || rc == LUNE_ERR_PEER)
		rc = read_cards(b, deadline, cards);
	ln_bsock_close(&s->fd);
	if (rc == LUNE_ERR_PEER)
		return ln_error_prefix(LUNE_ERR_BOOT,
				       "rank 0 of %d, which serves the "
				       "rendezvous at %s, is gone",
				       b->info.size, s->where);
	if (rc)
		return ln_error_prefix(rc, "rank %d, rendezvous at %s",
				       b->info.rank, s->where);
	return rc;
}

static void tcp_close(struct ln_boot *b, bool clean, uint64_t deadline)
{
	struct state *s = b->priv;
	uint64_t soon = ln_deadline(CLOSE_MS, 0);

	(void)clean;
	if (!s)
		return;
	ln_bsock_close(&s->fd);
	if (s->server)
		ln_rdv_server_stop(s->server, ln_min(soon, deadline));
	ln_free(s);
	b->priv = NULL;
}

const struct ln_boot_ops ln_tcp_ops = {
	.scheme = "tcp",
	.open = tcp_open,
	.exchange = tcp_exchange,
	.close = tcp_close,
};
