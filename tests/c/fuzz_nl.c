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
	struct port_counters classes[2];
	uint64_t qdiscs; /* that were understood */
};

static void on_class(struct port *port, const struct qdisc *q, uint32_t class)
{
	struct port_sample sample = { 0 };
	struct qdisc own;

	if (qdisc_class(q, class, &own))
		return;
	require(qdisc_is(q, "port"));
	port_sample_add(&sample, &own);
	port_counters_advance(&port->classes[class & 1], &sample);
}

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
	for (uint32_t class = 0; class < 3; class ++)
		on_class(port, &q, class);
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
