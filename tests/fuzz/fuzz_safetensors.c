/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safetensors header check: never reads past the input, never accepts a
 * header whose tensors do not cover exactly the data.
 */
#include <string.h>

#include "ckpt.h"
#include "fuzz.h"

#define DATA_BYTES 64

static uint8_t seeds[4][512];
static size_t lengths[4];

static const char *const headers[4] = {
	"{\"a\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[0,64]}}",
	("{\"__metadata__\":{\"format\":\"pt\"},"
	"\"x\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},"
	"\"y\":{\"dtype\":\"BF16\",\"shape\":[2,8],\"data_offsets\":[32,64]}}"),
	("{\"empty\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]},"
	"\"z\":{\"dtype\":\"I64\",\"shape\":[8],\"data_offsets\":[0,64]}}"),
	"{\"s\":{\"dtype\":\"F4\",\"shape\":[128],\"data_offsets\":[0,64]}}",
};

const uint8_t *fuzz_seed(unsigned i, size_t *bytes)
{
	size_t n;

	if (i >= 4)
		return NULL;
	n = strlen(headers[i]);
	for (int b = 0; b < 8; b++)
		seeds[i][b] = (uint8_t)(n >> (8 * b));
	memcpy(seeds[i] + 8, headers[i], n);
	lengths[i] = n + 8;
	*bytes = lengths[i];
	return seeds[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t tensors = 0;

	/* As if the header were followed by its data. */
	(void)ckpt_safetensors_check("fuzz", data, bytes, bytes + DATA_BYTES,
				     &tensors);
	(void)ckpt_safetensors_check("fuzz", data, bytes, bytes, &tensors);
	return 0;
}
