// SPDX-License-Identifier: Apache-2.0
/* The hosts file: see hosts_csv.h. Pure functions over a buffer that need not end in NUL. */
#include "hosts_csv.h"

#include "csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "row,name,netns,ifname,line_bps,floor_bps,burst_bytes,limit_bytes"

enum { ROW, NAME, NETNS, IFNAME, LINE, FLOOR, BURST, LIMIT, N_FIELDS };

static const struct {
	const char *name;
	uint64_t min, max;
} numbers[N_FIELDS] = {
	[LINE] = { "line_bps", HOST_RATE_MIN, HOST_RATE_MAX },
	[FLOOR] = { "floor_bps", HOST_RATE_MIN, HOST_RATE_MAX },
	[BURST] = { "burst_bytes", 1, UINT32_MAX },
	[LIMIT] = { "limit_bytes", 1, UINT32_MAX },
};

/* The interface must be that of the row in the ports file: what is read back is read there. */
static int check_port(const struct slice *fields, const struct port *p, uint64_t row, size_t line,
		      struct fault *f)
{
	char netns[PORT_NETNS_LEN], ifname[PORT_IFNAME_LEN];
	int rc = csv_word(netns, sizeof(netns), fields[NETNS], line, "netns", f);

	if (!rc)
		rc = csv_word(ifname, sizeof(ifname), fields[IFNAME], line, "ifname", f);
	if (rc)
		return rc;
	if (strcmp(netns, p->netns) || strcmp(ifname, p->ifname))
		return fault_say(f, -EINVAL,
				 "line %zu, row: %" PRIu64
				 " is %s in netns '%.80s' in the ports file, not %s in "
				 "'%.80s'; give the row of the host's egress",
				 line, row, p->ifname, p->netns, ifname, netns);
	return 0;
}

static int read_numbers(const struct slice *fields, size_t line, uint64_t *values, struct fault *f)
{
	for (int i = LINE; i < N_FIELDS; i++) {
		int rc = csv_number(&values[i], numbers[i].min, numbers[i].max, fields[i], line,
				    numbers[i].name, f);

		if (rc)
			return rc;
	}
	if (values[FLOOR] > values[LINE])
		return fault_say(f, -EINVAL,
				 "line %zu, floor_bps: %" PRIu64 " is more than line_bps, %" PRIu64
				 "; give less",
				 line, values[FLOOR], values[LINE]);
	return 0;
}

static int parse_line(struct slice text, size_t line, const struct ports *ports, struct host *h,
		      struct fault *f)
{
	struct slice fields[N_FIELDS] = { 0 };
	size_t n = csv_split(text, fields, N_FIELDS);
	uint64_t values[N_FIELDS] = { 0 };
	int rc;

	if (n != N_FIELDS)
		return fault_say(f, -EINVAL, "line %zu: %zu fields; give the eight of the header, " HEADER,
				 line, n);
	rc = csv_number(&values[ROW], 0, ports->n - 1, fields[ROW], line, "row", f);
	if (!rc)
		rc = csv_word(h->name, sizeof(h->name), fields[NAME], line, "name", f);
	if (!rc)
		rc = check_port(fields, &ports->port[values[ROW]], values[ROW], line, f);
	if (!rc)
		rc = read_numbers(fields, line, values, f);
	if (rc)
		return rc;
	h->row = (uint32_t)values[ROW];
	h->line_bps = values[LINE];
	h->floor_bps = values[FLOOR];
	h->burst_bytes = (uint32_t)values[BURST];
	h->limit_bytes = (uint32_t)values[LIMIT];
	return 0;
}

static int parse_lines(struct slice rest, const struct ports *ports, bool *taken, struct hosts *out,
		       struct fault *f)
{
	struct slice text;
	size_t line = 1;

	while (csv_line(&rest, &text)) {
		struct host *h = &out->host[out->n];
		int rc;

		line++;
		if (out->n == ports->n)
			return fault_say(f, -EINVAL, "line %zu: more hosts than the %u ports", line,
					 ports->n);
		rc = parse_line(text, line, ports, h, f);
		if (rc)
			return rc;
		if (taken[h->row])
			return fault_say(f, -EINVAL,
					 "line %zu, row: %u stands above already; give each egress one line",
					 line, h->row);
		taken[h->row] = true;
		out->n++;
	}
	if (out->n == 0)
		return fault_say(f, -EINVAL, "no hosts below the header; give one line a host");
	return 0;
}

int hosts_csv_parse(const char *buf, size_t len, const struct ports *ports, struct hosts *out,
		    struct fault *f)
{
	struct slice rest = { buf, len }, line = { 0 };
	bool *taken;
	int rc;

	*out = (struct hosts){ 0 };
	if (!csv_line(&rest, &line) || line.len != strlen(HEADER) || memcmp(line.at, HEADER, line.len))
		return fault_say(f, -EINVAL, "line 1: not the header; it must be " HEADER);
	out->host = calloc(ports->n, sizeof(*out->host));
	taken = calloc(ports->n, sizeof(*taken));
	rc = out->host && taken ? parse_lines(rest, ports, taken, out, f)
				: fault_say(f, -ENOMEM, "out of memory for its hosts");
	free(taken);
	if (rc)
		hosts_free(out);
	return rc;
}

void hosts_free(struct hosts *h)
{
	free(h->host);
	*h = (struct hosts){ 0 };
}
