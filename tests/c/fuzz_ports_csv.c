// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the ports file. What is accepted must keep its promises. */
#include "ports_csv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ports ports;
	struct fault err;
	int rc = ports_csv_parse((const char *)data, size, &ports, &err);

	if (rc) {
		if (ports.port || ports.n || !memchr(err.text, 0, sizeof(err.text)))
			abort();
		return 0;
	}
	for (uint32_t i = 0; i < ports.n; i++)
		if (!ports.port[i].name[0] || !memchr(ports.port[i].name, 0, SM_NAME_LEN) ||
		    !memchr(ports.port[i].netns, 0, PORT_NETNS_LEN) ||
		    !memchr(ports.port[i].ifname, 0, PORT_IFNAME_LEN))
			abort();
	ports_free(&ports);
	return 0;
}
