// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the file of the NIC's loader. It is read or refused, and the rows of what is read add up.
 */
#include "fuzz.h"
#include "nics.h"
#include "record_bytes.h"
#include "rows.h"

static const struct nic nic[] = {
	{ 100000, "a", "-", "a-eth0", "nic0", "nic1" },
	{ 400000000000, "b", "/n/b", "b-eth0", "nic0", "nic1" },
};

static void check_rows(const struct nic_flow *flow, const struct nic *src)
{
	struct nic_port port;
	struct nic_sender s;
	struct nic_receiver r;
	uint64_t messages;

	rows_port(&port, src, 1, 2);
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
	flow.payload_bytes = (uint32_t)(drawn[0] % NIC_PAYLOAD_MAX) + 1;
	flow.message_bytes = drawn[1] % ((uint64_t)UINT32_MAX * flow.payload_bytes) + 1;
	flow.total_bytes = drawn[2] ? drawn[2] : UINT64_MAX;
	check_rows(&flow, &nic[data[0] & 1]);
}

static void check_nics(const struct nics *nics)
{
	require(nics->n && nics->flows && nics->rows && nics->capped <= nics->flows);
	for (uint32_t i = 0; i < nics->n; i++)
		require(memchr(nics->nic[i].netns, 0, NIC_NETNS_LEN) &&
			memchr(nics->nic[i].tail, 0, IF_NAMESIZE));
	for (uint32_t i = 0, capped = 0; i < nics->flows; i++) {
		const struct nic_flow *flow = &nics->flow[i];

		require(flow->flow < nics->rows && flow->src_nic < nics->n && flow->dst_nic < nics->n);
		check_rows(flow, &nics->nic[flow->src_nic]);
		require(!flow->tcp_src_port == !flow->tcp_dst_port);
		capped += flow->tcp_src_port != 0;
		require(i + 1 < nics->flows || capped == nics->capped);
	}
	require(nics->settings.ack_packets && nics->settings.timeout_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nics nics = { .file = file_of((struct bytes){ (unsigned char *)data, size }) };
	struct fault f;
	int rc = nics_take(&nics, &f);

	if (!rc)
		check_nics(&nics);
	else
		require(memchr(f.text, 0, sizeof(f.text)) != NULL);
	check_drawn(data, size);
	fuzz_count(rc ? 0 : nics.flows);
	return 0;
}
