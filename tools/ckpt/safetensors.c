/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors header: u64 length, then that many bytes of JSON
 *   { "name": { "dtype": "F32", "shape": [..], "data_offsets": [b, e] }, ...,
 *     "__metadata__": { string: string } }
 * then the data.  Offsets count from the end of the header.  Format source:
 * the safetensors format description (header at most 100 MB, no duplicate
 * keys, the byte buffer entirely indexed, without holes).
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "ckpt.h"

struct span {
	uint64_t begin, end;
	const char *name;
};

/* Bits per element; 0: not a dtype. */
static unsigned dtype_bits(const char *t)
{
	static const struct {
		const char *name;
		unsigned bits;
	} types[] = {
		{ "BOOL", 8 },	  { "U8", 8 },	    { "I8", 8 },
		{ "F8_E5M2", 8 }, { "F8_E4M3", 8 }, { "F8_E8M0", 8 },
		{ "I16", 16 },	  { "U16", 16 },    { "F16", 16 },
		{ "BF16", 16 },	  { "I32", 32 },    { "U32", 32 },
		{ "F32", 32 },	  { "I64", 64 },    { "U64", 64 },
		{ "F64", 64 },	  { "C64", 64 },    { "F4", 4 },
		{ "F6_E2M3", 6 }, { "F6_E3M2", 6 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(t, types[i].name))
			return types[i].bits;
	return 0;
}

/* Bits of the tensor; false on overflow or a bad dimension. */
static bool shape_bits(json_t *shape, unsigned bits, uint64_t *out)
{
	uint64_t total = bits;
	json_t *dim;
	size_t i;

	json_array_foreach(shape, i, dim) {
		json_int_t d = json_integer_value(dim);

		if (!json_is_integer(dim) || d < 0 ||
		    __builtin_mul_overflow(total, (uint64_t)d, &total))
			return false;
	}
	*out = total;
	return true;
}

static int check_tensor(const char *file, const char *name, json_t *t,
			struct span *out)
{
	json_t *dtype = json_object_get(t, "dtype");
	json_t *shape = json_object_get(t, "shape");
	json_t *off = json_object_get(t, "data_offsets");
	json_t *b = json_array_get(off, 0), *e = json_array_get(off, 1);
	uint64_t bits;
	unsigned per;

	if (!json_is_string(dtype) || !json_is_array(shape) ||
	    json_array_size(off) != 2 || !json_is_integer(b) ||
	    !json_is_integer(e))
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: tensor %.100s lacks dtype, shape or "
				  "data_offsets", file, name);
	per = dtype_bits(json_string_value(dtype));
	if (!per)
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: tensor %.100s has the unknown dtype "
				  "%.32s", file, name,
				  json_string_value(dtype));
	if (json_integer_value(b) < 0 ||
	    json_integer_value(e) < json_integer_value(b))
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: tensor %.100s ends before it begins",
				  file, name);
	out->begin = (uint64_t)json_integer_value(b);
	out->end = (uint64_t)json_integer_value(e);
	out->name = name;
	if (!shape_bits(shape, per, &bits) || bits % 8 ||
	    bits / 8 != out->end - out->begin)
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: the shape of tensor %.100s does not "
				  "match its bytes", file, name);
	return LUNE_OK;
}

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int check_cover(const char *file, struct span *spans, size_t n,
		       uint64_t data_bytes)
{
	uint64_t at = 0;

	qsort(spans, n, sizeof(*spans), by_begin);
	for (size_t i = 0; i < n; i++) {
		if (spans[i].begin != at)
			return ckpt_error(LUNE_ERR_CORRUPT,
					  "%s: tensor %.100s %s", file,
					  spans[i].name,
					  spans[i].begin < at ?
						  "overlaps the one before" :
						  "leaves a hole before it");
		at = spans[i].end;
	}
	if (at != data_bytes)
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: the header describes %llu bytes of "
				  "data, the file has %llu (truncated?)", file,
				  (unsigned long long)at,
				  (unsigned long long)data_bytes);
	return LUNE_OK;
}

static int check_all(const char *file, json_t *root, uint64_t data_bytes,
		     uint64_t *tensors)
{
	size_t n = 0;
	struct span *spans;
	const char *name;
	json_t *t;
	int rc = LUNE_OK;

	spans = calloc(json_object_size(root) + 1, sizeof(*spans));
	if (!spans)
		return ckpt_error(LUNE_ERR_NOMEM, "no memory for %s", file);
	json_object_foreach(root, name, t) {
		if (!strcmp(name, "__metadata__"))
			continue;
		rc = check_tensor(file, name, t, &spans[n++]);
		if (rc)
			break;
	}
	if (!rc)
		rc = check_cover(file, spans, n, data_bytes);
	*tensors = n;
	free(spans);
	return rc;
}

/* jansson recurses; refuse deep nesting before it sees the text. */
static bool too_deep(const char *p, uint64_t n)
{
	bool in_string = false;
	int depth = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > 4)
				return true;
		} else if (p[i] == '}' || p[i] == ']') {
			depth--;
		}
	}
	return false;
}

int ckpt_safetensors_check(const char *name, const uint8_t *head,
			   uint64_t head_bytes, uint64_t file_bytes,
			   uint64_t *tensors)
{
	uint64_t len = 0;
	json_error_t err;
	json_t *root;
	int rc;

	if (file_bytes < 8 || head_bytes < 8)
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: too short for a safetensors file", name);
	for (int i = 0; i < 8; i++)
		len |= (uint64_t)head[i] << (8 * i);
	if (len > CKPT_SAFETENSORS_HEADER_MAX || len > file_bytes - 8)
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: the safetensors header claims %llu "
				  "bytes, the file has %llu", name,
				  (unsigned long long)len,
				  (unsigned long long)file_bytes);
	if (len > head_bytes - 8)
		return ckpt_error(LUNE_ERR_INVAL, "%s: header not read", name);
	if (too_deep((const char *)head + 8, len))
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: the header is nested too deeply", name);
	root = json_loadb((const char *)head + 8, len, JSON_REJECT_DUPLICATES,
			  &err);
	if (!json_is_object(root)) {
		json_decref(root);
		return ckpt_error(LUNE_ERR_CORRUPT,
				  "%s: the header is not a JSON object: %.120s",
				  name, root ? "" : err.text);
	}
	rc = check_all(name, root, file_bytes - 8 - len, tensors);
	json_decref(root);
	return rc;
}
