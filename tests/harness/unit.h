/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes: cmocka with the headers that it needs before
 * it, and the harness.
 */
#ifndef LUNE_TESTS_UNIT_H
#define LUNE_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/ranks.h"

#endif
