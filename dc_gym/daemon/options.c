// SPDX-License-Identifier: Apache-2.0
/* The options of a program: see options.h. */
#include "options.h"

#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LEN 100 /* of the help's first lines */

int options_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *number >= min && *number <= max
		       ? 0
		       : -EINVAL;
}

/* ---- help ---- */

/* Its length, or with NULL just that. */
static int shown(char *to, size_t size, const struct program_option *o)
{
	return snprintf(to, size, "%s--%s%s%s%s", o->required ? "" : "[", o->name, o->value ? " " : "",
			o->value ? o->value : "", o->required ? "" : "]");
}

static void print_usage(const struct program_option *options)
{
	int indent = printf("usage: %s", program_invocation_short_name), column = indent;
	char text[LINE_LEN];

	for (const struct program_option *o = options; o->name; o++) {
		int len = shown(text, sizeof(text), o);

		if (column + 1 + len > LINE_LEN)
			column = printf("\n%*s", indent, "") - 1;
		column += printf(" %s", text);
	}
	putchar('\n');
}

static void print_help(const struct program_option *options, const char *about)
{
	int width = 0;

	print_usage(options);
	for (const struct program_option *o = options; o->name; o++) {
		int len = (int)(strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0));

		width = len > width ? len : width;
	}
	for (const struct program_option *o = options; o->name; o++) {
		int used = printf("  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");

		printf("%*s%s\n", width + 6 - used, "", o->help);
	}
	fputs(about, stdout);
}

/* ---- reading ---- */

static int bad(const char *word, const char *why)
{
	return program_fail(EXIT_USAGE, "'%s': %s; see %s --help", word, why, program_invocation_short_name);
}

static const struct program_option *find(const struct program_option *options, const char *name, size_t len)
{
	for (const struct program_option *o = options; o->name; o++)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

static int store(const struct program_option *o, const char *value)
{
	if (o->text)
		*o->text = value;
	else if (options_number(value, o->min, o->max, o->number))
		return program_fail(EXIT_USAGE,
				    "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, o->name,
				    value, o->min, o->max);
	return 0;
}

/* The option that the word at argv[*i] names; *i moves on to its value. */
static int take(char **argv, int *i, const struct program_option *options, uint64_t *given)
{
	char *word = argv[*i], *equals = strchr(word, '=');
	const char *value = equals ? equals + 1 : NULL;
	const struct program_option *o;

	if (strncmp(word, "--", 2))
		return bad(word, "not an option");
	o = find(options, word + 2, (equals ? (size_t)(equals - word) : strlen(word)) - 2);
	if (!o)
		return bad(word, "no such option");
	*given |= UINT64_C(1) << (o - options);
	if (o->flag) {
		*o->flag = true;
		return value ? bad(word, "it takes no value") : 0;
	}
	if (!value)
		value = argv[++*i];
	return value ? store(o, value) : bad(word, "its value is missing");
}

int options_read(int argc, char **argv, const struct program_option *options, const char *about)
{
	uint64_t given = 0;

	for (int i = 1; i < argc; i++) {
		int rc;

		if (!strcmp(argv[i], "--help")) {
			print_help(options, about);
			exit(0);
		}
		rc = take(argv, &i, options, &given);
		if (rc)
			return rc;
	}
	for (const struct program_option *o = options; o->name; o++)
		if (o->required && !(given >> (o - options) & 1))
			return program_fail(EXIT_USAGE, "--%s is missing (%s: %s); see %s --help", o->name,
					    o->value, o->help, program_invocation_short_name);
	return 0;
}
