/* SPDX-License-Identifier: Apache-2.0 */
/* Get of one piece. */
#include "rma/rma.h"

static int get_posted(const struct ln_seg *seg, const struct lune_op *op)
{
	struct ln_post how = {
		.r = ln_rmem_of(seg->rmem), .kind = LN_OP_GET,
		.nsegs = 1, .op = op,
	};

	if (!seg->bytes)
		return ln_post_nothing(how.r->ctx, op);
	return ln_post_one(&how, seg);
}

int lune_get(lune_rmem *src, uint64_t offset, void *dst, size_t bytes,
	     const struct lune_op *op)
{
	struct ln_inline in;
	int rc;

	if (__builtin_expect(!src || (!dst && bytes), 0))
		return ln_error(LUNE_ERR_INVAL, "lune_get: NULL");
	LN_CTX_CHECK(src->ctx);
	rc = ln_rmem_check(src, offset, bytes, LUNE_MEM_READ);
	if (!rc && op)
		rc = ln_inline_check_op(src, op, false);
	if (rc)
		return rc;
	rc = ln_inline_open(&in, src, LUNE_MEM_READ, op);
	if (rc < 0)
		return rc;
	if (!rc) {
		struct ln_seg seg = { dst, &src->net, offset, bytes };

		return get_posted(&seg, op);
	}
	ln_path_copy(dst, in.data.base + offset, bytes);
	ln_rmem_tally(src, LN_RMA_GET, bytes);
	return ln_inline_close(&in, op, bytes);
}
