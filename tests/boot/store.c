/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/boot/store.h"
#include "tests/harness/unit.h"

#define CONNS 64
#define RECORDS 256
#define BYTES 16384

struct record {
	char key[256];
	uint8_t value[BYTES];
	size_t len;
};

struct conn {
	int fd;
	uint8_t in[4 * BYTES];
	size_t len;
	char waits[64][256]; /* keys of a WAIT that is not answered yet */
	int nwaits;
};

static enum store_kind serving;
static bool stopped; /* STORE_STOPS: now it is the time */
static struct record records[RECORDS];
static int nrecords;
static struct conn conns[CONNS];
static int nconns;

/* A request as it is read; bad: it is not complete yet. */
struct reader {
	const uint8_t *p;
	size_t at, len;
	bool bad;
};

static void take(struct reader *r, void *to, size_t n)
{
	memset(to, 0, n);
	if (r->bad || n > r->len - r->at) {
		r->bad = true;
		return;
	}
	memcpy(to, r->p + r->at, n);
	r->at += n;
}

static size_t take_bytes(struct reader *r, void *to, size_t cap)
{
	uint64_t n;

	take(r, &n, sizeof(n));
	CHECK(r->bad || n < cap);
	if (!r->bad)
		take(r, to, n);
	return r->bad ? 0 : n;
}

static void take_key(struct reader *r, char key[256])
{
	size_t n = take_bytes(r, key, 256);

	key[n] = '\0';
	CHECK(r->bad || *key == '/');
}

static struct record *find(const char *key, bool make)
{
	for (int i = 0; i < nrecords; i++)
		if (!strcmp(records[i].key, key))
			return &records[i];
	if (!make)
		return NULL;
	CHECK(nrecords < RECORDS);
	snprintf(records[nrecords].key, sizeof(records[0].key), "%s", key);
	return &records[nrecords++];
}

static void answer(int fd, const void *p, size_t n)
{
	/* Who asked may have given up in the meantime. */
	if (send(fd, p, n, MSG_NOSIGNAL) < 0)
		shutdown(fd, SHUT_RDWR);
}

static void answer_value(int fd, const char *key)
{
	struct record *rec = find(key, false);
	uint64_t n;

	/* A client that asks for what is not there would hang. */
	CHECK_MSG(rec, "GET of %s, which is not there", key);
	n = rec->len;
	answer(fd, &n, sizeof(n));
	answer(fd, rec->value, rec->len);
}

static void do_set(struct reader *r, bool append)
{
	static uint8_t value[BYTES];
	char key[256];
	struct record *rec;
	size_t n;

	take_key(r, key);
	n = take_bytes(r, value, sizeof(value));
	if (r->bad)
		return;
	if (serving == STORE_STOPS && strstr(key, ".card."))
		stopped = true;
	rec = find(key, true);
	if (!append)
		rec->len = 0;
	CHECK(rec->len + n <= BYTES);
	memcpy(rec->value + rec->len, value, n);
	rec->len += n;
}

static void do_add(struct reader *r, int fd)
{
	struct record *rec;
	char key[256];
	int64_t n;

	take_key(r, key);
	take(r, &n, sizeof(n));
	if (r->bad)
		return;
	rec = find(key, true);
	rec->value[rec->len] = '\0';
	n += atoll((char *)rec->value);
	rec->len = (size_t)snprintf((char *)rec->value, BYTES, "%lld",
				    (long long)n);
	answer(fd, &n, sizeof(n));
}

static void do_keys(struct reader *r, struct conn *c, int op)
{
	static char keys[64][256];
	bool all = true;
	uint8_t byte;
	uint64_t n;

	take(r, &n, sizeof(n));
	CHECK(r->bad || n <= 64);
	for (uint64_t i = 0; i < n && !r->bad; i++) {
		take_key(r, keys[i]);
		all = all && find(keys[i], false);
	}
	if (r->bad)
		return;
	byte = !all;
	if (op == 5) {
		answer(c->fd, &byte, 1);
	} else if (op == 6) {
		memcpy(c->waits, keys, sizeof(keys));
		c->nwaits = (int)n;
	} else {
		for (uint64_t i = 0; i < n; i++)
			answer_value(c->fd, keys[i]);
	}
}

static void do_get(struct reader *r, int fd)
{
	char key[256];

	take_key(r, key);
	if (!r->bad)
		answer_value(fd, key);
}

static void do_validate(struct reader *r)
{
	uint32_t magic;

	take(r, &magic, sizeof(magic));
	CHECK(r->bad || magic == 0x3c85f7ce);
}

static void one_request(struct conn *c, struct reader *r)
{
	uint8_t op;

	take(r, &op, 1);
	if (r->bad)
		return;
	switch (op) {
	case 0:
		do_validate(r);
		break;
	case 1:
	case 9:
		do_set(r, op == 9);
		break;
	case 3:
		do_get(r, c->fd);
		break;
	case 4:
		do_add(r, c->fd);
		break;
	case 5:
	case 6:
	case 10:
		do_keys(r, c, op);
		break;
	default:
		CHECK_MSG(0, "operation %d", op);
	}
}

static void all_requests(struct conn *c)
{
	for (;;) {
		struct reader r = { .p = c->in, .len = c->len };

		one_request(c, &r);
		if (r.bad)
			return;
		c->len -= r.at;
		memmove(c->in, c->in + r.at, c->len);
	}
}

static void answer_waits(void)
{
	for (int i = 0; i < nconns; i++) {
		struct conn *c = &conns[i];
		bool all = c->nwaits > 0;

		for (int k = 0; k < c->nwaits; k++)
			all = all && find(c->waits[k], false);
		if (!all)
			continue;
		c->nwaits = 0;
		answer(c->fd, "", 1);
	}
}

/* false: the connection is over. */
static bool on_bytes(struct conn *c)
{
	static const uint8_t garbage[8] = { 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff };
	ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, 0);

	if (n <= 0 || serving == STORE_CLOSES)
		return false;
	if (serving == STORE_SILENT)
		return true;
	if (serving == STORE_GARBAGE) {
		send(c->fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
		return true;
	}
	c->len += (size_t)n;
	all_requests(c);
	answer_waits();
	return !stopped;
}

static int listen_on(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK(!bind(fd, (struct sockaddr *)&a, sizeof(a)));
	CHECK(!listen(fd, CONNS));
	return fd;
}

void store_serve(int port, enum store_kind kind, unsigned done, int ranks)
{
	int listener = listen_on(port);

	serving = kind;
	while ((int)ranks_get(done) < ranks) {
		struct pollfd p[CONNS + 1];

		p[CONNS] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (int i = 0; i < CONNS; i++)
			p[i] = (struct pollfd){
				.fd = i < nconns ? conns[i].fd : -1,
				.events = POLLIN,
			};
		/* The flag is no descriptor: look at it from time to time. */
		CHECK(poll(p, CONNS + 1, 20) >= 0);
		for (int i = 0; i < nconns; i++) {
			if (!p[i].revents || on_bytes(&conns[i]))
				continue;
			close(conns[i].fd);
			conns[i].fd = -1;
			conns[i].nwaits = 0;
		}
		if (p[CONNS].revents) {
			CHECK(nconns < CONNS);
			conns[nconns++].fd = accept(listener, NULL, NULL);
		}
	}
	close(listener);
}
