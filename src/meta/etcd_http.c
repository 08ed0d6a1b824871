/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP to one endpoint of etcd.  One curl handle, driven through a multi
 * handle of its own even for a single request, because only that can wait for
 * our stop descriptor, too: closing a client never waits for a slow etcd.
 *
 * Limits: an answer, or a line of a stream, has at most ANSWER_MAX bytes.
 */
#include <stdlib.h>

#include "meta/etcd_http.h"
#include "meta/etcd_json.h"

#define ANSWER_MAX (512u << 20)
/* An answer buffer that is larger than this is not kept. */
#define KEEP_BYTES (256u << 10)
#define CONNECT_MS 5000
#define TICK_MS 1000

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- what comes in ------------------------------------------------------ */

static int append(struct ln_etcd_http *h, const char *p, size_t n)
{
	size_t cap = h->cap ? h->cap : 4096;
	char *more;

	if (h->len + n >= ANSWER_MAX) {
		h->too_long = true;
		return -1;
	}
	while (cap <= h->len + n)
		cap *= 2;
	if (cap > h->cap) {
		more = ln_realloc_array(h->answer, cap, 1);
		if (!more)
			return -1;
		h->answer = more;
		h->cap = cap;
	}
	memcpy(h->answer + h->len, p, n);
	h->len += n;
	h->answer[h->len] = 0;
	return 0;
}

/* Hand out the whole lines that end in the newest n bytes. */
static int hand_out_lines(struct ln_etcd_http *h, size_t n)
{
	size_t from = 0, scan = h->len - n;
	char *nl;

	while (!h->line_rc && scan < h->len) {
		nl = memchr(h->answer + scan, '\n', h->len - scan);
		if (!nl)
			break;
		*nl = 0;
		scan = (size_t)(nl - h->answer) + 1;
		if (scan - 1 > from)
			h->line_rc = h->line(h->arg, h->answer + from,
					     scan - 1 - from);
		from = scan;
	}
	memmove(h->answer, h->answer + from, h->len - from);
	h->len -= from;
	return h->line_rc;
}

static size_t on_bytes(char *p, size_t size, size_t count, void *arg)
{
	struct ln_etcd_http *h = arg;
	size_t n = size * count;
	long status = 0;

	if (append(h, p, n))
		return 0;
	/* The body of an error is an answer, not a stream. */
	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (h->line && status == 200 && hand_out_lines(h, n))
		return 0;
	return n;
}

/* ---- open, close -------------------------------------------------------- */

static void name_it(struct ln_etcd_http *h, const struct ln_meta_endpoint *e)
{
	bool v6 = strchr(e->host, ':') != NULL;

	snprintf(h->name, sizeof(h->name), "%s%s%s:%s", v6 ? "[" : "", e->host,
		 v6 ? "]" : "", e->port);
	snprintf(h->base, sizeof(h->base), "http://%s/v3/", h->name);
}

static int set_up(struct ln_etcd_http *h)
{
	struct curl_slist *l;

	h->easy = curl_easy_init();
	h->multi = curl_multi_init();
	if (!h->easy || !h->multi)
		return -1;
	h->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!h->headers)
		return -1;
	/* Not to wait for a "100 Continue" before a large body. */
	l = curl_slist_append(h->headers, "Expect:");
	if (!l)
		return -1;
	curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->headers);
	curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
	/* etcd is a neighbour; a proxy for the outer world is not for it. */
	curl_easy_setopt(h->easy, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(h->easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(h->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(h->easy, CURLOPT_TCP_KEEPIDLE, 5L);
	curl_easy_setopt(h->easy, CURLOPT_TCP_KEEPINTVL, 3L);
	return 0;
}

int ln_etcd_http_open(const struct ln_meta *m, size_t endpoint,
		      struct ln_etcd_http **out)
{
	struct ln_etcd_http *h;

	pthread_once(&once, init_curl);
	h = ln_calloc(1, sizeof(*h));
	if (!h)
		return LUNE_ERR_NOMEM;
	h->endpoint = endpoint;
	name_it(h, &m->endpoints[endpoint]);
	if (set_up(h)) {
		ln_etcd_http_close(h);
		return ln_error(LUNE_ERR_NOMEM, "libcurl gives no handle");
	}
	*out = h;
	return 0;
}

void ln_etcd_http_close(struct ln_etcd_http *h)
{
	if (h->easy)
		curl_easy_cleanup(h->easy);
	if (h->multi)
		curl_multi_cleanup(h->multi);
	curl_slist_free_all(h->headers);
	ln_free(h->answer);
	ln_free(h);
}

/* ---- one request -------------------------------------------------------- */

static int failed(const struct ln_etcd_http *h, const char *why)
{
	return ln_error(LUNE_ERR_META, "%s: %s", h->name, why);
}

/* The result of the transfer, when it has come to its end. */
static bool ended(struct ln_etcd_http *h, CURLcode *out)
{
	CURLMsg *msg;
	int left;

	msg = curl_multi_info_read(h->multi, &left);
	if (!msg || msg->msg != CURLMSG_DONE)
		return false;
	*out = msg->data.result;
	return true;
}

static int transfer(struct ln_etcd_http *h, const struct ln_etcd_request *r,
		    CURLcode *result)
{
	struct curl_waitfd stop = { .fd = r->stop->fd,
				    .events = CURL_WAIT_POLLIN };
	int running, left;

	for (;;) {
		if (curl_multi_perform(h->multi, &running))
			return failed(h, "libcurl cannot go on");
		if (ended(h, result))
			return 0;
		if (atomic_load(&r->stop->on))
			return failed(h, "closed");
		if (ln_deadline_passed(r->until))
			return failed(h, "no answer in time");
		if (r->stay && atomic_load(r->stay) != h->endpoint)
			return failed(h, "another endpoint is in use now");
		left = ln_deadline_left_ms(r->until);
		if (left < 0 || left > TICK_MS)
			left = TICK_MS;
		curl_multi_poll(h->multi, &stop, 1, left, NULL);
	}
}

static int judge(struct ln_etcd_http *h, CURLcode result)
{
	long status = 0;
	char why[200];
	int code;

	if (h->line_rc)
		return h->line_rc;
	if (h->too_long)
		return ln_error(LUNE_ERR_LIMIT,
				"%s: an answer of more than %u bytes", h->name,
				ANSWER_MAX);
	if (result != CURLE_OK)
		return failed(h, h->error[0] ? h->error
					     : curl_easy_strerror(result));
	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200)
		return 0;
	code = ln_meta_etcd_parse_error(h->answer ? h->answer : "", h->len,
					why, sizeof(why));
	return ln_error(code, "%s: HTTP status %ld: %s", h->name, status, why);
}

static void prepare(struct ln_etcd_http *h, const struct ln_etcd_request *r)
{
	int left = ln_deadline_left_ms(r->until);
	char url[400];

	snprintf(url, sizeof(url), "%s%s", h->base, r->path);
	h->len = 0;
	h->line_rc = 0;
	h->too_long = false;
	h->error[0] = 0;
	if (h->cap > KEEP_BYTES) {
		ln_free(h->answer);
		h->answer = NULL;
		h->cap = 0;
	}
	if (left < 0 || left > CONNECT_MS)
		left = CONNECT_MS;
	curl_easy_setopt(h->easy, CURLOPT_URL, url);
	curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, r->body);
	curl_easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(r->body));
	curl_easy_setopt(h->easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)ln_max(left, 1));
}

int ln_etcd_http_post(struct ln_etcd_http *h, const struct ln_etcd_request *r,
		      bool *sent)
{
	CURLcode result = CURLE_OK;
	int rc;

	prepare(h, r);
	if (curl_multi_add_handle(h->multi, h->easy))
		return failed(h, "libcurl cannot start");
	rc = transfer(h, r, &result);
	curl_multi_remove_handle(h->multi, h->easy);
	if (!rc)
		rc = judge(h, result);
	if (sent && result != CURLE_COULDNT_CONNECT &&
	    result != CURLE_COULDNT_RESOLVE_HOST)
		*sent = true;
	return rc;
}
