// SPDX-License-Identifier: Apache-2.0
/* The ports file: see ports_csv.h. Pure functions over a buffer that need not end in NUL. */
#include "ports_csv.h"

#include "csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER   "row,name,netns,ifname"
#define N_FIELDS 4

static int check_row(struct slice s, uint32_t row, size_t line, struct fault *f)
{
	char want[16];
	int len = snprintf(want, sizeof(want), "%u", row);

	if (s.len == (size_t)len && !memcmp(s.at, want, s.len))
		return 0;
	return fault_say(f, -EINVAL, "line %zu, row: '%.*s' is not %u; number the rows 0, 1, 2, ...", line,
			 csv_shown(s), s.at, row);
}

static int parse_line(struct slice line, size_t number, uint32_t row, struct port *port, struct fault *f)
{
	struct slice fields[N_FIELDS] = { 0 };
	size_t n = csv_split(line, fields, N_FIELDS);
	int rc;

	if (n != N_FIELDS)
		return fault_say(f, -EINVAL, "line %zu: %zu fields; give the four of the header, " HEADER,
				 number, n);
	rc = check_row(fields[0], row, number, f);
	if (!rc)
		rc = csv_word(port->name, sizeof(port->name), fields[1], number, "name", f);
	if (!rc)
		rc = csv_word(port->netns, sizeof(port->netns), fields[2], number, "netns", f);
	if (!rc)
		rc = csv_word(port->ifname, sizeof(port->ifname), fields[3], number, "ifname", f);
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

static int check_unique(const struct ports *p, struct fault *f)
{
	const struct port **sorted = malloc(p->n * sizeof(*sorted));
	const struct port *const *twins;
	int rc = 0;

	if (!sorted)
		return fault_say(f, -ENOMEM, "out of memory for %u ports", p->n);
	for (uint32_t i = 0; i < p->n; i++)
		sorted[i] = &p->port[i];
	twins = find_twins(sorted, p->n, by_name);
	if (twins) {
		rc = fault_say(f, -EINVAL,
			       "rows %td and %td, name: both are '%s'; give each port its own name",
			       twins[0] - p->port, twins[1] - p->port, twins[0]->name);
		goto out;
	}
	twins = find_twins(sorted, p->n, by_interface);
	if (twins)
		rc = fault_say(
			f, -EINVAL,
			"rows %td and %td, ifname: both are '%s' in the same netns; give each interface "
			"one row",
			twins[0] - p->port, twins[1] - p->port, twins[0]->ifname);
out:
	free(sorted);
	return rc;
}

static int parse_lines(struct slice rest, struct ports *out, struct fault *f)
{
	struct slice line;
	size_t number = 1;

	while (csv_line(&rest, &line)) {
		int rc;

		number++;
		if (out->n == SM_MAX_ROWS)
			return fault_say(f, -EINVAL, "line %zu: more than %d ports", number, SM_MAX_ROWS);
		rc = parse_line(line, number, out->n, &out->port[out->n], f);
		if (rc)
			return rc;
		out->n++;
	}
	if (out->n == 0)
		return fault_say(f, -EINVAL, "no ports below the header; give one line a port");
	return check_unique(out, f);
}

int ports_csv_parse(const char *buf, size_t len, struct ports *out, struct fault *f)
{
	struct slice rest = { buf, len }, line = { 0 };
	int rc;

	*out = (struct ports){ 0 };
	f->text[0] = 0;
	if (!csv_line(&rest, &line) || line.len != strlen(HEADER) || memcmp(line.at, HEADER, line.len))
		return fault_say(f, -EINVAL, "line 1: not the header; it must be " HEADER);
	out->port = calloc(csv_count(rest, SM_MAX_ROWS) + 1, sizeof(*out->port));
	if (!out->port)
		return fault_say(f, -ENOMEM, "out of memory for its ports");
	rc = parse_lines(rest, out, f);
	if (rc)
		ports_free(out);
	return rc;
}

void ports_free(struct ports *p)
{
	free(p->port);
	*p = (struct ports){ 0 };
}
