// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the ports file. What is accepted must keep its promises. */
#include "fuzz.h"
#include "ports.h"
#include "record_bytes.h"

static void check_ports(const struct ports *ports)
{
	require(ports->n);
	for (uint32_t i = 0; i < ports->n; i++) {
		const struct port *port = &ports->port[i];

		require(port->name[0] && memchr(port->name, 0, SM_NAME_LEN));
		require(memchr(port->netns, 0, PORT_NETNS_LEN) && memchr(port->ifname, 0, PORT_IFNAME_LEN));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ports ports = { .file = file_of((struct bytes){ (unsigned char *)data, size }) };
	struct fault f;
	int rc = ports_take(&ports, &f);

	if (!rc)
		check_ports(&ports);
	else
		require(memchr(f.text, 0, sizeof(f.text)) != NULL);
	fuzz_count(rc ? 0 : ports.n);
	return 0;
}
