/* SPDX-License-Identifier: Apache-2.0 */
/* An actuators file in memory, for tests of its reader: a host's rate and the marking of a switch port. */
#ifndef ACTUATORS_FILE_H
#define ACTUATORS_FILE_H

#include "actuators.h"
#include "record_bytes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define N_ROWS        2
#define N_FIELDS      12
#define REQUEST_HEADS 36 /* struct nlmsghdr and struct tcmsg */
#define REQUEST_LEN   96

struct actuators_file {
	struct actuator_row row[N_ROWS];
	struct actuator_field field[N_FIELDS];
	unsigned char bytes[2 * REQUEST_LEN];
	const unsigned char *request; /* these instead of `bytes`; NULL: none */
	uint32_t n_rows, n_fields, n_bytes;
};

static const struct port three_ports[] = {
	{ "s1-eth1", "-", "s1-eth1", 0, 0 },
	{ "h1-eth0", "/run/netns/h1", "h1-eth0", 0, 0 },
	{ "h2-eth0", "/run/netns/h2", "h2-eth0", 0, 0 },
};
static const struct ports some_ports = { .port = three_ports, .n = 3 };

/* Both requests begin with the length 96, of type 36, which is RTM_NEWQDISC. */
static const struct actuators_file good_actuators = {
	.row = {
		{ .actuator = "rate", .qdisc = "tbf", .low = { 8 }, .high = { 400000000000 }, .start = { 400000000000 },
		  .row = 1, .n_values = 1, .request_start = 0, .request_len = REQUEST_LEN, .writes_start = 0,
		  .n_writes = 2, .reads_start = 2, .n_reads = 2, .control_port = 20130 },
		{ .actuator = "marking", .qdisc = "red", .low = { 1514, 1514, 10000 },
		  .high = { 400000, 400000, 1000000 }, .start = { 30000, 30000, 1000000 }, .row = 0,
		  .n_values = 3, .request_start = REQUEST_LEN, .request_len = REQUEST_LEN, .writes_start = 4,
		  .n_writes = 3, .reads_start = 8, .n_reads = 3 },
	},
	.field = {
		{ 1, 8, 0, 4, 60, 0, 0, 0 }, { 1, 8, 0, 8, 88, 0, 0, 0 }, { 1, 8, 0, 4, 8, 1, 0, 0 }, { 1, 8, 0, 8, 0, 4, 0, 0 },
		{ 1, 1, 0, 4, 56, 0, 0, 0 }, { 1, 1, 1, 4, 60, 0, 0, 0 }, { UINT64_C(1) << 32, 1000000, 2, 4, 92, 0, 0, 0 },
		{ 1, 1, 0, 1, 36, 0, 0, 0 },
		{ 1, 1, 0, 4, 4, 1, 0, 0 }, { 1, 1, 1, 4, 8, 1, 0, 0 }, { UINT64_C(1) << 32, 1000000, 2, 4, 0, 3, 0, 0 },
		{ 1, 1, 0, 1, 36, 0, 0, 0 },
	},
	.bytes = { [0] = REQUEST_LEN, [4] = RTM_NEWQDISC, [40] = 0xa0,
		   [REQUEST_LEN] = REQUEST_LEN, [REQUEST_LEN + 4] = RTM_NEWQDISC, [REQUEST_LEN + 40] = 0xb0 },
	.n_rows = N_ROWS,
	.n_fields = N_FIELDS,
	.n_bytes = 2 * REQUEST_LEN,
};

static inline struct bytes actuators_bytes(const struct actuators_file *made)
{
	const unsigned char *bytes = made->request ? made->request : made->bytes;
	struct bytes b = { 0 };

	add_table(&b, ACTUATOR_MAGIC, ACTUATOR_VERSION, sizeof(made->row[0]), made->row, made->n_rows);
	add_table(&b, FIELD_MAGIC, FIELD_VERSION, sizeof(made->field[0]), made->field, made->n_fields);
	add_table(&b, REQUEST_MAGIC, ACTUATOR_VERSION, 1, bytes, made->n_bytes);
	return b;
}

#endif
