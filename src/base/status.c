/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes as text.  Both tables come from the one list in
 * <lune/status.h>, so a code cannot exist without its name and sentence.
 */
#include "base/base.h"

static const struct {
	int code;
	const char *name, *text;
} table[] = {
#define ROW(name, value, text) { (value), "LUNE_" #name, text },
	LUNE_STATUS_MAP(ROW)
#undef ROW
};

const char *lune_strerror(int code)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].text;
	/* Counting calls answer values above zero: they succeeded. */
	return code > 0 ? "success" : "unknown status code";
}

const char *lune_strcode(int code)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return table[i].name;
	return code > 0 ? "LUNE_OK" : "LUNE_ERR_UNKNOWN";
}
