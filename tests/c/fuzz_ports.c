// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the ports file. What is accepted must keep its promises. */
#include "ports.h"
#include "record_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct port port[] = { { "a", "-", "a" }, { "b", "/run/netns/b", "b" } };
	struct bytes whole = { 0 }, b;
	struct ports ports;
	struct fault f;

	add_table(&whole, PORT_MAGIC, PORT_VERSION, sizeof(port[0]), port, 2);
	b = spoilt(whole, data, size);
	ports = (struct ports){ .file = file_of(b) };
	if (ports_take(&ports, &f)) {
		if (!memchr(f.text, 0, sizeof(f.text)))
			abort();
	} else {
		if (!ports.n)
			abort();
		for (uint32_t i = 0; i < ports.n; i++)
			if (!ports.port[i].name[0] || !memchr(ports.port[i].name, 0, SM_NAME_LEN) ||
			    !memchr(ports.port[i].netns, 0, PORT_NETNS_LEN) ||
			    !memchr(ports.port[i].ifname, 0, PORT_IFNAME_LEN))
				abort();
	}
	free(b.at);
	free(whole.at);
	return 0;
}
