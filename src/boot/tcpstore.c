/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire protocol of PyTorch 2.x's TCPStore, learnt by measuring (it is not
 * a documented interface).  Numbers are in the machine's byte order.
 *
 *	VALIDATE	op, u32 magic				no answer
 *	SET, APPEND	op, key, value				no answer
 *	GET		op, key					value
 *	MULTI_GET	op, u64 n, n keys			n values
 *	ADD		op, key, i64				i64
 *	CHECK		op, u64 n, n keys			u8 0: all there
 *	WAIT		op, u64 n, n keys			u8 0, when there
 *
 * A key or value is a u64 length and bytes.  Older servers take VALIDATE for
 * another operation and then wait for bytes that never come, so the first
 * thing is an ADD, whose answer is known: the wrong one, or none, means that
 * this server is not ours.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "boot/tcpstore.h"

#define MAGIC 0x3c85f7ceu
#define KEY_MAX 512

enum op {
	OP_VALIDATE = 0,
	OP_SET = 1,
	OP_GET = 3,
	OP_ADD = 4,
	OP_CHECK = 5,
	OP_WAIT = 6,
	OP_APPEND = 9,
	OP_MULTI_GET = 10,
};

static void native_u64(struct ln_pack *k, uint64_t v)
{
	ln_pack_bytes(k, &v, sizeof(v));
}

static void text(struct ln_pack *k, const char *s)
{
	native_u64(k, strlen(s));
	ln_pack_bytes(k, s, strlen(s));
}

static int send_request(int fd, struct ln_pack *k, uint64_t deadline)
{
	if (k->bad)
		return ln_error(LUNE_ERR_LIMIT, "a TCPStore request is too "
						"long");
	return ln_bsock_write(fd, k->p, k->len, deadline);
}

int ln_store_parse(const uint8_t *p, size_t len, size_t max, size_t count,
		   struct ln_store_bytes *out)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t bytes;

		if (len - at < sizeof(bytes))
			return LUNE_ERR_AGAIN;
		memcpy(&bytes, p + at, sizeof(bytes));
		at += sizeof(bytes);
		if (bytes > max)
			return ln_error(LUNE_ERR_PROTO, "a TCPStore value of "
					"%llu bytes",
					(unsigned long long)bytes);
		if (len - at < bytes)
			return LUNE_ERR_AGAIN;
		out[i].p = p + at;
		out[i].len = (size_t)bytes;
		at += (size_t)bytes;
	}
	if (at != len)
		return ln_error(LUNE_ERR_PROTO,
				"the TCPStore sent more than was asked for");
	return LUNE_OK;
}

/* An answer as it grows: until it parses. */
struct answer {
	uint8_t *buf;
	size_t len, cap;
};

static int grow(struct answer *a, size_t most)
{
	size_t cap = a->cap ? 2 * a->cap : 4096;
	uint8_t *p;

	if (a->len < a->cap)
		return LUNE_OK;
	if (a->cap >= most)
		return ln_error(LUNE_ERR_PROTO, "a TCPStore answer of over %zu "
						"bytes", most);
	p = ln_realloc_array(a->buf, ln_min(cap, most), 1);
	if (!p)
		return LUNE_ERR_NOMEM;
	a->buf = p;
	a->cap = ln_min(cap, most);
	return LUNE_OK;
}

static int read_some(int fd, struct answer *a, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = recv(fd, a->buf + a->len, a->cap - a->len, 0);

	if (n > 0) {
		a->len += (size_t)n;
		return LUNE_OK;
	}
	if (!n)
		return ln_error(LUNE_ERR_PEER, "the TCPStore closed the "
					       "connection");
	if (errno != EAGAIN && errno != EINTR)
		return ln_error_errno(LUNE_ERR_PEER, "receiving from the "
						     "TCPStore");
	if (ln_deadline_passed(deadline))
		return ln_error(LUNE_ERR_TIMEOUT, "the TCPStore did not answer "
						  "before the deadline");
	poll(&p, 1, ln_deadline_left_ms(deadline));
	return LUNE_OK;
}

static int read_values(int fd, size_t max, size_t count, struct answer *a,
		       struct ln_store_bytes *out, uint64_t deadline)
{
	size_t most = count * (8 + max);
	int rc;

	do {
		rc = grow(a, most);
		if (!rc)
			rc = read_some(fd, a, deadline);
		if (!rc)
			rc = ln_store_parse(a->buf, a->len, max, count, out);
	} while (rc == LUNE_ERR_AGAIN);
	return rc;
}

static int probe(int fd, const char *key, uint64_t deadline)
{
	uint8_t buf[KEY_MAX + 64];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	uint32_t magic = MAGIC;
	int64_t got;
	int rc;

	ln_pack_u8(&k, OP_VALIDATE);
	ln_pack_bytes(&k, &magic, sizeof(magic));
	ln_pack_u8(&k, OP_ADD);
	text(&k, key);
	native_u64(&k, 1);
	rc = send_request(fd, &k, deadline);
	if (!rc)
		rc = ln_bsock_read(fd, &got, sizeof(got), deadline);
	/* How many have probed so far, over all restarts. */
	if (!rc && (got < 1 || got > INT32_MAX))
		rc = ln_error(LUNE_ERR_PROTO, "it does not speak the TCPStore "
					      "protocol that we know");
	return rc;
}

int ln_store_open(const char *host, int port, const char *probe_key,
		  uint64_t deadline, int *out)
{
	int rc = ln_bsock_connect(host, port, deadline, out);

	if (rc)
		return rc;
	rc = probe(*out, probe_key, deadline);
	if (rc)
		ln_bsock_close(out);
	return rc;
}

static int send_value(int fd, enum op op, const char *key,
		      struct ln_store_bytes value, uint64_t deadline)
{
	uint8_t buf[KEY_MAX + 64 + LN_CARD_MAX];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	int rc;

	ln_pack_u8(&k, (uint8_t)op);
	text(&k, key);
	native_u64(&k, value.len);
	ln_pack_bytes(&k, value.p, value.len);
	rc = send_request(fd, &k, deadline);
	/* The job key may be in it. */
	explicit_bzero(buf, sizeof(buf));
	return rc;
}

int ln_store_set(int fd, const char *key, struct ln_store_bytes value,
		 uint64_t deadline)
{
	return send_value(fd, OP_SET, key, value, deadline);
}

int ln_store_append(int fd, const char *key, struct ln_store_bytes value,
		    uint64_t deadline)
{
	return send_value(fd, OP_APPEND, key, value, deadline);
}

int ln_store_get(int fd, const char *key, uint64_t deadline,
		 struct ln_boot_card *out)
{
	uint8_t buf[KEY_MAX + 64];
	struct ln_pack k = { .p = buf, .cap = sizeof(buf) };
	struct ln_store_bytes value;
	struct answer a = { 0 };
	int rc;

	ln_pack_u8(&k, OP_GET);
	text(&k, key);
	rc = send_request(fd, &k, deadline);
	if (!rc)
		rc = read_values(fd, LN_STORE_VALUE_MAX, 1, &a, &value,
				 deadline);
	if (rc) {
		ln_free(a.buf);
		return rc;
	}
	/* The value stands behind its length. */
	memmove(a.buf, value.p, value.len);
	out->bytes = a.buf;
	out->len = value.len;
	return LUNE_OK;
}

static int send_keys(int fd, enum op op, const struct ln_store_keys *keys,
		     uint64_t deadline)
{
	size_t each = 8 + strlen(keys->prefix) + 12;
	struct ln_pack k = { .cap = 9 + each * (size_t)keys->count };
	char key[KEY_MAX];
	int rc;

	k.p = ln_malloc(k.cap);
	if (!k.p)
		return LUNE_ERR_NOMEM;
	ln_pack_u8(&k, (uint8_t)op);
	native_u64(&k, (uint64_t)keys->count);
	for (int i = 0; i < keys->count; i++) {
		snprintf(key, sizeof(key), "%s%d", keys->prefix,
			 keys->first + i);
		text(&k, key);
	}
	rc = send_request(fd, &k, deadline);
	ln_free(k.p);
	return rc;
}

int ln_store_get_cards(int fd, const struct ln_store_keys *keys,
		       uint64_t deadline, struct ln_boot_card *out)
{
	struct ln_store_bytes values[LN_STORE_BATCH];
	struct answer a = { 0 };
	int rc = send_keys(fd, OP_MULTI_GET, keys, deadline);

	if (!rc)
		rc = read_values(fd, LN_CARD_MAX, (size_t)keys->count, &a,
				 values, deadline);
	for (int i = 0; !rc && i < keys->count; i++)
		rc = ln_ranks_card(&out[i], values[i].p, values[i].len);
	ln_free(a.buf);
	return rc;
}

int ln_store_check(int fd, const struct ln_store_keys *keys, uint64_t deadline,
		   bool *out)
{
	uint8_t answer;
	int rc = send_keys(fd, OP_CHECK, keys, deadline);

	if (!rc)
		rc = ln_bsock_read(fd, &answer, 1, deadline);
	if (rc)
		return rc;
	if (answer > 1)
		return ln_error(LUNE_ERR_PROTO, "a TCPStore check answered %u",
				answer);
	*out = !answer;
	return LUNE_OK;
}

int ln_store_wait(int fd, const struct ln_store_keys *keys, uint64_t deadline)
{
	uint8_t answer;
	int rc = send_keys(fd, OP_WAIT, keys, deadline);

	if (!rc)
		rc = ln_bsock_read(fd, &answer, 1, deadline);
	if (!rc && answer)
		rc = ln_error(LUNE_ERR_PROTO, "a TCPStore wait answered %u",
			      answer);
	return rc;
}
