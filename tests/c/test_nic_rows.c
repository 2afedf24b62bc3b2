// SPDX-License-Identifier: Apache-2.0
/* The NIC's rows before the start: how bytes become packets, and frames that are right on the wire. */
#include "rows.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct nic nic = { .name = "h1-eth0", .line_bps = 10000000000 };

static void fill(struct nic_sender *s, struct nic_receiver *r, uint64_t message_bytes, uint64_t total_bytes)
{
	struct nic_flow flow = {
		.flow = 7,
		.src_addr = htonl(0x0a000001),
		.dst_addr = htonl(0x0a000002),
		.src_mac = { 2, 0, 0, 0, 0, 1 },
		.dst_mac = { 2, 0, 0, 0, 0, 2 },
		.src_port = 49152,
		.payload_bytes = 1440,
		.message_bytes = message_bytes,
		.total_bytes = total_bytes,
		.base_rtt_ns = 10000,
		.hops = 2,
		.cnp_dscp = 48,
	};
	struct nic_port port;

	rows_port(&port, &nic, 3, 4);
	assert_int_equal(port.byte_ns, 838861); /* 0.8 ns in Q20, rounded up */
	rows_flow(s, r, &flow, &port);
}

static void cuts_bytes_into_packets(void **state)
{
	static const struct {
		uint64_t message, total, packets;
		uint32_t of_message, tail, final;
	} cases[] = {
		{ 64000, 64000, 45, 45, 640, 640 },
		{ 64000, 1000000, 703, 45, 640, 1120 },
		{ 1440, 1440, 1, 1, 1440, 1440 },
		{ 1441, 2882, 4, 2, 1, 1 },
		{ 1, 3, 3, 1, 1, 1 },
		{ 64000, 1, 1, 45, 640, 1 },
		{ 64000, UINT64_MAX, UINT64_MAX, 45, 640, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nic_sender s;
		struct nic_receiver r;

		fill(&s, &r, cases[i].message, cases[i].total);
		assert_int_equal(s.total_packets, cases[i].packets);
		assert_int_equal(r.total_packets, cases[i].packets);
		assert_int_equal(s.message_packets, cases[i].of_message);
		assert_int_equal(s.tail_bytes, cases[i].tail);
		if (cases[i].final)
			assert_int_equal(s.final_bytes, cases[i].final);
	}
}

/* RFC 1071: over the header with its checksum all bits are set. */
static uint16_t folded(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static void frames_are_right_on_the_wire(void **state)
{
	static const uint8_t there[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 2, 0, 60 };
	static const uint8_t back[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 60 };
	static const uint8_t ports[] = { 0xc0,         0, 0x12, 0xb7, 0, 40, 0, 0, NIC_VERSION,
					 NIC_DOORBELL, 0, 0,    0,    0, 0,  7 };
	struct nic_sender s;
	struct nic_receiver r;

	(void)state;
	fill(&s, &r, 64000, 64000);
	assert_memory_equal(s.frame, there, sizeof(there));
	assert_memory_equal(r.frame, back, sizeof(back));
	assert_memory_equal(s.frame + 34, ports, sizeof(ports));
	assert_memory_equal(r.frame + 34, ports, sizeof(ports));
	assert_memory_equal(s.frame + 26, r.frame + 30, 4);
	assert_int_equal(folded(s.frame + 14), 0xffff);
	assert_int_equal(folded(r.frame + 14), 0xffff);
	assert_memory_equal(r.cnp_frame, r.frame, 15);
	assert_int_equal(r.cnp_frame[15], 48 << 2);
	assert_int_equal(folded(r.cnp_frame + 14), 0xffff);
}

/* The slowest line at the least rate, and the largest bursts that there can be: exact, where one product
 * wraps. */
static void long_bursts_on_slow_lines_take_their_time(void **state)
{
	static const uint64_t lines[] = { 100000, 600000, 755999, 1000000, 1000000000, 10000000000000 };
	static const uint32_t bytes[] = { 1, 74, 1514, 64 * (1514 + 74), 65536u * (9074 + 74) };
	static const uint32_t rates[] = { CC_MIN_RATE, CC_MIN_RATE + 1, 1049, CC_LINE_RATE };
	bool wraps = false;

	(void)state;
	for (size_t l = 0; l < sizeof(lines) / sizeof(lines[0]); l++) {
		struct nic nic = { .line_bps = lines[l] };
		struct nic_port port;

		rows_port(&port, &nic, 1, 2);
		for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
			uint64_t byte_ns = (port.byte_ns << BYTE_NS_SHIFT) / rates[r];

			for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++) {
				unsigned __int128 whole = (unsigned __int128)bytes[b] * byte_ns;

				assert_true(nic_span_ns(bytes[b], byte_ns) ==
					    (uint64_t)(whole >> BYTE_NS_SHIFT));
				wraps |= bytes[b] == bytes[3] && whole >> 64;
			}
		}
	}
	assert_true(wraps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_bytes_into_packets),
		cmocka_unit_test(frames_are_right_on_the_wire),
		cmocka_unit_test(long_bursts_on_slow_lines_take_their_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
