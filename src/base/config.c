/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration: the LUNE_* variables, read once when a context opens.
 *
 * config.def is the only list of variables.  It becomes the members of struct
 * ln_config (base.h) and the rows below, so a variable cannot exist without
 * type, default, range and help.  Arguments of a call win over the
 * environment, and that over the default; the caller does the first step.
 *
 * A bad value is an error, not a warning: a job that silently runs with
 * another setting than the one asked for costs more than one that stops.
 * An unknown LUNE_* is a warning, because it may belong to a newer version.
 *
 * This is the only file of the library that calls getenv().
 */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

struct row {
	const char *env;
	enum ln_config_type type;
	const char *def;
	int64_t lo, hi;
	const char *choices, *help;
	size_t offset;
};

static const struct row rows[] = {
#define X(member, env, type, def, lo, hi, choices, help)        \
	{ env, LN_CONF_##type, def, lo, hi, choices, help,      \
	  offsetof(struct ln_config, member) },
#include "config.def"
#undef X
};

_Static_assert(LN_ARRAY_SIZE(rows) <= 64, "set_by_env has 64 bits");

static const char *const type_names[] = {
	[LN_CONF_INT] = "int",
	[LN_CONF_SIZE] = "size",
	[LN_CONF_BOOL] = "bool",
	[LN_CONF_STR] = "string",
};

static void *member(struct ln_config *c, const struct row *r)
{
	return (char *)c + r->offset;
}

static bool in_range(const struct row *r, int64_t v)
{
	return (!r->lo && !r->hi) || (v >= r->lo && v <= r->hi);
}

static bool parse_int(const struct row *r, const char *text, int64_t *out)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end || errno || !in_range(r, v))
		return false;
	*out = v;
	return true;
}

/* The power of two of a unit letter, or -1. */
static int unit_shift(const char *unit)
{
	if (!*unit)
		return 0;
	if (unit[1])
		return -1;
	switch (*unit) {
	case 'k':
	case 'K':
		return 10;
	case 'm':
	case 'M':
		return 20;
	case 'g':
	case 'G':
		return 30;
	default:
		return -1;
	}
}

static bool parse_size(const struct row *r, const char *text, uint64_t *out)
{
	unsigned long long v;
	char *end;
	int shift;

	/* strtoull would take "-1" as a huge number. */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	shift = unit_shift(end);
	if (errno || shift < 0 || v > ((uint64_t)INT64_MAX >> shift))
		return false;
	v <<= shift;
	if (!in_range(r, (int64_t)v))
		return false;
	*out = v;
	return true;
}

static bool one_of(const char *word, size_t n, const char *const *set)
{
	for (; *set; set++)
		if (strlen(*set) == n && !strncmp(word, *set, n))
			return true;
	return false;
}

static bool parse_bool(const char *text, bool *out)
{
	static const char *const yes[] = { "1", "yes", "true", "on", NULL };
	static const char *const no[] = { "0", "no", "false", "off", NULL };
	size_t n = strlen(text);

	*out = one_of(text, n, yes);
	return *out || one_of(text, n, no);
}

/* Is the word of n bytes one of "a|b|c"? */
static bool is_choice(const char *word, size_t n, const char *choices)
{
	while (*choices) {
		size_t len = strcspn(choices, "|");

		if (len == n && !strncmp(word, choices, n))
			return true;
		choices += len;
		choices += *choices == '|';
	}
	return false;
}

static bool parse_choices(const char *text, const char *choices)
{
	if (!choices)
		return true;
	if (*choices != ',')
		return is_choice(text, strlen(text), choices);
	for (;;) {
		size_t n = strcspn(text, ",");

		if (!is_choice(text, n, choices + 1))
			return false;
		if (!text[n])
			return true;
		text += n + 1;
	}
}

static int set_str(struct ln_config *c, const struct row *r, const char *text)
{
	char **at = member(c, r), *copy = ln_strdup(text);

	if (!copy)
		return LUNE_ERR_NOMEM;
	ln_free(*at);
	*at = copy;
	return LUNE_OK;
}

static int bad_value(const struct row *r, const char *text)
{
	const char *kind = r->type == LN_CONF_SIZE ?
				   "a size in bytes (k, M or G may follow)" :
				   "an integer";

	if (r->type == LN_CONF_BOOL)
		return ln_error(LUNE_ERR_INVAL, "%s=%.100s: must be yes or no",
				r->env, text);
	if (r->type == LN_CONF_STR && *r->choices == ',')
		return ln_error(LUNE_ERR_INVAL,
				"%s=%.100s: must be a comma separated list "
				"of %s", r->env, text, r->choices + 1);
	if (r->type == LN_CONF_STR)
		return ln_error(LUNE_ERR_INVAL, "%s=%.100s: must be one of %s",
				r->env, text, r->choices);
	if (!r->lo && !r->hi)
		return ln_error(LUNE_ERR_INVAL, "%s=%.100s: must be %s", r->env,
				text, kind);
	return ln_error(LUNE_ERR_INVAL,
			"%s=%.100s: must be %s from %lld to %lld", r->env, text,
			kind, (long long)r->lo, (long long)r->hi);
}

static int set_value(struct ln_config *c, const struct row *r, const char *text)
{
	bool good = false;

	switch (r->type) {
	case LN_CONF_INT:
		good = parse_int(r, text, member(c, r));
		break;
	case LN_CONF_SIZE:
		good = parse_size(r, text, member(c, r));
		break;
	case LN_CONF_BOOL:
		good = parse_bool(text, member(c, r));
		break;
	case LN_CONF_STR:
		if (parse_choices(text, r->choices))
			return set_str(c, r, text);
		break;
	}
	return good ? LUNE_OK : bad_value(r, text);
}

/* Edit distance of the first n bytes of a and all of b, both short. */
static size_t distance(const char *a, size_t n, const char *b)
{
	size_t row[64], m = strlen(b);

	if (n >= LN_ARRAY_SIZE(row) || m >= LN_ARRAY_SIZE(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			best = ln_min(best, row[j] + 1);
			best = ln_min(best, row[j - 1] + 1);
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[m];
}

static void warn_unknown(const char *name, size_t n)
{
	const char *near = NULL;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < LN_ARRAY_SIZE(rows); i++) {
		size_t d = distance(name, n, rows[i].env);

		if (d < best) {
			best = d;
			near = rows[i].env;
		}
	}
	/* Beyond a third of the name it is a guess, not a hint. */
	if (near && best <= n / 3)
		ln_warn("%.*s is not a Lune variable; did you mean %s?", (int)n,
			name, near);
	else
		ln_warn("%.*s is not a Lune variable", (int)n, name);
}

static bool is_known(const char *name, size_t n)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(rows); i++)
		if (strlen(rows[i].env) == n && !strncmp(rows[i].env, name, n))
			return true;
	return false;
}

static void warn_all_unknown(void)
{
	for (char **e = environ; e && *e; e++) {
		size_t n = strcspn(*e, "=");

		if (strncmp(*e, "LUNE_", 5) || is_known(*e, n))
			continue;
		/* The test programs' own variables. */
		if (strncmp(*e, "LUNE_TEST_", 10))
			warn_unknown(*e, n);
	}
}

static int init_row(struct ln_config *c, size_t i)
{
	const char *text = getenv(rows[i].env);
	int rc = set_value(c, &rows[i], rows[i].def);

	if (rc || !text)
		return rc;
	/* Set but empty means "not set" where empty is not a value. */
	if (!*text && *rows[i].def)
		return LUNE_OK;
	c->set_by_env |= UINT64_C(1) << i;
	return set_value(c, &rows[i], text);
}

int ln_config_init(struct ln_config *c)
{
	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < LN_ARRAY_SIZE(rows); i++) {
		int rc = init_row(c, i);

		if (rc) {
			ln_config_fini(c);
			return rc;
		}
	}
	ln_log_level_default(ln_log_level_parse(c->log));
	warn_all_unknown();
	return LUNE_OK;
}

void ln_config_fini(struct ln_config *c)
{
	for (size_t i = 0; i < LN_ARRAY_SIZE(rows); i++) {
		char **at = member(c, &rows[i]);

		if (rows[i].type != LN_CONF_STR)
			continue;
		ln_free(*at);
		*at = NULL;
	}
}

bool ln_config_row(const struct ln_config *c, int i, struct ln_config_row *out)
{
	const struct row *r;
	const void *at;
	size_t cap = sizeof(out->value);

	if (i < 0 || (size_t)i >= LN_ARRAY_SIZE(rows))
		return false;
	r = &rows[i];
	at = (const char *)c + r->offset;
	out->env = r->env;
	out->type = type_names[r->type];
	out->def = r->def;
	out->help = r->help;
	out->source = c->set_by_env >> i & 1 ? "environment" : "default";
	if (r->type == LN_CONF_INT)
		snprintf(out->value, cap, "%lld",
			 (long long)*(const int64_t *)at);
	else if (r->type == LN_CONF_SIZE)
		snprintf(out->value, cap, "%llu",
			 (unsigned long long)*(const uint64_t *)at);
	else if (r->type == LN_CONF_BOOL)
		snprintf(out->value, cap, "%s",
			 *(const bool *)at ? "yes" : "no");
	else
		snprintf(out->value, cap, "%s", *(char *const *)at);
	return true;
}

const char *ln_config_launcher(const char *name)
{
	return getenv(name);
}
