/* SPDX-License-Identifier: Apache-2.0 */
/* Flows over RDMA on tables that lie in memory, beside a NIC that is played by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tgen_flow.h"
#include "tgen_pairs.h"
#include "tgen_publish.h"
#include "tgen_rdma.h"
#include "tgen_run.h"

#define FLOWS   3
#define PAYLOAD 1440u
#define MESSAGE 64000u
#define T0      1000000
#define LINE    UINT64_C(1000000000)

/* --- the loop and the NIC, played --------------------------------------------------------------------- */

static struct nic_sender senders[FLOWS];
static struct nic_receiver receivers[FLOWS];
static struct nic_port ports[2];
static int sockets[2] = { -1, -1 };
static struct flow_spec specs[FLOWS];
static struct flow flows[FLOWS];
static struct run run;
static uint64_t draining[1];
static const int64_t now = T0 + 500;
static uint32_t rings, ends, failures, heard;
static enum tgen_status last_status;
static int64_t last_end;
static uint64_t delivered; /* bytes of a job's connection */
static int ring_error, last_error;

struct nic_sender *nic_sender(const struct nic_tables *nics, uint32_t flow)
{
	return (struct nic_sender *)nics->senders.rows + flow;
}

const struct nic_receiver *nic_receiver(const struct nic_tables *nics, uint32_t flow)
{
	return (const struct nic_receiver *)nics->receivers.rows + flow;
}

const struct nic_port *nic_port(const struct nic_tables *nics, uint32_t nic)
{
	return (const struct nic_port *)nics->ports.rows + nic;
}

int nic_tables_open(struct nic_tables *nics, struct nic_ids ids, const char **step)
{
	*step = "the table of senders";
	if (ids.senders != 7)
		return -ENOENT;
	nics->senders = (struct nic_table){ senders, sizeof(senders), FLOWS };
	nics->receivers = (struct nic_table){ receivers, sizeof(receivers), FLOWS };
	nics->ports = (struct nic_table){ ports, sizeof(ports), 2 };
	nics->sockets = sockets;
	return 0;
}

int nic_listen(struct nic_tables *nics, uint32_t nic, const char **step)
{
	*step = "bind to the NIC's ring";
	nics->sockets[nic] = 100 + (int)nic;
	return 0;
}

int nic_ring(const struct nic_tables *nics, uint32_t flow)
{
	assert_true(flow < nics->senders.count);
	if (ring_error)
		return ring_error;
	rings++;
	return 0;
}

void nic_ring_each(const struct nic_tables *nics, uint32_t flow)
{
	(void)nics, (void)flow;
}

int nic_heard(const struct nic_tables *nics, uint32_t nic, uint32_t *flow)
{
	(void)nics, (void)nic;
	*flow = heard;
	return heard == UINT32_MAX ? -EBADMSG : 0;
}

int run_watch(struct run *r, int fd, uint32_t events, enum watch kind, uint32_t number)
{
	(void)r, (void)events;
	assert_int_equal(kind, WATCH_BELL);
	assert_int_equal(fd, 100 + (int)number);
	return 0;
}

int run_fault(struct run *r, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->fault, sizeof(r->fault), format, args);
	va_end(args);
	return rc;
}

int run_enter(struct run *r, uint32_t ns)
{
	(void)r, (void)ns;
	return 0;
}

bool job_arrived(struct job *job, struct messages *messages, uint64_t received, int64_t at)
{
	(void)job, (void)messages;
	delivered = received;
	last_end = at;
	return false;
}

int flow_end(struct run *r, uint32_t number, enum tgen_status status, int64_t at)
{
	r->flows.flow[number].phase = PHASE_ENDED;
	r->flows.flow[number].status = status;
	last_status = status;
	last_end = at;
	ends++;
	return 0;
}

int flow_fail(struct run *r, uint32_t number, int error, const char *failed)
{
	(void)failed;
	last_error = error;
	failures++;
	return flow_end(r, number, TGEN_FAILED, now);
}

void publish_sample(const struct run *r, uint32_t number, const struct tgen_sample_record *sample)
{
	(void)r, (void)number, (void)sample;
}

/* Flow 0: 100 kB at once. Flow 1: no end. Flow 2: 5000 bytes at 11.52 Mbit/s, a packet a millisecond. */
static int setup(void **state)
{
	static const struct run_config config = { .t0_ns = T0,
						  .duration_ns = 1000000000,
						  .nic = { 7, 8, 9 } };
	static const struct flow_table table = { .flow = specs, .flows = FLOWS };

	(void)state;
	memset(senders, 0, sizeof(senders));
	memset(receivers, 0, sizeof(receivers));
	memset(flows, 0, sizeof(flows));
	specs[0] = (struct flow_spec){ .transport = FLOW_RDMA, .packet_bytes = 1440, .size_bytes = 100000 };
	specs[1] = (struct flow_spec){ .transport = FLOW_RDMA, .packet_bytes = 1440 };
	specs[2] = (struct flow_spec){
		.transport = FLOW_RDMA, .packet_bytes = 1440, .size_bytes = 5000, .rate_bps = 11520000
	};
	for (uint32_t i = 0; i < FLOWS; i++) {
		uint64_t size = specs[i].size_bytes;

		flows[i] = (struct flow){ .spec = &specs[i], .sender = -1, .receiver = -1 };
		senders[i] = (struct nic_sender){ .payload_bytes = PAYLOAD,
						  .message_bytes = size ? size : MESSAGE,
						  .total_bytes = size ? size : UINT64_MAX,
						  .flow = { .packet_bytes = 1514 },
						  .rate = CC_LINE_RATE / 4 };
		receivers[i] = (struct nic_receiver){ .port = 1,
						      .payload_bytes = PAYLOAD,
						      .message_bytes = senders[i].message_bytes,
						      .total_bytes = senders[i].total_bytes };
	}
	ports[0] = ports[1] = (struct nic_port){ .line_bps = LINE };
	sockets[0] = sockets[1] = -1;
	run = (struct run){ .config = &config,
			    .table = &table,
			    .flows = { flows, FLOWS, .draining = draining } };
	draining[0] = 0;
	rings = ends = failures = 0;
	ring_error = 0;
	run.clock.now = now;
	assert_int_equal(timers_init(&run.timers, 8), 0);
	return rdma_open(&run);
}

static int teardown(void **state)
{
	(void)state;
	timers_free(&run.timers);
	return 0;
}

/* --- packets and bytes ---------------------------------------------------------------------------------- */

static void packets_hold_whole_bytes(void **state)
{
	(void)state;
	/* 64,000 bytes are 44 full packets and one of 640. */
	assert_int_equal(rdma_bytes(44, PAYLOAD, MESSAGE, UINT64_MAX), 63360);
	assert_int_equal(rdma_bytes(45, PAYLOAD, MESSAGE, UINT64_MAX), 64000);
	assert_int_equal(rdma_bytes(46, PAYLOAD, MESSAGE, UINT64_MAX), 65440);
	assert_int_equal(rdma_bytes(91, PAYLOAD, MESSAGE, 128500), 128500);
	assert_int_equal(rdma_packets(0, PAYLOAD, MESSAGE, 128500), 0);
	assert_int_equal(rdma_packets(63999, PAYLOAD, MESSAGE, 128500), 44);
	assert_int_equal(rdma_packets(64000, PAYLOAD, MESSAGE, 128500), 45);
	assert_int_equal(rdma_packets(128499, PAYLOAD, MESSAGE, 128500), 90);
	assert_int_equal(rdma_packets(128500, PAYLOAD, MESSAGE, 128500), 91);
	assert_int_equal(rdma_packets(1, PAYLOAD, 1, 1), 1);
	assert_int_equal(rdma_packets(UINT64_MAX, PAYLOAD, MESSAGE, UINT64_MAX), UINT64_MAX);
}

/* For any size, the packets that hold all of it hold no more, and one fewer holds less. */
static void all_packets_are_all_bytes(void **state)
{
	(void)state;
	for (uint64_t total = 1; total < 300000; total += 997)
		for (uint64_t message = 1; message <= total; message = message * 3 + 1) {
			uint64_t packets = rdma_packets(total, PAYLOAD, message, total);

			assert_int_equal(rdma_bytes(packets, PAYLOAD, message, total), total);
			assert_true(rdma_bytes(packets - 1, PAYLOAD, message, total) < total);
		}
}

/* --- flows ---------------------------------------------------------------------------------------------- */

static void a_flow_is_posted_at_once_and_ends_by_the_bell(void **state)
{
	(void)state;
	assert_int_equal(rdma_start(&run, 0), 0);
	assert_int_equal(senders[0].end, 70);
	assert_int_equal(rings, 1);
	assert_int_equal(flows[0].start_ns, T0 + 500);
	heard = 0;
	receivers[0].expected = 69;
	assert_int_equal(rdma_on_bell(&run, 1), 0);
	assert_int_equal(ends, 0);
	assert_int_equal(flows[0].received, 69 * PAYLOAD);
	receivers[0].expected = 70;
	receivers[0].last_ns = T0 + 900;
	assert_int_equal(rdma_on_bell(&run, 1), 0);
	assert_int_equal(rdma_on_bell(&run, 1), 0); /* a second one changes nothing */
	assert_int_equal(ends, 1);
	assert_int_equal(last_status, TGEN_DONE);
	assert_int_equal(last_end, T0 + 900);
	assert_int_equal(flows[0].received, 100000);
}

/* Nothing is posted until the job posts it; a connection begins when it is due, whatever the clock says. */
static void a_connection_posts_the_messages_of_a_job(void **state)
{
	(void)state;
	flows[0].messages.any = true;
	flows[0].due_ns = T0 + 400;
	assert_int_equal(rdma_start(&run, 0), 0);
	assert_int_equal(flows[0].start_ns, T0 + 400);
	assert_int_equal(rings, 0);
	flows[0].messages.posted = 10 * PAYLOAD;
	assert_int_equal(rdma_offer(&run, 0, T0 + 450), 0);
	assert_int_equal(senders[0].end, 10);
	assert_int_equal(rings, 1);
	heard = 0;
	receivers[0].expected = 10;
	receivers[0].last_ns = T0 + 900;
	assert_int_equal(rdma_on_bell(&run, 1), 0);
	assert_int_equal(delivered, 10 * PAYLOAD);
	assert_int_equal(last_end, T0 + 900);
	assert_int_equal(ends, 0);
}

static void what_is_no_bell_is_passed_over(void **state)
{
	(void)state;
	heard = UINT32_MAX;
	assert_int_equal(rdma_on_bell(&run, 0), 0);
	heard = FLOWS;
	assert_int_equal(rdma_on_bell(&run, 0), 0);
	heard = 0; /* it waits */
	receivers[0].expected = 70;
	assert_int_equal(rdma_on_bell(&run, 0), 0);
	assert_int_equal(ends, 0);
}

static void a_lost_bell_is_made_up_for_by_a_sample(void **state)
{
	(void)state;
	rdma_start(&run, 0);
	receivers[0].expected = 70;
	receivers[0].last_ns = T0 + 700;
	assert_int_equal(rdma_sampled(&run, 0), 0);
	assert_int_equal(ends, 1);
	assert_int_equal(last_end, T0 + 700);
}

static void a_broken_message_fails_its_flow(void **state)
{
	(void)state;
	rdma_start(&run, 0);
	receivers[0].expected = 70;
	receivers[0].broken_messages = 1;
	assert_int_equal(rdma_look(&run, 0), 0);
	assert_int_equal(failures, 1);
	assert_int_equal(last_error, -EBADMSG);
}

static void a_flow_without_an_end_is_stopped_after_what_it_sent(void **state)
{
	(void)state;
	rdma_start(&run, 1);
	assert_true(senders[1].end == UINT64_MAX);
	senders[1].high = 50, senders[1].next = 40, senders[1].acked = 30;
	flows[1].phase = PHASE_ENDED;
	draining[0] = 2;
	rdma_stop(&run, 1);
	assert_int_equal(senders[1].end, 50);
	assert_int_equal(rdma_sampled(&run, 1), 0);
	assert_int_equal(draining[0], 2);
	senders[1].acked = 50;
	assert_int_equal(rdma_sampled(&run, 1), 0);
	assert_int_equal(draining[0], 0);
	rdma_start(&run, 0);
	rdma_abort(&run);
	assert_int_equal(senders[0].end, 0);
}

/* The application produces a packet a millisecond; nothing new, no ring. */
static void an_application_with_a_rate_posts_what_it_has(void **state)
{
	int64_t start = now;

	(void)state;
	assert_int_equal(rdma_start(&run, 2), 0);
	assert_int_equal(rings, 0);
	assert_int_equal(run.timers.heap[0].at, start + 1000000);
	assert_int_equal(run.timers.heap[0].kind, TIMER_OFFER);
	rdma_offer(&run, 2, start + 1000000);
	assert_int_equal(senders[2].end, 1);
	assert_int_equal(rings, 1);
	rdma_offer(&run, 2, start + 1500000);
	assert_int_equal(senders[2].end, 1);
	assert_int_equal(rings, 1);
	rdma_offer(&run, 2, start + 3500000);
	assert_int_equal(senders[2].end, 4); /* the last one is not full */
	assert_int_equal(rings, 2);
	assert_int_equal(run.timers.count, 3);
}

static void a_ring_that_fails_fails_its_flow(void **state)
{
	(void)state;
	ring_error = -ENETDOWN;
	assert_int_equal(rdma_start(&run, 0), 0);
	assert_int_equal(failures, 1);
	assert_int_equal(last_error, -ENETDOWN);
}

/* --- counts --------------------------------------------------------------------------------------------- */

static void samples_show_what_the_nics_know(void **state)
{
	struct tgen_sample_record sample = { 0 };

	(void)state;
	rdma_start(&run, 0);
	senders[0].acked = 10, senders[0].high = 20, senders[0].resent_packets = 3;
	senders[0].rtt_ns = 12600, senders[0].least_rtt_ns = 300, senders[0].window_bytes = 15140;
	receivers[0].expected = 15;
	rdma_sample(&run, 0, &sample);
	assert_int_equal(sample.delivery_rate_bps, LINE / 4);
	assert_int_equal(sample.bytes_acked, 10 * PAYLOAD);
	assert_int_equal(sample.bytes_received, 15 * PAYLOAD);
	assert_int_equal(sample.srtt_us, 13);
	assert_int_equal(sample.min_rtt_us, 1); /* 0 would say that there is none */
	assert_int_equal(sample.cwnd_packets, 10);
	assert_int_equal(sample.notsent_bytes, 100000 - 20 * PAYLOAD);
	assert_int_equal(sample.retransmits, 3);
	rdma_start(&run, 1);
	rdma_sample(&run, 1, &sample);
	assert_true(sample.notsent_bytes == 0 && sample.srtt_us == 0);
}

static void the_record_has_both_ends(void **state)
{
	struct tgen_nic_record record;

	(void)state;
	senders[1].sent_packets = 1, senders[1].probe_bytes = 2, senders[1].decisions = 3;
	receivers[1].marked_packets = 4, receivers[1].messages = 5;
	rdma_record(&run, 1, &record);
	assert_true(record.flow == 1 && record.sent_packets == 1 && record.probe_bytes == 2);
	assert_true(record.decisions == 3 && record.marked_packets == 4 && record.messages == 5);
	assert_int_equal(record.rate_bps, LINE / 4);
}

static void the_end_of_a_run_takes_the_last_counts(void **state)
{
	(void)state;
	assert_int_equal(rdma_settle(&run, 0), 0);
	assert_int_equal(flows[0].sent, 0);
	rdma_start(&run, 0);
	senders[0].acked = 70, senders[0].resent_packets = 9;
	receivers[0].expected = 70;
	assert_int_equal(rdma_settle(&run, 0), 0);
	assert_int_equal(flows[0].sent, 100000);
	assert_int_equal(flows[0].received, 100000);
	assert_int_equal(flows[0].retransmits, 9);
	assert_int_equal(last_status, TGEN_DONE);
}

/* --- tables that do not fit ------------------------------------------------------------------------------
 */

static void tables_of_other_flows_are_refused(void **state)
{
	static const struct run_config none = { .t0_ns = T0 };
	static const struct run_config wrong = { .t0_ns = T0, .nic = { 1, 2, 3 } };

	(void)state;
	run.nics = (struct nic_tables){ 0 };
	run.config = &none;
	assert_int_equal(rdma_open(&run), -EINVAL);
	assert_non_null(strstr(run.fault, "--nic"));
	run.config = &wrong;
	assert_int_equal(rdma_open(&run), -ENOENT);
	assert_non_null(strstr(run.fault, "the table of senders"));
	run.config = &(const struct run_config){ .t0_ns = T0, .nic = { 7, 8, 9 } };
	senders[0].total_bytes = 5;
	assert_int_equal(rdma_open(&run), -EINVAL);
	assert_non_null(strstr(run.fault, "another list"));
	senders[0].total_bytes = 100000;
	senders[0].port = 2;
	assert_int_equal(rdma_open(&run), -EINVAL);
	assert_non_null(strstr(run.fault, "NIC 2 of 2"));
}

static void answers_have_ports_of_their_own(void **state)
{
	static const uint8_t udp[] = { 0x4e, 0x21, 0x12, 0xb7 };
	uint16_t src, dst;

	(void)state;
	memcpy(receivers[0].frame + 34, udp, sizeof(udp));
	rdma_answer_ports(&run, 0, &src, &dst);
	assert_int_equal(src, 20001);
	assert_int_equal(dst, NIC_UDP_PORT);
}

/* --- queue pairs that last ------------------------------------------------------------------------------ */

static void pass_on(bool keep)
{
	run.config = &(const struct run_config){
		.t0_ns = T0, .duration_ns = 1000000000, .nic = { 7, 8, 9 }, .keep_pairs = keep
	};
	specs[0].src_addr = specs[1].src_addr = 1;
	specs[0].dst_addr = specs[1].dst_addr = specs[2].src_addr = 2;
	if (keep)
		assert_int_equal(pairs_open(&run.pairs, run.table), 0);
	assert_int_equal(rdma_start(&run, 0), 0);
	senders[0].rate = 77;
	senders[0].state[3] = 5;
	senders[0].due_ns = 1234;
	senders[0].probe_sent_ns = 99;
	senders[0].next = 70;
	assert_int_equal(rdma_start(&run, 1), 0);
	assert_int_equal(rdma_start(&run, 2), 0);
	pairs_close(&run.pairs);
}

static void a_flow_takes_over_what_the_last_between_its_ends_left(void **state)
{
	(void)state;
	pass_on(true);
	assert_int_equal(senders[1].kept, 1);
	assert_int_equal(senders[1].rate, 77);
	assert_int_equal(senders[1].state[3], 5);
	assert_int_equal(senders[1].due_ns, 1234);
	assert_int_equal(senders[1].probe_wanted, 1);
	assert_int_equal(senders[1].next, 0); /* its packets are its own */
	assert_int_equal(senders[0].kept + senders[2].kept, 0);
	assert_int_equal(senders[2].rate, CC_LINE_RATE / 4);
}

static void a_flow_begins_afresh_unless_told_otherwise(void **state)
{
	(void)state;
	pass_on(false);
	assert_int_equal(senders[1].kept, 0);
	assert_int_equal(senders[1].rate, CC_LINE_RATE / 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_hold_whole_bytes),
		cmocka_unit_test(all_packets_are_all_bytes),
		TEST(a_flow_is_posted_at_once_and_ends_by_the_bell),
		TEST(a_connection_posts_the_messages_of_a_job),
		TEST(what_is_no_bell_is_passed_over),
		TEST(a_lost_bell_is_made_up_for_by_a_sample),
		TEST(a_broken_message_fails_its_flow),
		TEST(a_flow_without_an_end_is_stopped_after_what_it_sent),
		TEST(an_application_with_a_rate_posts_what_it_has),
		TEST(a_ring_that_fails_fails_its_flow),
		TEST(samples_show_what_the_nics_know),
		TEST(the_record_has_both_ends),
		TEST(the_end_of_a_run_takes_the_last_counts),
		TEST(tables_of_other_flows_are_refused),
		TEST(answers_have_ports_of_their_own),
		TEST(a_flow_takes_over_what_the_last_between_its_ends_left),
		TEST(a_flow_begins_afresh_unless_told_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
