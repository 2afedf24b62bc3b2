/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of tgen's list of flows: what it takes, and every way of refusing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_csv.h"

#define HEADER FLOW_CSV_HEADER "\n"
#define ROW0   "0,tcp,/run/netns/h1,/run/netns/h2,10.0.0.1,10.0.0.2,1000,5001,dctcp,,,0,0,0,0,0,exact,0;3\n"

static int parse(const char *text, struct flow_table *table, struct flow_csv_error *error)
{
	/* An exact copy on the heap, so that the sanitizer sees a read past the end. */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	int rc;

	memcpy(copy, text, len);
	rc = flow_csv_parse(copy, len, table, error);
	free(copy);
	return rc;
}

static void takes_two_flows(void **state)
{
	struct flow_csv_error error;
	struct flow_table t;

	(void)state;
	assert_int_equal(parse(HEADER ROW0 "1,tcp,/run/netns/h3,/run/netns/"
					   "h2,10.0.0.3,10.0.0.2,1000,5001,dctcp,,,5,9,7,100,8,uniform,\n",
			       &t, &error),
			 0);
	assert_int_equal(t.flows, 2);
	assert_int_equal(t.namespaces, 3);
	assert_string_equal(t.ns[t.flow[1].dst_ns], "/run/netns/h2");
	assert_int_equal(t.flow[1].dst_ns, t.flow[0].dst_ns);
	assert_int_equal(t.flow[0].src_addr, inet_addr("10.0.0.1"));
	assert_int_equal(t.flow[0].src_port, 1000);
	assert_string_equal(t.flow[0].cc, "dctcp");
	assert_int_equal(t.flow[0].path_len, 2);
	assert_int_equal(t.rows[t.flow[0].path_start + 1], 3);
	assert_int_equal(t.flow[1].listener, 0);
	assert_int_equal(t.flow[1].start_ns, 5);
	assert_int_equal(t.flow[1].stop_ns, 9);
	assert_int_equal(t.flow[1].length_ns, 7);
	assert_int_equal(t.flow[1].gaps, GAPS_UNIFORM);
	assert_int_equal(t.flow[1].gate, FLOW_NO_GATE);
	assert_int_equal(t.flow[1].size_bytes, 100);
	assert_int_equal(t.flow[1].rate_bps, 8);
	assert_int_equal(t.flow[1].path_len, 0);
	flow_table_free(&t);
}

static void takes_gates(void **state)
{
	struct flow_csv_error error;
	struct flow_table t;

	(void)state;
	assert_int_equal(parse(HEADER
			       "0,udp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,0;2,0,0,0,0,9,exponential,\n"
			       "1,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,2,0,5,3,0,1,0,exact,\n"
			       "2,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,2,2,cubic,0,,0,0,0,1,0,exact,\n",
			       &t, &error),
			 0);
	assert_int_equal(t.gates, 3);
	assert_int_equal(t.needs[0], 2);
	assert_int_equal(t.needs[1], 0);
	assert_int_equal(t.needs[2], 1);
	assert_int_equal(t.flow[0].opens_len, 2);
	assert_int_equal(t.opens[t.flow[0].opens_start + 1], 2);
	assert_int_equal(t.flow[1].gate, 2);
	assert_int_equal(t.flow[1].listener, 1); /* tcp and udp listen apart */
	assert_int_equal(t.flow[2].listener, 1);
	flow_table_free(&t);
}

static void takes_no_flows(void **state)
{
	struct flow_csv_error error;
	struct flow_table t;

	(void)state;
	assert_int_equal(parse(HEADER, &t, &error), 0);
	assert_int_equal(t.flows, 0);
	flow_table_free(&t);
}

struct refusal {
	const char *text;
	size_t line;
	const char *column, *value, *why;
};

#define WITH(src, dst, sport, dport, cc, start, stop, size, rate, path)                                      \
	HEADER "0,tcp,/n/a,/n/b," src "," dst "," sport "," dport "," cc ",,," start "," stop ",0," size     \
	       "," rate ",exact," path "\n"

static const struct refusal refusals[] = {
	{ "", 1, "", "", "empty" },
	{ "flow,src\n", 1, "", "flow,src", "not the header" },
	{ FLOW_CSV_HEADER "\r\n", 1, "", NULL, "CR LF" },
	{ HEADER "\n", 2, "", "", "1 cells instead of 18" },
	{ HEADER "0,1,2\n", 2, "", "0,1,2", "3 cells instead of 18" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,,\n", 2, "", NULL, "19 cells" },
	{ HEADER "0,tcp", 2, "", "0,tcp", "no newline" },
	{ HEADER "1,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,\n", 2, "flow", "1",
	  "next number" },
	{ HEADER ROW0 ROW0, 3, "flow", "0", "next number" },
	{ HEADER "0,tcp,h1,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,\n", 2, "src_ns", "h1",
	  "path of a network namespace" },
	{ HEADER "0,tcp,/n/a,,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,\n", 2, "dst_ns", "",
	  "path of a network namespace" },
	{ WITH("1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", "0", ""), 2, "src_addr", "1.1.1",
	  "IPv4" },
	{ WITH("1.1.1.1", "224.0.0.1", "1", "2", "cubic", "0", "0", "0", "0", ""), 2, "dst_addr", "224.0.0.1",
	  "host" },
	{ WITH("1.1.1.1", "::1", "1", "2", "cubic", "0", "0", "0", "0", ""), 2, "dst_addr", "::1", "IPv4" },
	{ WITH("1.1.1.1", "1.1.1.2", "0", "2", "cubic", "0", "0", "0", "0", ""), 2, "src_port", "0",
	  "from 1 to 65535" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "65536", "cubic", "0", "0", "0", "0", ""), 2, "dst_port", "65536",
	  "65535" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "", "0", "0", "0", "0", ""), 2, "cc", "",
	  "congestion control" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "sixteencharacter", "0", "0", "0", "0", ""), 2, "cc", NULL,
	  "congestion" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cu bic", "0", "0", "0", "0", ""), 2, "cc", "cu bic",
	  "congestion" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "-1", "0", "0", "0", ""), 2, "start_ns", "-1",
	  "not an integer" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "1e3", "0", "0", "0", ""), 2, "start_ns", "1e3",
	  "not an integer" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "5", "5", "0", "0", ""), 2, "stop_ns", "5",
	  "not after" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "01", "0", ""), 2, "size_bytes", "01",
	  "integer" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", "99999999999999999999", ""), 2,
	  "rate_bps", NULL, "integer" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", " 1", ""), 2, "rate_bps", " 1",
	  "integer" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", "0", "1;"), 2, "path", "", "number" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", "0", "65536"), 2, "path", "65536",
	  "number from 0 to 65535" },
	{ WITH("1.1.1.1", "1.1.1.2", "1", "2", "cubic", "0", "0", "0", "0", "1;2;1"), 2, "path", "1",
	  "twice" },
	{ HEADER "0,sctp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,\n", 2, "transport", "sctp",
	  "transport" },
	{ HEADER "0,udp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,exact,\n", 2, "rate_bps", "0",
	  "udp needs" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,,0,0,0,0,0,poisson,\n", 2, "gaps", "poisson",
	  "pattern" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,0,1,0,0,0,0,0,exact,\n", 2, "gate", "0",
	  "no flow opens" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,7,1,0,0,0,0,0,exact,\n", 2, "gate", "7",
	  "no flow opens" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,1048576,,0,0,0,0,0,exact,\n", 2, "gate",
	  "1048576", "1048575" },
	{ HEADER "0,tcp,/n/a,/n/b,1.1.1.1,1.1.1.2,1,2,cubic,,3;3,0,0,0,0,0,exact,\n", 2, "opens", "3",
	  "twice" },
	{ HEADER ROW0
	  "1,tcp,/run/netns/h1,/run/netns/h9,10.0.0.9,10.0.0.2,1000,5001,dctcp,,,0,0,0,0,0,exact,\n",
	  3, "src_port", "1000", "line 2 has the same src_ns" },
	{ HEADER ROW0
	  "1,tcp,/run/netns/h9,/run/netns/h2,10.0.0.1,10.0.0.2,1000,5001,dctcp,,,0,0,0,0,0,exact,\n",
	  3, "src_addr", "10.0.0.1", "line 2 has the same source" },
	{ HEADER ROW0
	  "1,tcp,/run/netns/h1,/run/netns/h2,10.0.0.1,10.0.0.2,1001,5001,reno,,,0,0,0,0,0,exact,\n",
	  3, "cc", "reno", "with another cc" },
};

static void names_what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *r = &refusals[i];
		struct flow_csv_error error;
		struct flow_table t;

		assert_int_equal(parse(r->text, &t, &error), -EINVAL);
		assert_int_equal(error.line, r->line);
		assert_string_equal(error.column, r->column);
		if (r->value)
			assert_string_equal(error.value, r->value);
		assert_non_null(strstr(error.why, r->why));
		assert_true(strlen(error.remedy) > 0);
		assert_null(t.flow);
	}
}

static void refuses_nul_and_long_lines(void **state)
{
	static char text[sizeof(HEADER) + FLOW_LINE_MAX + 2];
	struct flow_csv_error error;
	struct flow_table t;
	size_t len = sizeof(HEADER) - 1;

	(void)state;
	memcpy(text, HEADER, len);
	memcpy(text + len, "a\0b\n", 4);
	assert_int_equal(flow_csv_parse(text, len + 4, &t, &error), -EINVAL);
	assert_string_equal(error.value, "a?b");
	assert_non_null(strstr(error.why, "NUL"));
	memset(text + len, 'x', FLOW_LINE_MAX + 1);
	text[len + FLOW_LINE_MAX + 1] = '\n';
	assert_int_equal(flow_csv_parse(text, sizeof(text) - 1, &t, &error), -EINVAL);
	assert_non_null(strstr(error.why, "8192"));
	assert_string_equal(error.value + strlen(error.value) - 3, "...");
}

static void scales(void **state)
{
	enum { FLOWS = 20000 };
	size_t room = (size_t)FLOWS * 128 + sizeof(HEADER), len;
	char *text = malloc(room);
	struct flow_csv_error error;
	struct flow_table t;

	(void)state;
	len = (size_t)sprintf(text, HEADER);
	for (unsigned i = 0; i < FLOWS; i++)
		len += (size_t)snprintf(
			text + len, room - len,
			"%u,tcp,/n/h%u,/n/r,10.0.%u.%u,10.9.0.1,%u,5001,cubic,%u,%u,0,0,0,1,0,exact,%u\n", i,
			i % 500, i % 500 / 250, 1 + i % 250, 1000 + i / 500, i, i, i % 64);
	assert_int_equal(flow_csv_parse(text, len, &t, &error), 0);
	assert_int_equal(t.flows, FLOWS);
	assert_int_equal(t.namespaces, 501);
	flow_table_free(&t);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_two_flows),
		cmocka_unit_test(takes_gates),
		cmocka_unit_test(takes_no_flows),
		cmocka_unit_test(names_what_is_wrong),
		cmocka_unit_test(refuses_nul_and_long_lines),
		cmocka_unit_test(scales),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
