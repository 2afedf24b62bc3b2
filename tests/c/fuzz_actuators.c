// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the hosts file. What is accepted must keep its promises. */
#include "hosts.h"
#include "record_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hosts(const struct hosts *hosts, bool control)
{
	for (uint32_t i = 0; i < hosts->n; i++) {
		const struct host *h = &hosts->host[i];

		if (h->row >= hosts->ports->n || (i && h->row <= h[-1].row) || h->floor_bps < HOST_RATE_MIN ||
		    h->floor_bps > h->line_bps || h->line_bps > HOST_RATE_MAX || !h->burst_bytes ||
		    !h->limit_bytes || (control && !h->control_port) || !hosts_name(hosts, i)[0])
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct port port[] = { { "a", "-", "a" }, { "b", "-", "b" }, { "c", "-", "c" } };
	static const struct ports ports = { .port = port, .n = 3 };
	static const struct host host[] = {
		{ 1000, 10, 0, 1514, 1514, 1, 1, { 0 } },
		{ 1000, 10, 2, 1514, 1514, 2, 1, { 0 } },
	};
	bool control = size && data[0] & 2;
	struct bytes whole = { 0 }, b;
	struct hosts hosts;
	struct fault f;

	add_table(&whole, HOST_MAGIC, HOST_VERSION, sizeof(host[0]), host, 2);
	b = spoilt(whole, data, size);
	hosts = (struct hosts){ .file = file_of(b) };
	if (!hosts_take(&hosts, &ports, control, &f))
		check_hosts(&hosts, control);
	else if (!memchr(f.text, 0, sizeof(f.text)))
		abort();
	free(b.at);
	free(whole.at);
	return 0;
}
