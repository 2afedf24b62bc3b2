// SPDX-License-Identifier: Apache-2.0
/* Lines and fields of CSV: see csv.h. */
#include "csv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool csv_line(struct slice *rest, struct slice *line)
{
	const char *nl;

	if (rest->len == 0)
		return false;
	nl = memchr(rest->at, '\n', rest->len);
	*line = (struct slice){ rest->at, nl ? (size_t)(nl - rest->at) : rest->len };
	rest->at += line->len + (nl ? 1 : 0);
	rest->len -= line->len + (nl ? 1 : 0);
	if (line->len > 0 && line->at[line->len - 1] == '\r')
		line->len--;
	return true;
}

size_t csv_count(struct slice rest, size_t max)
{
	struct slice line;
	size_t n = 0;

	while (n < max && csv_line(&rest, &line))
		n++;
	return n;
}

size_t csv_split(struct slice line, struct slice *fields, size_t max)
{
	size_t n = 0, start = 0;

	for (size_t i = 0; i <= line.len; i++) {
		if (i < line.len && line.at[i] != ',')
			continue;
		if (n < max)
			fields[n] = (struct slice){ line.at + start, i - start };
		n++;
		start = i + 1;
	}
	return n;
}

static bool plain(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] <= ' ' || s.at[i] > '~' || s.at[i] == '"')
			return false;
	return s.len > 0;
}

int csv_shown(struct slice s)
{
	return plain(s) ? (int)(s.len < 40 ? s.len : 40) : 0;
}

int csv_word(char *to, size_t size, struct slice s, size_t line, const char *name, struct fault *f)
{
	if (!plain(s))
		return fault_say(f, -EINVAL,
				 "line %zu, %s: empty, or with spaces, quotes or unprintable characters; "
				 "give a plain word",
				 line, name);
	if (s.len >= size)
		return fault_say(f, -EINVAL, "line %zu, %s: '%.*s' has %zu characters; give at most %zu",
				 line, name, csv_shown(s), s.at, s.len, size - 1);
	memcpy(to, s.at, s.len);
	memset(to + s.len, 0, size - s.len);
	return 0;
}

static bool digits(struct slice s, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] < '0' || s.at[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(s.at[i] - '0'), out))
			return false;
	return s.len > 0;
}

int csv_number(uint64_t *to, uint64_t min, uint64_t max, struct slice s, size_t line, const char *name,
	       struct fault *f)
{
	if (digits(s, to) && *to >= min && *to <= max)
		return 0;
	return fault_say(f, -EINVAL,
			 "line %zu, %s: '%.*s' is not a whole number from %" PRIu64 " to %" PRIu64, line,
			 name, csv_shown(s), s.at, min, max);
}
