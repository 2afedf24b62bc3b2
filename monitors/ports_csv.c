// SPDX-License-Identifier: Apache-2.0
/* The ports file: see ports_csv.h. Pure functions over a buffer that need not end in NUL. */
#include "ports_csv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER   "row,name,netns,ifname"
#define N_FIELDS 4

struct slice {
	const char *at;
	size_t len;
};

static const char *const field_names[N_FIELDS] = { "row", "name", "netns", "ifname" };

__attribute__((format(printf, 2, 3))) static int refuse(struct ports_csv_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* Cut the next line off; both \n and \r\n end one. */
static bool next_line(struct slice *rest, struct slice *line)
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

/* Split at commas: how many fields there are; the first N_FIELDS are stored. */
static size_t split(struct slice line, struct slice *fields)
{
	size_t n = 0, start = 0;

	for (size_t i = 0; i <= line.len; i++) {
		if (i < line.len && line.at[i] != ',')
			continue;
		if (n < N_FIELDS)
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

/* What of a field is fit to be shown in a message. */
static int shown(struct slice s)
{
	return plain(s) ? (int)(s.len < 40 ? s.len : 40) : 0;
}

static int copy_field(char *to, size_t size, struct slice s, size_t line, int field,
		      struct ports_csv_error *err)
{
	const char *name = field_names[field];

	if (!plain(s))
		return refuse(err,
			      "line %zu, %s: empty, or with spaces, quotes or unprintable characters; give a "
			      "plain word",
			      line, name);
	if (s.len >= size)
		return refuse(err, "line %zu, %s: '%.*s' has %zu characters; give at most %zu", line, name,
			      shown(s), s.at, s.len, size - 1);
	memcpy(to, s.at, s.len);
	memset(to + s.len, 0, size - s.len);
	return 0;
}

static int check_row(struct slice s, uint32_t row, size_t line, struct ports_csv_error *err)
{
	char want[16];
	int len = snprintf(want, sizeof(want), "%u", row);

	if (s.len == (size_t)len && !memcmp(s.at, want, s.len))
		return 0;
	return refuse(err, "line %zu, row: '%.*s' is not %u; number the rows 0, 1, 2, ...", line, shown(s),
		      s.at, row);
}

static int parse_line(struct slice line, size_t number, uint32_t row, struct port *port,
		      struct ports_csv_error *err)
{
	struct slice f[N_FIELDS] = { 0 };
	size_t n = split(line, f);
	int rc;

	if (n != N_FIELDS)
		return refuse(err, "line %zu: %zu fields; give the four of the header, " HEADER, number, n);
	rc = check_row(f[0], row, number, err);
	if (!rc)
		rc = copy_field(port->name, sizeof(port->name), f[1], number, 1, err);
	if (!rc)
		rc = copy_field(port->netns, sizeof(port->netns), f[2], number, 2, err);
	if (!rc)
		rc = copy_field(port->ifname, sizeof(port->ifname), f[3], number, 3, err);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	const struct port *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int by_interface(const void *a, const void *b)
{
	const struct port *const *x = a, *const *y = b;
	int c = strcmp((*x)->netns, (*y)->netns);

	return c ? c : strcmp((*x)->ifname, (*y)->ifname);
}

/* The first pair of ports that are equal under an order, if any. */
static const struct port *const *find_twins(const struct port **sorted, uint32_t n,
					    int (*order)(const void *, const void *))
{
	qsort(sorted, n, sizeof(*sorted), order);
	for (uint32_t i = 1; i < n; i++)
		if (order(&sorted[i - 1], &sorted[i]) == 0)
			return &sorted[i - 1];
	return NULL;
}

static int check_unique(const struct ports *p, struct ports_csv_error *err)
{
	const struct port **sorted = malloc(p->n * sizeof(*sorted));
	const struct port *const *twins;
	int rc = 0;

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n; i++)
		sorted[i] = &p->port[i];
	twins = find_twins(sorted, p->n, by_name);
	if (twins) {
		rc = refuse(err, "rows %td and %td, name: both are '%s'; give each port its own name",
			    twins[0] - p->port, twins[1] - p->port, twins[0]->name);
		goto out;
	}
	twins = find_twins(sorted, p->n, by_interface);
	if (twins)
		rc = refuse(err,
			    "rows %td and %td, ifname: both are '%s' in the same netns; give each interface "
			    "one row",
			    twins[0] - p->port, twins[1] - p->port, twins[0]->ifname);
out:
	free(sorted);
	return rc;
}

static int parse_lines(struct slice rest, struct ports *out, struct ports_csv_error *err)
{
	struct slice line;
	size_t number = 1;

	while (next_line(&rest, &line)) {
		int rc;

		number++;
		if (out->n == SM_MAX_ROWS)
			return refuse(err, "line %zu: more than %d ports", number, SM_MAX_ROWS);
		rc = parse_line(line, number, out->n, &out->port[out->n], err);
		if (rc)
			return rc;
		out->n++;
	}
	if (out->n == 0)
		return refuse(err, "no ports below the header; give one line a port");
	return check_unique(out, err);
}

/* An upper bound on the ports of a buffer. */
static size_t count_lines(struct slice rest)
{
	struct slice line;
	size_t n = 0;

	while (n < SM_MAX_ROWS && next_line(&rest, &line))
		n++;
	return n;
}

int ports_csv_parse(const char *buf, size_t len, struct ports *out, struct ports_csv_error *err)
{
	struct slice rest = { buf, len }, line = { 0 };
	int rc;

	*out = (struct ports){ 0 };
	err->text[0] = 0;
	if (!next_line(&rest, &line) || line.len != strlen(HEADER) || memcmp(line.at, HEADER, line.len))
		return refuse(err, "line 1: not the header; it must be " HEADER);
	out->port = calloc(count_lines(rest) + 1, sizeof(*out->port));
	if (!out->port)
		return -ENOMEM;
	rc = parse_lines(rest, out, err);
	if (rc)
		ports_free(out);
	return rc;
}

void ports_free(struct ports *p)
{
	free(p->port);
	*p = (struct ports){ 0 };
}
