// SPDX-License-Identifier: Apache-2.0
/* The files of the NIC's loader: whatever stands in them, they are read or refused, and the rows of what is
 * read add up. */
#include "nic_csv.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

static struct nic nic[] = { { .name = "a", .line_bps = 100000 }, { .name = "b", .line_bps = 400000000000 } };
static const struct nics nics = { nic, 2 };

static void require(int holds)
{
	if (!holds)
		abort();
}

static void check_rows(const struct nic_flow *flow)
{
	struct nic_port port;
	struct nic_sender s;
	struct nic_receiver r;
	uint64_t messages;

	rows_port(&port, &nic[flow->src_nic], 1, 2);
	rows_flow(&s, &r, flow, &port);
	require(s.message_packets && s.tail_bytes && s.tail_bytes <= s.payload_bytes);
	require((s.message_packets - 1ULL) * s.payload_bytes + s.tail_bytes == s.message_bytes);
	require(s.total_packets == r.total_packets && s.total_packets && s.final_bytes <= s.payload_bytes);
	if (flow->total_bytes == UINT64_MAX)
		return;
	messages = (flow->total_bytes - 1) / flow->message_bytes; /* before the last */
	require(messages * s.message_bytes +
			(s.total_packets - messages * s.message_packets - 1) * s.payload_bytes +
			s.final_bytes ==
		flow->total_bytes);
}

/* The numbers of a flow that a file could have. */
static void check_drawn(const uint8_t *data, size_t size)
{
	struct nic_flow flow = { .flow = 1, .src_port = 1, .base_rtt_ns = 1, .hops = 1 };
	uint64_t drawn[3];

	if (size < sizeof(drawn))
		return;
	memcpy(drawn, data, sizeof(drawn));
	flow.src_nic = data[0] & 1;
	flow.payload_bytes = (uint32_t)(drawn[0] % NIC_PAYLOAD_MAX) + 1;
	flow.message_bytes = drawn[1] % ((uint64_t)UINT32_MAX * flow.payload_bytes) + 1;
	flow.total_bytes = drawn[2] ? drawn[2] : UINT64_MAX;
	check_rows(&flow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char flow_header[] = "flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,"
					  "payload_bytes,message_bytes,total_bytes,base_rtt_ns,hops\n";
	struct nic_settings settings;
	struct nic_flows flows;
	struct nics found;
	struct fault f;
	size_t skip = sizeof(flow_header) - 1;
	char *text = malloc(skip + size);

	require(text != NULL);
	memcpy(text, flow_header, skip);
	memcpy(text + skip, data, size);
	if (!nic_flows_parse(text, skip + size, &nics, &flows, &f))
		for (uint32_t i = 0; i < flows.n; i++)
			check_rows(&flows.flow[i]);
	free(flows.flow);
	check_drawn(data, size);
	nics_parse((const char *)data, size, &found, &f);
	free(found.nic);
	nic_settings_parse((const char *)data, size, &settings, &f);
	free(text);
	return 0;
}
