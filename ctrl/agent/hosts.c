// SPDX-License-Identifier: Apache-2.0
/* The hosts file: see hosts.h. */
#include "hosts.h"

#include <arpa/inet.h>

static int check(const struct record_place *at, const struct host *h, uint32_t least_row, uint32_t rows,
		 bool control)
{
	int rc = 0;

	if (h->row < least_row || h->row >= rows)
		rc = record_refuse(at, "row", "%u is not from %u to %u: rows of the ports file, in order",
				   h->row, least_row, rows - 1);
	if (!rc)
		rc = record_number(at, "line_bps", h->line_bps, HOST_RATE_MIN, HOST_RATE_MAX);
	if (!rc)
		rc = record_number(at, "floor_bps", h->floor_bps, HOST_RATE_MIN, h->line_bps);
	if (!rc)
		rc = record_number(at, "burst_bytes", h->burst_bytes, 1, UINT32_MAX);
	if (!rc)
		rc = record_number(at, "limit_bytes", h->limit_bytes, 1, UINT32_MAX);
	if (!rc && control)
		rc = record_number(at, "control_port", h->control_port, 1, UINT16_MAX);
	return rc;
}

int hosts_take(struct hosts *hosts, const struct ports *ports, bool control, struct fault *f)
{
	static const struct record_kind kind = {
		HOST_MAGIC, "host", HOST_VERSION, sizeof(struct host), 1, SM_MAX_ROWS,
	};
	struct record_place at = { &hosts->file, &kind, 0, f };
	const void *records;
	uint32_t least_row = 0;
	int rc = record_file_take(&hosts->file, &kind, &records, &hosts->n, f);

	if (rc)
		return rc;
	hosts->host = records;
	hosts->ports = ports;
	for (; at.number < hosts->n && !rc; at.number++) {
		const struct host *h = &hosts->host[at.number];

		rc = check(&at, h, least_row, ports->n, control);
		least_row = h->row + 1;
	}
	return rc ? rc : record_file_end(&hosts->file, f);
}

const char *hosts_name(const struct hosts *hosts, uint32_t i)
{
	return hosts->ports->port[hosts->host[i].row].name;
}

struct sockaddr_in hosts_address(const struct hosts *hosts, uint32_t i)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(hosts->host[i].control_port),
		.sin_addr.s_addr = hosts->host[i].control_addr,
	};
}
