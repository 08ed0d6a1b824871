/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public side of the embedded metadata server: options are checked here,
 * and the key is made of a file in the way of LUNE_JOB_KEY_FILE, so that the
 * same file serves the ranks and the server.
 */
#include <lune/meta.h>

#include "boot/boot.h"
#include "meta/meta.h"

struct lune_meta_server {
	struct ln_meta_server *server;
};

static int make_key(const char *file, uint8_t key[LN_KEY_BYTES])
{
	struct ln_config conf = { 0 };
	bool have;
	int rc;

	if (!*file)
		return ln_error(LUNE_ERR_INVAL, "the key file has no name");
	conf.job_key_file = ln_strdup(file);
	if (!conf.job_key_file)
		return LUNE_ERR_NOMEM;
	rc = ln_key_load(&conf, key, &have);
	ln_free(conf.job_key_file);
	return rc;
}

/* The caller's options, in full size. */
static int take_opts(const struct lune_meta_server_opts *from,
		     struct lune_meta_server_opts *out)
{
	memset(out, 0, sizeof(*out));
	if (!from)
		return LUNE_OK;
	if (from->size < offsetof(struct lune_meta_server_opts, max_bytes))
		return ln_error(LUNE_ERR_INVAL, "lune_meta_server_opts.size is "
				"%zu", from->size);
	memcpy(out, from, ln_min(from->size, sizeof(*out)));
	if (out->port < 0 || out->port > 65535)
		return ln_error(LUNE_ERR_INVAL,
				"port %d: must be from 0 to 65535", out->port);
	return LUNE_OK;
}

int lune_meta_server_open(const struct lune_meta_server_opts *opts,
			  lune_meta_server **out)
{
	struct lune_meta_server_opts o;
	struct ln_meta_server_opts how = { 0 };
	uint8_t key[LN_KEY_BYTES];
	lune_meta_server *s;
	int rc = take_opts(opts, &o);

	if (rc)
		return rc;
	if (o.key_file) {
		rc = make_key(o.key_file, key);
		if (rc)
			return rc;
		how.key = key;
	}
	how.host = o.host;
	how.port = o.port;
	how.max_bytes = o.max_bytes;
	s = ln_calloc(1, sizeof(*s));
	rc = s ? ln_meta_server_start(&how, &s->server) : LUNE_ERR_NOMEM;
	explicit_bzero(key, sizeof(key));
	if (rc) {
		ln_free(s);
		return rc;
	}
	*out = s;
	return LUNE_OK;
}

int lune_meta_server_port(const lune_meta_server *server)
{
	return ln_meta_server_port(server->server);
}

void lune_meta_server_close(lune_meta_server *server)
{
	if (!server)
		return;
	ln_meta_server_stop(server->server);
	ln_free(server);
}
