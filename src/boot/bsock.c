/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the bootstrap: few, short-lived, and every step with a deadline.
 * They are non-blocking, and waits are poll(2) with what is left.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/internal.h"

/* An address that swallows packets must not use up the others' time. */
#define ATTEMPT_MS 3000

static int resolve(const char *host, int port, int flags, struct addrinfo **out)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | flags,
	};
	char service[16];
	int err;

	snprintf(service, sizeof(service), "%d", port);
	err = getaddrinfo(host, service, &hints, out);
	if (err)
		return ln_error(LUNE_ERR_UNREACHABLE, "%s: %s", host,
				gai_strerror(err));
	return LUNE_OK;
}

/* Wait for events; LUNE_OK also when only an error is to be fetched. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, ln_deadline_left_ms(deadline));
	} while ((n < 0 && errno == EINTR) ||
		 (!n && !ln_deadline_passed(deadline)));
	if (n < 0)
		return ln_error_errno(LUNE_ERR_SYSTEM, "poll");
	return n ? LUNE_OK :
		   ln_error(LUNE_ERR_TIMEOUT,
			    "no answer before the deadline");
}

static int finish_connect(int fd, uint64_t deadline)
{
	socklen_t len = sizeof(int);
	int rc, err = 0;

	rc = wait_for(fd, POLLOUT, deadline);
	if (rc == LUNE_ERR_TIMEOUT) {
		errno = ETIMEDOUT;
		return rc;
	}
	if (rc)
		return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return LUNE_ERR_SYSTEM;
	errno = err;
	return err ? LUNE_ERR_UNREACHABLE : LUNE_OK;
}

static int connect_one(const struct addrinfo *a, uint64_t deadline, int *out)
{
	int one = 1;
	int rc, err;
	int fd = socket(a->ai_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return LUNE_ERR_UNREACHABLE;
	if (!connect(fd, a->ai_addr, a->ai_addrlen))
		rc = LUNE_OK;
	else if (errno == EINPROGRESS)
		rc = finish_connect(fd, deadline);
	else
		rc = LUNE_ERR_UNREACHABLE;
	if (rc) {
		err = errno;
		close(fd);
		errno = err;
		return rc;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*out = fd;
	return LUNE_OK;
}

int ln_bsock_connect(const char *host, int port, uint64_t deadline, int *out)
{
	struct addrinfo *list, *a;
	int rc = resolve(host, port, 0, &list);
	int err = 0;

	if (rc)
		return rc;
	rc = LUNE_ERR_UNREACHABLE;
	for (a = list; a && rc && !ln_deadline_passed(deadline);
	     a = a->ai_next) {
		uint64_t till = ln_deadline(ATTEMPT_MS, 0);

		rc = connect_one(a, ln_min(till, deadline), out);
		err = errno;
	}
	freeaddrinfo(list);
	if (!rc)
		return LUNE_OK;
	return ln_error(LUNE_ERR_UNREACHABLE, "%s:%d: %s", host, port,
			err ? strerror(err) : "the deadline passed");
}

/*
 * What to bind for a host name.  A numeric address, or one that is only this
 * machine's, is bound as it is.  A name may mean another address here than it
 * does elsewhere (Debian's hosts file maps the own name to 127.0.1.1): then
 * every address is served.
 */
static bool bind_as_named(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || strchr(host, ':') ||
	       !strcmp(host, "localhost");
}

static int listen_one(const struct addrinfo *a, int *out)
{
	int one = 1, zero = 0, err;
	int fd = socket(a->ai_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return LUNE_ERR_SYSTEM;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1024)) {
		err = errno;
		close(fd);
		errno = err;
		return LUNE_ERR_SYSTEM;
	}
	*out = fd;
	return LUNE_OK;
}

/* Of the same addresses, IPv6 first: its wildcard serves IPv4 as well. */
static int listen_any(const struct addrinfo *list, int *out)
{
	int rc = LUNE_ERR_SYSTEM;

	for (int v6 = 1; v6 >= 0 && rc; v6--)
		for (const struct addrinfo *a = list; a && rc; a = a->ai_next)
			if ((a->ai_family == AF_INET6) == v6)
				rc = listen_one(a, out);
	return rc;
}

int ln_bsock_listen(const char *host, int port, int *out)
{
	const char *what = bind_as_named(host) ? host : NULL;
	struct addrinfo *list;
	int err, rc = resolve(what, port, AI_PASSIVE, &list);

	if (rc)
		return rc;
	rc = listen_any(list, out);
	err = errno;
	freeaddrinfo(list);
	if (!rc)
		return LUNE_OK;
	errno = err;
	ln_error_errno(rc, "cannot serve on %s:%d", host, port);
	errno = err;
	return rc;
}

int ln_bsock_port(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len))
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
	return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

int ln_bsock_read(int fd, void *p, size_t bytes, uint64_t deadline)
{
	char *at = p;

	while (bytes) {
		ssize_t n = recv(fd, at, bytes, 0);
		int rc;

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
			continue;
		}
		if (!n)
			return ln_error(LUNE_ERR_PEER, "the connection was "
						       "closed");
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return ln_error_errno(LUNE_ERR_PEER, "receiving");
		rc = wait_for(fd, POLLIN, deadline);
		if (rc)
			return rc;
	}
	return LUNE_OK;
}

int ln_bsock_write(int fd, const void *p, size_t bytes, uint64_t deadline)
{
	const char *at = p;

	while (bytes) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
		int rc;

		if (n >= 0) {
			at += n;
			bytes -= (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return ln_error_errno(LUNE_ERR_PEER, "sending");
		rc = wait_for(fd, POLLOUT, deadline);
		if (rc)
			return rc;
	}
	return LUNE_OK;
}

void ln_bsock_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void ln_bsock_nap(uint64_t deadline, int ms)
{
	uint64_t till = ln_deadline(ms, 0);
	int left = ln_deadline_left_ms(ln_min(till, deadline));

	poll(NULL, 0, left);
}
