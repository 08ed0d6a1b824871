/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer is LLVMFuzzerTestOneInput and fuzz_seed.  With clang's
 * -fsanitize=fuzzer it runs under libFuzzer; otherwise driver.c feeds it the
 * seeds, all their prefixes and random mutations of them.
 */
#ifndef LUNE_TESTS_FUZZ_H
#define LUNE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
/* Valid input number i and its length; NULL: there is no such. */
const uint8_t *fuzz_seed(unsigned i, size_t *bytes);
/* What an input must keep: else the input is printed and the run fails. */
void fuzz_require(int cond, const char *what);

#endif
