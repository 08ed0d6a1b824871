/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that the modes of lune-info share. */
#include <stdio.h>
#include <string.h>

#include "lune_info.h"

int info_fail(const char *what, int code)
{
	const char *cause = lune_last_error();

	fflush(stdout);
	fprintf(stderr, "lune-info: %s: %s\n", what,
		*cause ? cause : lune_strerror(code));
	return EXIT_FAILED;
}

const char *info_bytes(uint64_t bytes, char out[16])
{
	static const char *const unit[] = { "B",   "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	int i = 0;

	while (v >= 1024 && i < 6) {
		v /= 1024;
		i++;
	}
	/* 4 KiB, but 9.1 GiB. */
	snprintf(out, 16, v == (double)(long)v ? "%.0f %s" : "%.1f %s", v,
		 unit[i]);
	return out;
}

int info_print_json(json_t *j)
{
	int rc = j ? json_dumpf(j, stdout, JSON_INDENT(2)) : -1;

	json_decref(j);
	putchar('\n');
	if (!rc && !fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "lune-info: cannot write the output\n");
	return EXIT_FAILED;
}

json_t *info_json_text(const char *text)
{
	json_t *j = json_string(text);
	char plain[1024];
	size_t n = 0;

	if (j)
		return j;
	/* Not UTF-8, as the value of a variable may be: keep its ASCII. */
	for (; text[n] && n < sizeof(plain) - 1; n++)
		plain[n] = text[n] >= ' ' && text[n] < 127 ? text[n] : '?';
	plain[n] = '\0';
	return json_string(plain);
}
