// SPDX-License-Identifier: Apache-2.0
/* The actuators file: what is read, what each mistake is told, and how values become the kernel's numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>

#include "actuators.h"
#include "actuators_file.h"

/* A copy of the good file, for a test to spoil. */
static struct actuators_file good(void)
{
	struct actuators_file made = good_actuators;

	return made;
}

static int take(const struct actuators_file *made, bool control, struct actuators *actuators, struct bytes *b,
		struct fault *f)
{
	*b = actuators_bytes(made);
	*actuators = (struct actuators){ .file = file_of(*b) };
	return actuators_take(actuators, &some_ports, control, f);
}

static void reads_actuators(void **state)
{
	struct actuators_file made = good();
	struct actuators a;
	struct sockaddr_in at;
	struct bytes b;
	struct fault f;

	(void)state;
	made.row[0].control_addr = htonl(0xac100001);
	assert_int_equal(take(&made, false, &a, &b, &f), 0);
	assert_int_equal(a.n, N_ROWS);
	assert_int_equal(a.n_fields, N_FIELDS);
	assert_int_equal(a.n_bytes, 2 * REQUEST_LEN);
	assert_ptr_equal(a.ports, &some_ports);
	assert_string_equal(a.row[0].actuator, "rate");
	assert_string_equal(a.row[1].qdisc, "red");
	assert_int_equal(a.row[1].high[2], 1000000);
	assert_int_equal(a.field[10].multiplier, UINT64_C(1) << 32);
	assert_memory_equal(a.bytes + a.row[1].request_start, made.bytes + REQUEST_LEN, REQUEST_LEN);
	assert_string_equal(actuators_port(&a, 0), "h1-eth0");
	assert_string_equal(actuators_port(&a, 1), "s1-eth1");
	at = actuators_address(&a, 0);
	assert_int_equal(at.sin_family, AF_INET);
	assert_int_equal(ntohs(at.sin_port), 20130);
	assert_string_equal(inet_ntoa(at.sin_addr), "172.16.0.1");
	free(b.at);
}

/* Rows of one port may come in any order, and one request may serve several rows. */
static void takes_rows_in_any_order(void **state)
{
	struct actuators_file made = good();
	struct actuators a;
	struct bytes b;
	struct fault f;

	(void)state;
	made.row[1] = made.row[0];
	made.row[1].row = 2;
	assert_int_equal(take(&made, true, &a, &b, &f), 0);
	assert_string_equal(actuators_port(&a, 1), "h2-eth0");
	free(b.at);
}

/* A flow's row needs neither fields nor a request, and its number is none of a port. */
static void takes_rows_of_flows(void **state)
{
	struct actuators_file made = good();
	struct actuators a;
	struct bytes b;
	struct fault f;

	(void)state;
	made.n_fields = made.n_bytes = 0;
	for (uint32_t i = 0; i < N_ROWS; i++)
		made.row[i] = (struct actuator_row){ .actuator = "cwnd",
						     .qdisc = OF_FLOW,
						     .low = { 1 },
						     .high = { 100 },
						     .start = { 10 },
						     .row = 1000 + i,
						     .n_values = 1 };
	assert_int_equal(take(&made, false, &a, &b, &f), 0);
	assert_true(actuator_of_flow(&a.row[1]));
	free(b.at);
	assert_int_equal(take(&made, true, &a, &b, &f), -EINVAL);
	assert_non_null(strstr(f.text, "no control packets"));
	free(b.at);
}

/* ---- mistakes ---- */

static void refuse(const struct actuators_file *made, bool control, const char *words)
{
	struct actuators a;
	struct bytes b;
	struct fault f;

	assert_int_equal(take(made, control, &a, &b, &f), -EINVAL);
	if (!strstr(f.text, words))
		fail_msg("'%s' does not say '%s'", f.text, words);
	free(b.at);
}

#define REFUSE(change, words)                                                                                \
	do {                                                                                                 \
		struct actuators_file made = good();                                                         \
		struct actuator_row *r = &made.row[1];                                                       \
		struct actuator_field *field = made.field;                                                   \
                                                                                                             \
		(void)r, (void)field;                                                                        \
		change;                                                                                      \
		refuse(&made, false, words);                                                                 \
	} while (0)

static void refuses_rows(void **state)
{
	(void)state;
	REFUSE(r->actuator[0] = 0, "actuator row 1, actuator: empty, or with blanks");
	REFUSE(strcpy(r->actuator, "a b"), "actuator row 1, actuator: empty, or with blanks");
	REFUSE(memset(r->actuator, 'x', SM_ACTUATOR_LEN), "actuator: no end within its 16 bytes");
	REFUSE(r->qdisc[0] = 0, "actuator row 1, qdisc: empty");
	REFUSE(memset(r->qdisc, 'x', QDISC_NAME_LEN), "qdisc: no end within its 16 bytes");
	REFUSE(r->row = 3, "actuator row 1, row: 3 is not from 0 to 2, the rows of the ports file");
	REFUSE(r->row = UINT32_MAX, "row: 4294967295 is not from 0 to 2");
	REFUSE(r->n_values = 0, "actuator row 1, n_values: 0 is not from 1 to 4");
	REFUSE(r->n_values = 5, "actuator row 1, n_values: 5 is not from 1 to 4");
	REFUSE(r->low[1] = 400001, "actuator row 1, low: 400001 is not from 0 to 400000");
	REFUSE(r->start[2] = 9999, "actuator row 1, start: 9999 is not from 10000 to 1000000");
	REFUSE(r->start[0] = 400001, "actuator row 1, start: 400001 is not from 1514 to 400000");
	REFUSE(made.n_rows = 0, "table 'actuator row': 0 records; give 1 to 524288");
}

static void refuses_fields(void **state)
{
	(void)state;
	REFUSE(r->n_writes = 0, "actuator row 1, writes: 0 from 4 on are not among the 12 fields");
	REFUSE(r->n_writes = 9, "actuator row 1, writes: 9 from 4 on are not among the 12 fields");
	REFUSE(r->n_writes = UINT32_MAX, "writes: 4294967295 from 4 on");
	REFUSE(r->writes_start = 13, "actuator row 1, writes: 3 from 13 on");
	REFUSE(r->writes_start = UINT32_MAX, "writes: 3 from 4294967295 on");
	REFUSE(r->n_reads = 0, "actuator row 1, reads: 0 from 8 on are not among the 12 fields");
	REFUSE(r->n_reads = 5, "actuator row 1, reads: 5 from 8 on");
	REFUSE(r->reads_start = 10, "actuator row 1, reads: 3 from 10 on");
	REFUSE(field[5].width = 0, "actuator row 1, writes: field 5 is damaged");
	REFUSE(field[5].width = 3, "writes: field 5 is damaged");
	REFUSE(field[5].width = 16, "writes: field 5 is damaged");
	REFUSE(field[6].multiplier = 0, "writes: field 6 is damaged");
	REFUSE(field[6].divisor = 0, "writes: field 6 is damaged");
	REFUSE(field[4].value = 3, "writes: field 4 is damaged");
	REFUSE(field[4].value = UINT16_MAX, "writes: field 4 is damaged");
	REFUSE(field[9].width = 5, "actuator row 1, reads: field 9 is damaged");
	REFUSE(field[9].value = 3, "reads: field 9 is damaged");
	REFUSE(made.n_fields = 0, "writes: 2 from 0 on are not among the 0 fields");
}

/* A value must not be written outside of its own request, nor over the heads that the program fills in. */
static void refuses_requests(void **state)
{
	struct nlmsghdr shorter = { .nlmsg_len = REQUEST_LEN - 4, .nlmsg_type = RTM_NEWQDISC };
	struct nlmsghdr other = { .nlmsg_len = REQUEST_LEN, .nlmsg_type = RTM_DELQDISC };

	(void)state;
	REFUSE(r->request_start = 4 * REQUEST_LEN,
	       "actuator row 1, request: 96 bytes from 384 on are no request in 192 bytes");
	REFUSE(r->request_start = UINT32_MAX, "96 bytes from 4294967295 on are no request");
	REFUSE(r->request_len = REQUEST_LEN + 4, "100 bytes from 96 on are no request");
	REFUSE(r->request_len = UINT32_MAX & ~3U, "4294967292 bytes from 96 on are no request");
	REFUSE(r->request_len = 0, "0 bytes from 96 on are no request");
	REFUSE(r->request_len = REQUEST_HEADS - 4, "32 bytes from 96 on are no request");
	REFUSE(r->request_len = REQUEST_LEN - 2, "94 bytes from 96 on are no request");
	REFUSE(r->request_start = REQUEST_LEN - 4, "actuator row 1, request: it does not change a qdisc");
	REFUSE(memcpy(made.bytes + REQUEST_LEN, &shorter, sizeof(shorter)), "it does not change a qdisc");
	REFUSE(memcpy(made.bytes + REQUEST_LEN, &other, sizeof(other)), "it does not change a qdisc");
	REFUSE(field[5].offset = REQUEST_HEADS - 1,
	       "actuator row 1, writes: field 5 lies outside the request");
	REFUSE(field[5].offset = 0, "writes: field 5 lies outside the request");
	REFUSE(field[6].offset = REQUEST_LEN - 3, "writes: field 6 lies outside the request");
	REFUSE(field[6].offset = UINT16_MAX, "writes: field 6 lies outside the request");
}

/* The largest request that there is room for is one; a longer one is none. */
static void bounds_the_length_of_a_request(void **state)
{
	static unsigned char large[ACTUATOR_MAX_SIZE + 8];
	struct actuators_file made = good();
	struct nlmsghdr head = { .nlmsg_len = ACTUATOR_MAX_SIZE, .nlmsg_type = RTM_NEWQDISC };
	struct actuators a;
	struct bytes b;
	struct fault f;

	(void)state;
	made.n_rows = 1;
	made.request = large;
	made.n_bytes = sizeof(large);
	made.row[0].request_len = ACTUATOR_MAX_SIZE;
	memcpy(large, &head, sizeof(head));
	assert_int_equal(take(&made, false, &a, &b, &f), 0);
	free(b.at);
	made.row[0].request_len = head.nlmsg_len = ACTUATOR_MAX_SIZE + 4;
	memcpy(large, &head, sizeof(head));
	refuse(&made, false, "4100 bytes from 0 on are no request in 4104 bytes");
}

/* A control packet carries one value, to an agent that listens at a port. */
static void refuses_what_no_packet_can_carry(void **state)
{
	struct actuators_file made = good();

	(void)state;
	made.row[1].control_port = 20131;
	refuse(&made, true, "actuator row 1, n_values: 3, but a control packet has room for one");
	made = good();
	made.row[0].control_port = 0;
	refuse(&made, true, "actuator row 0, control_port: 0 is not from 1 to 65535");
}

static void refuses_tables(void **state)
{
	struct actuators_file made = good();
	struct bytes whole = actuators_bytes(&made), b = whole;
	struct actuators a;
	struct fault f;

	(void)state;
	b.len -= 8;
	a = (struct actuators){ .file = file_of(b) };
	assert_int_equal(actuators_take(&a, &some_ports, false, &f), -EINVAL);
	assert_non_null(strstr(f.text, "table 'byte': cut off; write it again"));
	b.len = whole.len - 2 * REQUEST_LEN - sizeof(struct record_header);
	a = (struct actuators){ .file = file_of(b) };
	assert_int_equal(actuators_take(&a, &some_ports, false, &f), -EINVAL);
	assert_non_null(strstr(f.text, "table 'byte': the file ends before it"));
	add_table(&whole, REQUEST_MAGIC, ACTUATOR_VERSION, 1, made.bytes, 8);
	a = (struct actuators){ .file = file_of(whole) };
	assert_int_equal(actuators_take(&a, &some_ports, false, &f), -EINVAL);
	assert_non_null(strstr(f.text, "32 bytes behind its tables"));
	free(whole.at);
}

/* ---- numbers ---- */

/* The kernel counts whole bytes a second: what it gets is rounded down, what it says is what it does. */
static void counts_rates_in_bytes(void **state)
{
	const struct actuator_field narrow = { .multiplier = 1, .divisor = 8, .width = 4 };
	const struct actuator_field wide = { .multiplier = 1, .divisor = 8, .width = 8 };

	(void)state;
	assert_int_equal(actuator_field_raw(&narrow, 0), 0);
	assert_int_equal(actuator_field_raw(&narrow, 7), 0);
	assert_int_equal(actuator_field_raw(&narrow, 8), 1);
	assert_int_equal(actuator_field_raw(&narrow, 10000007), 1250000);
	assert_int_equal(actuator_field_value(&narrow, 1250000), 10000000);
	assert_int_equal(actuator_field_value(&wide, 12500000000), 100000000000);
}

/* A value too large for its width becomes the largest that fits. */
static void saturates_at_the_width(void **state)
{
	struct actuator_field field = { .multiplier = 1, .divisor = 8, .width = 4 };

	(void)state;
	assert_int_equal(actuator_field_raw(&field, 8 * (uint64_t)UINT32_MAX), UINT32_MAX);
	assert_int_equal(actuator_field_raw(&field, 8 * (uint64_t)UINT32_MAX + 8), UINT32_MAX);
	assert_int_equal(actuator_field_raw(&field, UINT64_MAX), UINT32_MAX);
	field = (struct actuator_field){ .multiplier = 1, .divisor = 1, .width = 1 };
	assert_int_equal(actuator_field_raw(&field, 255), 255);
	assert_int_equal(actuator_field_raw(&field, 256), 255);
	field.width = 2;
	assert_int_equal(actuator_field_raw(&field, 65536), 65535);
	field.width = 8;
	assert_int_equal(actuator_field_raw(&field, UINT64_MAX), UINT64_MAX);
	field.multiplier = 3;
	assert_int_equal(actuator_field_raw(&field, UINT64_MAX / 2), UINT64_MAX);
	field = (struct actuator_field){ .multiplier = UINT64_MAX, .divisor = UINT64_MAX, .width = 8 };
	assert_int_equal(actuator_field_raw(&field, UINT64_MAX), UINT64_MAX);
	assert_int_equal(actuator_field_value(&field, UINT64_MAX), UINT64_MAX);
	field = (struct actuator_field){ .multiplier = 1, .divisor = UINT64_MAX, .width = 8 };
	assert_int_equal(actuator_field_value(&field, 1), UINT64_MAX);
	assert_int_equal(actuator_field_value(&field, 2), UINT64_MAX);
}

/* RED's probability is a share of 2^32: every number of millionths comes back as it was. */
static void every_probability_comes_back(void **state)
{
	const struct actuator_field pmax = { .multiplier = UINT64_C(1) << 32,
					     .divisor = 1000000,
					     .width = 4 };
	uint64_t before = 0;

	(void)state;
	assert_int_equal(actuator_field_raw(&pmax, 0), 0);
	assert_int_equal(actuator_field_raw(&pmax, 1), 4294);
	assert_int_equal(actuator_field_raw(&pmax, 500000), UINT64_C(1) << 31);
	assert_int_equal(actuator_field_raw(&pmax, 1000000), UINT32_MAX);
	for (uint64_t ppm = 0; ppm <= 1000000; ppm++) {
		uint64_t raw = actuator_field_raw(&pmax, ppm);

		if (actuator_field_value(&pmax, raw) != ppm || (ppm && raw <= before))
			fail_msg("%lu ppm are %lu of 2^32", (unsigned long)ppm, (unsigned long)raw);
		before = raw;
	}
}

/* The widest field counts: the kernel takes a rate from the 64 bits, whatever the 32 bits say. */
static void tells_what_can_be_enforced(void **state)
{
	struct actuators_file made = good();
	struct actuators a;
	struct bytes b;
	struct fault f;

	(void)state;
	assert_int_equal(take(&made, false, &a, &b, &f), 0);
	assert_int_equal(actuators_enforceable(&a, 0, 0, 10000000), 10000000);
	assert_int_equal(actuators_enforceable(&a, 0, 0, 10000007), 10000000);
	assert_int_equal(actuators_enforceable(&a, 0, 0, 400000000001), 400000000000);
	assert_int_equal(actuators_enforceable(&a, 1, 0, 30001), 30001);
	assert_int_equal(actuators_enforceable(&a, 1, 1, (uint64_t)UINT32_MAX + 1), UINT32_MAX);
	assert_int_equal(actuators_enforceable(&a, 1, 2, 123457), 123457);
	assert_int_equal(actuators_enforceable(&a, 1, 3, 77), 77); /* which no field has */
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_actuators),
		cmocka_unit_test(takes_rows_in_any_order),
		cmocka_unit_test(takes_rows_of_flows),
		cmocka_unit_test(refuses_rows),
		cmocka_unit_test(refuses_fields),
		cmocka_unit_test(refuses_requests),
		cmocka_unit_test(bounds_the_length_of_a_request),
		cmocka_unit_test(refuses_what_no_packet_can_carry),
		cmocka_unit_test(refuses_tables),
		cmocka_unit_test(counts_rates_in_bytes),
		cmocka_unit_test(saturates_at_the_width),
		cmocka_unit_test(every_probability_comes_back),
		cmocka_unit_test(tells_what_can_be_enforced),
	};

	return cmocka_run_group_tests_name("actuators", tests, NULL, NULL);
}
