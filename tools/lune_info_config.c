/* SPDX-License-Identifier: Apache-2.0 */
/* lune-info --config: every LUNE_* variable. */
#include <stdio.h>
#include <string.h>

#include "lune_info.h"

static void print_text(const lune_info *info)
{
	struct lune_info_config c = { .size = sizeof(c) };

	for (int i = 0; lune_info_config(info, i, &c); i++) {
		printf("%s%s=%s\n", i ? "\n" : "", c.name, c.value);
		printf("    %s\n", c.help);
		printf("    %s, default %s, from: %s\n", c.type,
		       *c.def ? c.def : "empty", c.source);
	}
}

static json_t *rows_json(const lune_info *info)
{
	struct lune_info_config c = { .size = sizeof(c) };
	json_t *list = json_array();

	for (int i = 0; lune_info_config(info, i, &c); i++)
		json_array_append_new(
			list, json_pack("{ss ss ss so ss ss}", "name", c.name,
					"type", c.type, "default", c.def,
					"value", info_json_text(c.value),
					"source", c.source, "help", c.help));
	return list;
}

int info_config(const struct info_args *a)
{
	lune_info *info;
	int rc = lune_info_open(a->bootstrap, &info);

	if (rc)
		return info_fail("reading the configuration", rc);
	if (a->json)
		rc = info_print_json(
			json_pack("{so}", "config", rows_json(info)));
	else
		print_text(info);
	lune_info_close(info);
	return rc;
}
