/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement on failure.  A rank that cannot go on says so to all others by a
 * notification with its sentence, so that nobody waits for bytes that will
 * not come and every rank can name the cause; steps end with ckpt_agree, an
 * allgather of codes, so that all ranks go on or none.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"

#define NOTIFY_FAILED 0x6661696cULL

volatile sig_atomic_t ckpt_interrupted;

static char sentence[512];

int ckpt_error(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	return code;
}

int ckpt_lune_error(int code, const char *doing)
{
	const char *cause = lune_last_error();

	return ckpt_error(code, "%s: %s", doing,
			  *cause ? cause : lune_strerror(code));
}

const char *ckpt_sentence(void)
{
	return sentence;
}

void ckpt_announce(struct ckpt_job *job, int code)
{
	struct lune_notify n = { .tag = NOTIFY_FAILED,
				 .bytes = LUNE_NOTIFY_MAX };
	struct lune_op op = { .flags = LUNE_OP_NOWAIT };
	int32_t wire_code = code;

	memcpy(n.body, &wire_code, sizeof(wire_code));
	snprintf((char *)n.body + sizeof(wire_code),
		 sizeof(n.body) - sizeof(wire_code), "%.120s", sentence);
	for (int r = 0; r < job->size; r++) {
		if (r == job->rank || !lune_comm_alive(job->world, r))
			continue;
		n.rank = r;
		(void)lune_notify_send(job->world, &n, &op);
	}
	(void)lune_flush(job->world, LUNE_ALL_RANKS, 1000);
}

int ckpt_check(struct ckpt_job *job)
{
	struct lune_notify n;
	int32_t code;
	int rc;

	if (ckpt_interrupted)
		return ckpt_error(LUNE_ERR_CANCELED, "interrupted");
	rc = lune_notify_recv(job->world, 0, &n);
	if (rc == LUNE_ERR_TIMEOUT || rc == LUNE_ERR_AGAIN)
		return LUNE_OK;
	if (rc)
		return ckpt_lune_error(rc, "listening to the other ranks");
	if (n.tag != NOTIFY_FAILED || n.bytes <= sizeof(code))
		return LUNE_OK;
	memcpy(&code, n.body, sizeof(code));
	n.body[n.bytes - 1] = 0;
	return ckpt_error(code < 0 ? code : LUNE_ERR_PEER, "rank %d: %s",
			  n.rank, (char *)n.body + sizeof(code));
}

struct vote {
	int32_t code;
	char text[508];
};

int ckpt_agree(struct ckpt_job *job, int code, const char *step)
{
	struct vote mine = { .code = code };
	struct vote *all;
	int rc;

	if (code)
		snprintf(mine.text, sizeof(mine.text), "%.500s", sentence);
	all = calloc((size_t)job->size, sizeof(*all));
	if (!all)
		return ckpt_error(LUNE_ERR_NOMEM, "out of memory in %s", step);
	rc = lune_allgather(job->world, &mine, sizeof(mine), all,
			    job->args.timeout_ms);
	if (rc) {
		free(all);
		if (code)
			return code; /* our own cause says more */
		ckpt_lune_error(rc, step);
		/* A rank may have said why it is gone: that says more. */
		(void)ckpt_check(job);
		return rc;
	}
	rc = LUNE_OK;
	for (int r = 0; r < job->size && !rc; r++) {
		if (!all[r].code)
			continue;
		rc = all[r].code < 0 ? all[r].code : LUNE_ERR_PEER;
		all[r].text[sizeof(all[r].text) - 1] = 0;
		if (strncmp(all[r].text, "rank ", 5) == 0)
			ckpt_error(rc, "%s", all[r].text);
		else
			ckpt_error(rc, "rank %d: %.490s", r, all[r].text);
	}
	free(all);
	return rc;
}
