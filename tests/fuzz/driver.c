/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer without libFuzzer: seeds, their prefixes, then mutations from
 * a fixed random sequence, so that a failure is there again the next time.
 *
 *	fuzz_x [inputs [seed]]		fuzz_x FILE... (run these once)
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (256 * 1024)
#define DEFAULT_INPUTS 100000

static uint8_t *input;
static size_t input_bytes;
static uint64_t state;

static uint64_t next_random(void)
{
	/* xorshift64*, Vigna 2016. */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

void fuzz_require(int cond, const char *what)
{
	if (cond)
		return;
	fprintf(stderr, "violated: %s\ninput, %zu bytes:", what, input_bytes);
	for (size_t i = 0; i < input_bytes && i < 4096; i++)
		fprintf(stderr, "%s%02x", i % 32 ? "" : "\n", input[i]);
	fprintf(stderr, "\n");
	exit(1);
}

/* Give the fuzzer exactly its bytes, so that a sanitizer sees one too far. */
static void run(void)
{
	uint8_t *p = malloc(input_bytes ? input_bytes : 1);

	if (!p)
		exit(1);
	memcpy(p, input, input_bytes);
	LLVMFuzzerTestOneInput(p, input_bytes);
	free(p);
}

static const uint64_t interesting[] = {
	0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff,
	0x7fffffffffffffff, UINT64_MAX,
};

static void mutate(void)
{
	uint64_t value = interesting[next_random() % 11];
	size_t at = input_bytes ? next_random() % input_bytes : 0;
	size_t n = next_random() % 8 + 1;

	switch (next_random() % 6) {
	case 0:
		if (input_bytes)
			input[at] ^= (uint8_t)(1 << next_random() % 8);
		break;
	case 1:
		if (input_bytes)
			input[at] = (uint8_t)next_random();
		break;
	case 2: /* a length that is far too large or small */
		if (at + n <= input_bytes)
			memcpy(input + at, &value, n);
		break;
	case 3: /* cut */
		input_bytes = at;
		break;
	case 4: /* take out */
		if (at + n <= input_bytes) {
			memmove(input + at, input + at + n,
				input_bytes - at - n);
			input_bytes -= n;
		}
		break;
	default: /* insert */
		if (input_bytes + n > INPUT_MAX)
			break;
		memmove(input + at + n, input + at, input_bytes - at);
		for (size_t i = 0; i < n; i++)
			input[at + i] = (uint8_t)next_random();
		input_bytes += n;
	}
}

/* Make seed i the input; false: there is no such. */
static bool take_seed(unsigned i)
{
	const uint8_t *p = fuzz_seed(i, &input_bytes);

	if (!p)
		return false;
	if (input_bytes > INPUT_MAX)
		input_bytes = INPUT_MAX;
	memcpy(input, p, input_bytes);
	return true;
}

static unsigned run_seeds(void)
{
	unsigned seeds = 0;
	size_t all;

	while (take_seed(seeds)) {
		all = input_bytes;
		for (input_bytes = 0; input_bytes <= all; input_bytes++)
			run();
		seeds++;
	}
	return seeds;
}

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f) {
		perror(path);
		return 1;
	}
	input_bytes = fread(input, 1, INPUT_MAX, f);
	fclose(f);
	run();
	return 0;
}

int main(int argc, char **argv)
{
	char *end = argv[0];
	long inputs = argc > 1 ? strtol(argv[1], &end, 10) : DEFAULT_INPUTS;
	unsigned seeds;
	int bad = 0;

	input = malloc(INPUT_MAX);
	if (!input)
		return 1;
	if (argc > 1 && *end) {
		for (int i = 1; i < argc; i++)
			bad |= run_file(argv[i]);
		free(input);
		return bad;
	}
	state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 20240229;
	seeds = run_seeds();
	for (long i = 0; i < inputs; i++) {
		input_bytes = 0;
		if (seeds)
			take_seed((unsigned)(next_random() % seeds));
		for (uint64_t n = next_random() % 4 + 1; n; n--)
			mutate();
		run();
	}
	printf("%u seeds, %ld mutations\n", seeds, inputs);
	free(input);
	return 0;
}
