// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the hosts file. What is accepted must keep its promises. */
#include "hosts_csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct port port[] = { { "a", "-", "a" }, { "b", "-", "b" } };
	const struct ports ports = { port, 2 };
	struct hosts hosts;
	struct fault f;

	if (hosts_csv_parse((const char *)data, size, &ports, &hosts, &f)) {
		if (hosts.host || hosts.n || !memchr(f.text, 0, sizeof(f.text)))
			abort();
		return 0;
	}
	for (uint32_t i = 0; i < hosts.n; i++) {
		const struct host *h = &hosts.host[i];

		if (h->row >= ports.n || !memchr(h->name, 0, SM_NAME_LEN) || h->floor_bps < HOST_RATE_MIN ||
		    h->floor_bps > h->line_bps || h->line_bps > HOST_RATE_MAX || !h->burst_bytes ||
		    !h->limit_bytes)
			abort();
	}
	hosts_free(&hosts);
	return 0;
}
