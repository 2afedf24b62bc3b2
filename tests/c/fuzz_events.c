// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the events file. What is accepted must keep its promises. */
#include "events_file.h"
#include "fuzz.h"
#include "record_bytes.h"

#include <linux/netlink.h>

#define MOST_PORTS 64
#define LEAST      24 /* bytes of the shortest request: heads of netlink, of a family, and of a datapath */

static void check_request(const struct events *e, uint32_t start, uint32_t len)
{
	unsigned char copy[EVENT_MAX_SIZE];
	struct nlmsghdr head;

	require(len >= LEAST - 4 && len <= sizeof(copy) && len % NLMSG_ALIGNTO == 0);
	memcpy(copy, e->bytes + start, len);
	memcpy(&head, copy, sizeof(head));
	require(head.nlmsg_len == len);
}

static void check_events(const struct events *e)
{
	require(e->n > 0);
	for (uint32_t i = 0; i < e->n; i++) {
		const struct event_change *c = &e->change[i];

		require(c->row < MOST_PORTS && c->generic <= 1);
		require(!i || c->at_ns >= e->change[i - 1].at_ns);
		check_request(e, c->set_start, c->set_len);
		if (c->get_len)
			check_request(e, c->get_start, c->get_len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct port port[MOST_PORTS];
	const struct ports ports = { .port = port, .n = MOST_PORTS };
	struct events events = { .file = file_of((struct bytes){ (unsigned char *)data, size }) };
	struct fault f;
	int rc = events_take(&events, &ports, &f);

	if (!rc)
		check_events(&events);
	else
		require(memchr(f.text, 0, sizeof(f.text)) != NULL);
	fuzz_count(rc ? 0 : events.n);
	return 0;
}
