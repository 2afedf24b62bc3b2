// SPDX-License-Identifier: Apache-2.0
/*
 * libFuzzer entry: one datagram from netlink, down to the counters of a port. The walk insists on the
 * sequence number, which a fuzzer would have to guess; it is taken from the first message.
 */
#include "fuzz.h"
#include "nl.h"
#include "qdisc.h"

#include <linux/netlink.h>
#include <string.h>

struct port {
	struct port_sample sample;
	struct port_counters counters;
	uint64_t qdiscs; /* that were understood */
};

static int on_qdisc(const unsigned char *payload, size_t len, void *arg)
{
	struct port *port = arg;
	struct qdisc q;
	int rc = qdisc_parse(payload, len, &q);

	if (rc)
		return rc;
	port->qdiscs++;
	port_sample_add(&port->sample, &q);
	port_counters_advance(&port->counters, &port->sample);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nl_sock sock = NL_SOCK_INIT;
	struct port port = { 0 };
	struct nlmsghdr first;
	unsigned int seen = 0;

	on_qdisc(data, size, &port); /* the payload alone: attributes are reached sooner */
	if (size >= sizeof(first)) {
		memcpy(&first, data, sizeof(first));
		sock.seq = first.nlmsg_seq;
		sock.portid = first.nlmsg_pid;
	}
	nl_walk(data, size, &sock, on_qdisc, &port, &seen);
	fuzz_count(port.qdiscs);
	return 0;
}
