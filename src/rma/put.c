/* SPDX-License-Identifier: Apache-2.0 */
/* Put of one piece. */
#include "rma/rma.h"

static int put_posted(const struct ln_seg *seg, const struct lune_op *op)
{
	struct ln_post how = {
		.r = ln_rmem_of(seg->rmem), .kind = LN_OP_PUT,
		.nsegs = seg->bytes ? 1 : 0, .op = op,
	};

	return ln_post_one(&how, seg);
}

int lune_put(lune_rmem *dst, uint64_t offset, const void *src, size_t bytes,
	     const struct lune_op *op)
{
	struct ln_inline in;
	int rc;

	if (__builtin_expect(!dst || (!src && bytes), 0))
		return ln_error(LUNE_ERR_INVAL, "lune_put: NULL");
	LN_CTX_CHECK(dst->ctx);
	rc = ln_rmem_check(dst, offset, bytes, LUNE_MEM_WRITE);
	if (!rc && op)
		rc = ln_inline_check_op(dst, op, true);
	if (rc)
		return rc;
	rc = ln_inline_open(&in, dst, LUNE_MEM_WRITE, op);
	if (rc < 0)
		return rc;
	if (!rc) {
		/* net only reads what a put names. */
		struct ln_seg seg = { (char *)(uintptr_t)src, &dst->net,
				      offset, bytes };

		return put_posted(&seg, op);
	}
	ln_path_copy(in.data.base + offset, src, bytes);
	ln_rmem_tally(dst, LN_RMA_PUT, bytes);
	return ln_inline_close(&in, op, bytes);
}
