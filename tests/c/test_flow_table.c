/* SPDX-License-Identifier: Apache-2.0 */
/* tgen's flows: what is taken, and every way of refusing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "flow_table.h"
#include "record_bytes.h"

static const struct flow_netns netns[] = { { "/n/a" }, { "/n/b" }, { "/n/c" } };
static const uint32_t gates[] = { 0, 2, 0 };
static const uint32_t rows[] = { 0, 3 };

/* Two gates are opened by flow 0, gate 0 also by flow 1, which waits at gate 2; flow 2 waits at gate 0. */
static const struct flow_spec good[] = {
	{ .cc = "dctcp",
	  .dst_ns = 1,
	  .src_addr = 1,
	  .dst_addr = 2,
	  .src_port = 1000,
	  .packet_bytes = 1448,
	  .dst_port = 5001,
	  .gate = FLOW_NO_GATE,
	  .opens_len = 2,
	  .path_len = 2,
	  .transport = FLOW_UDP,
	  .rate_bps = 9 },
	{ .cc = "dctcp",
	  .src_ns = 2,
	  .dst_ns = 1,
	  .src_addr = 3,
	  .dst_addr = 2,
	  .src_port = 1000,
	  .packet_bytes = 1448,
	  .dst_port = 5001,
	  .listener = 1,
	  .gate = 2,
	  .opens_start = 2,
	  .opens_len = 1,
	  .path_start = 1,
	  .path_len = 1,
	  .start_ns = 5,
	  .stop_ns = 3,
	  .length_ns = 7,
	  .size_bytes = 100,
	  .rate_bps = 8,
	  .gaps = GAPS_UNIFORM },
	{ .cc = "dctcp",
	  .dst_ns = 1,
	  .src_addr = 1,
	  .dst_addr = 2,
	  .src_port = 1001,
	  .packet_bytes = 1448,
	  .dst_port = 5001,
	  .listener = 1,
	  .gate = 0,
	  .opens_start = 3,
	  .path_start = 2 },
};

static int take(const struct flow_spec *flow, uint64_t n, uint64_t namespaces, struct flow_table *t,
		struct bytes *b, struct fault *f)
{
	*b = (struct bytes){ 0 };
	add_table(b, FLOW_NETNS_MAGIC, FLOW_VERSION, sizeof(netns[0]), netns, namespaces);
	add_table(b, FLOW_MAGIC, FLOW_SPEC_VERSION, sizeof(*flow), flow, n);
	add_table(b, FLOW_OPENS_MAGIC, FLOW_VERSION, sizeof(gates[0]), gates, 3);
	add_table(b, FLOW_ROWS_MAGIC, FLOW_VERSION, sizeof(rows[0]), rows, 2);
	*t = (struct flow_table){ .file = file_of(*b) };
	return flow_table_take(t, f);
}

/* Its file is no mapping of a file. */
static void drop(struct flow_table *t, struct bytes *b)
{
	t->file.at = NULL;
	flow_table_free(t);
	free(b->at);
}

static void takes_flows_and_gates(void **state)
{
	struct flow_table t;
	struct bytes b;
	struct fault f;

	(void)state;
	assert_int_equal(take(good, 3, 3, &t, &b, &f), 0);
	assert_int_equal(t.flows, 3);
	assert_int_equal(t.namespaces, 3);
	assert_string_equal(t.netns[t.flow[1].src_ns].path, "/n/c");
	assert_int_equal(t.rows[t.flow[1].path_start], 3);
	assert_int_equal(t.opens[t.flow[0].opens_start + 1], 2);
	assert_int_equal(t.gates, 3);
	assert_int_equal(t.needs[0], 2);
	assert_int_equal(t.needs[1], 0);
	assert_int_equal(t.needs[2], 1);
	drop(&t, &b);
}

static void takes_no_flows(void **state)
{
	struct flow_table t;
	struct bytes b = { 0 };
	struct fault f;

	(void)state;
	add_table(&b, FLOW_NETNS_MAGIC, FLOW_VERSION, sizeof(netns[0]), NULL, 0);
	add_table(&b, FLOW_MAGIC, FLOW_SPEC_VERSION, sizeof(good[0]), NULL, 0);
	add_table(&b, FLOW_OPENS_MAGIC, FLOW_VERSION, sizeof(gates[0]), NULL, 0);
	add_table(&b, FLOW_ROWS_MAGIC, FLOW_VERSION, sizeof(rows[0]), NULL, 0);
	t = (struct flow_table){ .file = file_of(b) };
	assert_int_equal(flow_table_take(&t, &f), 0);
	assert_int_equal(t.flows, 0);
	assert_int_equal(t.gates, 0);
	drop(&t, &b);
}

static void refuse(uint32_t number, struct flow_spec changed, const char *words)
{
	struct flow_spec flow[] = { good[0], good[1], good[2] };
	char place[64];
	struct flow_table t;
	struct bytes b;
	struct fault f;

	flow[number] = changed;
	assert_int_equal(take(flow, 3, 3, &t, &b, &f), -EINVAL);
	snprintf(place, sizeof(place), "--file: 'F': flow %u, ", number);
	if (strncmp(f.text, place, strlen(place)) || !strstr(f.text, words))
		fail_msg("'%s' does not say '%s%s'", f.text, place, words);
	drop(&t, &b);
}

#define WITH(number, field, value)                                                                           \
	number, ({                                                                                           \
		struct flow_spec changed = good[number];                                                     \
		changed.field = value;                                                                       \
		changed;                                                                                     \
	})

static void refuses_mistakes(void **state)
{
	(void)state;
	refuse(WITH(0, src_ns, 3), "src_ns: 3 is not from 0 to 2");
	refuse(WITH(1, dst_ns, UINT32_MAX), "dst_ns: 4294967295");
	refuse(WITH(0, packet_bytes, 9001), "packet_bytes: 9001 is not from 1 to 9000");
	refuse(WITH(1, packet_bytes, 0), "packet_bytes: 0 is not from 1 to 9000");
	refuse(WITH(0, src_port, 0), "src_port: 0 is not from 1 to 65535");
	refuse(WITH(2, dst_port, 0), "dst_port: 0");
	refuse(WITH(0, start_ns, -1), "start_ns: 18446744073709551615 is not");
	refuse(WITH(0, start_ns, FLOW_TIME_MAX + 1), "start_ns: ");
	refuse(WITH(1, stop_ns, INT64_MIN), "stop_ns: ");
	refuse(WITH(0, length_ns, -5), "length_ns: ");
	refuse(WITH(0, size_bytes, FLOW_AMOUNT_MAX + 1), "size_bytes: ");
	refuse(WITH(1, rate_bps, UINT64_MAX), "rate_bps: ");
	refuse(WITH(0, rate_bps, 0), "rate_bps: 0 is not from 1"); /* udp */
	refuse(WITH(0, transport, NR_TRANSPORTS), "transport: 3 is not from 0 to 2");
	refuse(WITH(0, gaps, NR_GAPS), "gaps: 3");
	refuse(WITH(0, cc[0], 0), "cc: empty");
	refuse(WITH(0, cc[2], ' '), "cc: empty, or with blanks");
	refuse(WITH(0, opens_start, 4), "opens_start: 4 is not from 0 to 3");
	refuse(WITH(0, opens_start, 2), "opens_len: 2 is not from 0 to 1");
	refuse(WITH(0, opens_len, UINT32_MAX), "opens_len: 4294967295 is not from 0 to 256");
	refuse(WITH(1, path_len, 2), "path_len: 2 is not from 0 to 1");
	refuse(WITH(2, path_start, 3), "path_start: 3");
	refuse(WITH(1, gate, 1), "gate: 1 is a gate that no flow opens");
	refuse(WITH(1, gate, 3), "gate: 3 is a gate that no flow opens");
	refuse(WITH(0, listener, 1), "listener: 1 is not from 0 to 0");
	refuse(WITH(2, listener, 0), "listener: flow 0 has a receiver, dst_port or cc of its own");
	refuse(WITH(2, dst_port, 5002), "listener: flow 1 has");
	refuse(WITH(2, dst_addr, 9), "listener: flow 1 has");
	refuse(WITH(2, cc[0], 'x'), "listener: flow 1 has");
}

static void refuses_cross_references(void **state)
{
	struct flow_spec chain[] = { good[1], good[1], good[1] };
	struct flow_spec timed = good[0];
	struct flow_table t;
	struct bytes b;
	struct fault f;

	(void)state;
	timed.start_ns = timed.stop_ns = 4;
	refuse(0, timed, "stop_ns: not after start_ns");
	chain[0].listener = chain[1].listener = 0;
	chain[2].listener = 1; /* which is not the first */
	for (int i = 0; i < 3; i++)
		chain[i].gate = FLOW_NO_GATE, chain[i].stop_ns = 0;
	assert_int_equal(take(chain, 3, 3, &t, &b, &f), -EINVAL);
	assert_non_null(strstr(f.text, "flow 2, listener: flow 1 has"));
	drop(&t, &b);
	assert_int_equal(take(good, 3, 0, &t, &b, &f), -EINVAL);
	assert_non_null(strstr(f.text, "flow 0, src_ns: there is no namespace"));
	drop(&t, &b);
}

static void refuses_numbers_in_lists(void **state)
{
	const uint32_t wild_gates[] = { FLOW_MAX }, wild_rows[] = { 0, 65536 };
	struct flow_table t;
	struct fault f;

	(void)state;
	for (int which = 0; which < 2; which++) {
		struct bytes b = { 0 };

		add_table(&b, FLOW_NETNS_MAGIC, FLOW_VERSION, sizeof(netns[0]), NULL, 0);
		add_table(&b, FLOW_MAGIC, FLOW_SPEC_VERSION, sizeof(good[0]), NULL, 0);
		add_table(&b, FLOW_OPENS_MAGIC, FLOW_VERSION, sizeof(uint32_t), which ? gates : wild_gates,
			  1);
		add_table(&b, FLOW_ROWS_MAGIC, FLOW_VERSION, sizeof(uint32_t), wild_rows, 2);
		t = (struct flow_table){ .file = file_of(b) };
		assert_int_equal(flow_table_take(&t, &f), -EINVAL);
		assert_non_null(strstr(f.text, which ? "row of a path 1, number: 65536 is not from 0 to 65535"
						     : "gate that opens 0, number: 1048576"));
		drop(&t, &b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_flows_and_gates),    cmocka_unit_test(takes_no_flows),
		cmocka_unit_test(refuses_mistakes),         cmocka_unit_test(refuses_cross_references),
		cmocka_unit_test(refuses_numbers_in_lists),
	};

	return cmocka_run_group_tests_name("flow_table", tests, NULL, NULL);
}
