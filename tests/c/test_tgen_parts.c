/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of tgen that need no network: timers, logs, frames, offered load, the state matrix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state_matrix.h"
#include "tgen_log.h"
#include "tgen_matrix.h"
#include "tgen_pace.h"
#include "tgen_publish.h"
#include "tgen_run.h"
#include "tgen_timers.h"
#include "tgen_warm.h"

/* --- timers ------------------------------------------------------------------------------------------ */

static void timers_come_in_order(void **state)
{
	enum { COUNT = 5000 };
	struct timer last = { .at = -1 };
	struct timers t;
	uint64_t random = 1;

	(void)state;
	assert_int_equal(timers_init(&t, COUNT), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		assert_int_equal(timers_add(&t, (struct timer){ (int64_t)(random >> 33) % 100,
								(random >> 40) % 5, i }),
				 0);
	}
	assert_int_equal(timers_add(&t, last), -ENOSPC);
	for (unsigned i = 0; i < COUNT; i++) {
		struct timer first = t.heap[0];

		assert_true(first.at > last.at || (first.at == last.at && first.kind > last.kind) ||
			    (first.at == last.at && first.kind == last.kind && first.flow > last.flow));
		last = first;
		timers_drop_first(&t);
	}
	assert_int_equal(t.count, 0);
	timers_free(&t);
}

/* --- an application with a rate ---------------------------------------------------------------------- */

static void offers_no_more_than_its_rate(void **state)
{
	static const uint64_t rates[] = { 1, 1000, 7777777, 10000000, 100000000, 1000000000, 40000000000 };

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		const struct flow_spec spec = { .rate_bps = rates[i],
						.size_bytes = 10000000,
						.packet_bytes = 1448 };
		uint64_t queued = 0;

		assert_int_equal(offered_bytes(&spec, 0), 0);
		while (queued < spec.size_bytes) {
			int64_t next = offered_next(&spec, queued);
			uint64_t more = offered_bytes(&spec, next);

			assert_true(more >
				    queued); /* each timer brings something, or the loop would never end */
			assert_true((unsigned __int128)more * 8 * 1000000000 <=
				    (unsigned __int128)rates[i] * (uint64_t)next);
			assert_true(offered_bytes(&spec, next - 1) <= queued);
			queued = more;
		}
		assert_int_equal(queued, spec.size_bytes);
	}
}

static void offers_everything_without_a_rate(void **state)
{
	const struct flow_spec sized = { .size_bytes = 7 }, endless = { 0 };

	(void)state;
	assert_int_equal(offered_bytes(&sized, 0), 7);
	assert_true(offered_bytes(&endless, 0) == UINT64_MAX);
}

/* Mean and shape of the gaps: uniform has a variance of mean^2 / 3, exponential of mean^2. */
static void gaps_have_their_distribution(void **state)
{
	enum { COUNT = 200000 };
	const struct flow_spec uniform = {
		.transport = FLOW_UDP, .packet_bytes = 1472, .rate_bps = 11776000, .gaps = GAPS_UNIFORM
	};
	struct flow_spec exponential = uniform;
	const double mean = 1e9; /* ps: a datagram of 1472 bytes a millisecond */
	double sums[2] = { 0 }, squares[2] = { 0 };
	uint64_t random = 1, below = 0;

	(void)state;
	exponential.gaps = GAPS_EXPONENTIAL;
	for (int i = 0; i < COUNT; i++) {
		double gap[2];

		random = random * 6364136223846793005u + 1442695040888963407u;
		gap[0] = (double)gap_ps(&uniform, random ^ random >> 32) / mean;
		gap[1] = (double)gap_ps(&exponential, random ^ random >> 32) / mean;
		assert_true(gap[0] >= 0 && gap[0] < 2 && gap[1] >= 0);
		below += gap[1] < 0.5;
		for (int k = 0; k < 2; k++) {
			sums[k] += gap[k] / COUNT;
			squares[k] += gap[k] * gap[k] / COUNT;
		}
	}
	assert_true(sums[0] > 0.99 && sums[0] < 1.01 && sums[1] > 0.99 && sums[1] < 1.01);
	assert_true(squares[0] > 1.31 && squares[0] < 1.36 && squares[1] > 1.95 && squares[1] < 2.05);
	assert_true(below > 0.388 * COUNT && below < 0.399 * COUNT); /* 1 - exp(-0.5) */
	assert_int_equal(gap_ps(&exponential, UINT64_MAX), 0);
	assert_true(gap_ps(&exponential, 0) > 44 * mean && gap_ps(&exponential, 0) < 45 * mean);
}

/* Random gaps keep the rate, never run ahead of themselves, and follow from seed and flow alone. */
static void random_gaps_keep_the_rate(void **state)
{
	const struct flow_spec spec = { .transport = FLOW_UDP,
					.packet_bytes = 1472,
					.rate_bps = 11776000,
					.gaps = GAPS_EXPONENTIAL,
					.size_bytes = 1472 * 50000 + 7 };
	struct pace paces[2] = { { .seed = pace_seed(5, 0) }, { .seed = pace_seed(5, 1) } };
	uint64_t chunks = 0, queued = 0;

	(void)state;
	while (queued < spec.size_bytes) {
		int64_t next;

		queued = pace_offered(&paces[0], &spec, chunks ? pace_next(&paces[0], &spec, queued) : 0);
		next = pace_next(&paces[0], &spec, queued);
		if (queued < spec.size_bytes)
			assert_int_equal(pace_offered(&paces[0], &spec, next - 1), queued);
		chunks++;
	}
	assert_int_equal(queued, spec.size_bytes);
	assert_true(paces[0].next_ps > 49000 * 1000000000LL && paces[0].next_ps < 51000 * 1000000000LL);
	pace_offered(&paces[1], &spec, 1000000000);
	assert_true(paces[1].bytes > 0 && paces[1].next_ps != paces[0].next_ps);
}

/* --- logs -------------------------------------------------------------------------------------------- */

static void log_is_renamed_when_whole(void **state)
{
	char dir[] = "/tmp/tgen_log_XXXXXX", block[sizeof(struct tgen_sample_record)];
	struct tgen_log_header header = { .magic = { 'D' }, .version = 1, .record_size = sizeof(block) };
	struct tgen_log log;
	int fd, file;

	(void)state;
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(tgen_log_open(&log, fd, "x.bin", &header), 0);
	for (int i = 0; i < 10000; i++) {
		memset(block, i, sizeof(block));
		assert_int_equal(tgen_log_add(&log, block), 0);
	}
	assert_int_equal(faccessat(fd, "x.bin", F_OK, 0), -1);
	assert_int_equal(tgen_log_finish(&log), 0);
	tgen_log_close(&log);
	tgen_log_close(&log);
	assert_int_equal(faccessat(fd, "x.bin.partial", F_OK, 0), -1);
	file = openat(fd, "x.bin", O_RDONLY);
	assert_int_equal(read(file, &header, sizeof(header)), sizeof(header));
	assert_int_equal(header.count, 10000);
	assert_int_equal(lseek(file, 0, SEEK_END), sizeof(header) + 10000 * sizeof(block));
	assert_int_equal(pread(file, block, sizeof(block), (off_t)(sizeof(header) + 9999 * sizeof(block))),
			 sizeof(block));
	assert_int_equal((unsigned char)block[0], 9999 & 0xff);
	close(file);
	assert_int_equal(unlinkat(fd, "x.bin", 0), 0);
	close(fd);
	assert_int_equal(rmdir(dir), 0);
}

/* --- frames ------------------------------------------------------------------------------------------ */

static uint32_t ones_sum(const uint8_t *bytes, size_t len, uint32_t sum)
{
	for (size_t i = 0; i < len; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void frame_has_a_right_ip_and_a_wrong_tcp_checksum(void **state)
{
	static const uint8_t src_mac[6] = { 2, 0, 0, 0, 0, 1 }, dst_mac[6] = { 2, 0, 0, 0, 0, 2 };
	uint8_t f[WARM_FRAME_LEN];

	(void)state;
	for (unsigned port = 1; port < 65536; port += 7) {
		struct net_end src = { inet_addr("10.0.0.1"), (uint16_t)port },
			       dst = { inet_addr("10.0.255.254"), 5001 };

		warm_frame(f, src_mac, dst_mac, IPPROTO_UDP, src, dst);
		assert_int_equal(f[23], 17);
		assert_int_equal(f[39], 8);
		assert_true(f[40] || f[41]); /* a datagram without a checksum would be right */
		assert_int_equal(ones_sum(f + 14, 20, 0), 0xffff);
		assert_int_not_equal(ones_sum(f + 34, 8, ones_sum(f + 26, 8, 17 + 8)), 0xffff);
		warm_frame(f, src_mac, dst_mac, IPPROTO_TCP, src, dst);
		assert_memory_equal(f, dst_mac, 6);
		assert_memory_equal(f + 6, src_mac, 6);
		assert_int_equal(f[34] << 8 | f[35], port);
		assert_int_equal(f[47], 0x10);
		assert_int_equal(ones_sum(f + 14, 20, 0), 0xffff);
		assert_int_not_equal(ones_sum(f + 34, 20, ones_sum(f + 26, 8, 6 + 20)), 0xffff);
	}
}

/* --- the state matrix -------------------------------------------------------------------------------- */

#define ROWS      3
#define FLOW_ROWS 2
struct region {
	struct sm_header header;
	uint64_t activity[ROWS];
	struct sm_flow flows[FLOW_ROWS];
};

static struct region good_region(void)
{
	struct region r = { .header = { .version_major = SM_VERSION_MAJOR,
					.header_len = sizeof(struct sm_header),
					.rows = ROWS,
					.off_activity = offsetof(struct region, activity),
					.off_flows = offsetof(struct region, flows),
					.flow_rows = FLOW_ROWS,
					.total_len = sizeof(struct region) } };

	memcpy(r.header.magic, SM_MAGIC, sizeof(r.header.magic));
	return r;
}

/* The region lies in a file that has no name any more. */
static int open_region(const struct region *region, size_t len, struct tgen_matrix *m, int *fd)
{
	char file[] = "/tmp/tgen_matrix_XXXXXX";
	const char *why;
	int rc;

	*fd = mkstemp(file);
	assert_int_equal(write(*fd, region, len), len);
	rc = tgen_matrix_open(m, file, &why);
	unlink(file);
	if (rc)
		assert_non_null(why);
	return rc;
}

static struct region read_region(int fd)
{
	struct region r;

	assert_int_equal(pread(fd, &r, sizeof(r), 0), sizeof(r));
	return r;
}

static void activity_counts(void **state)
{
	static const uint32_t rows[] = { 0, 2 };
	struct region region = good_region();
	struct tgen_matrix m;
	int fd;

	(void)state;
	assert_int_equal(open_region(&region, sizeof(region), &m, &fd), 0);
	tgen_matrix_count(&m, rows, 2, 1);
	tgen_matrix_count(&m, rows, 2, 1);
	tgen_matrix_count(&m, rows + 1, 1, -1);
	tgen_matrix_close(&m);
	tgen_matrix_close(&m);
	region = read_region(fd);
	assert_int_equal(region.activity[0], 2);
	assert_int_equal(region.activity[1], 0);
	assert_int_equal(region.activity[2], 1);
	tgen_matrix_count(&m, NULL, 0, 1); /* closed: nothing happens */
	close(fd);
}

static void what_is_no_matrix_is_refused(void **state)
{
	enum { COUNT = 12 };
	struct region bad[COUNT];
	struct tgen_matrix m;
	int fd;

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		bad[i] = good_region();
	bad[0].header.magic[0] = 'x';
	bad[1].header.version_major = SM_VERSION_MAJOR + 1;
	bad[2].header.header_len = 8;
	bad[3].header.rows = SM_MAX_ROWS + 1;
	bad[4].header.off_activity = UINT64_MAX - 7;
	bad[5].header.rows = 4000;
	bad[6].header.total_len = sizeof(struct region) + 1;
	bad[7].header.flow_rows = FLOW_ROWS + 1;
	bad[8].header.off_flows += 4;
	bad[9].header.off_flows = UINT64_MAX - 7;
	bad[10].header.flow_rows = UINT32_MAX;
	bad[11].header.version_major = SM_VERSION_MAJOR - 1;
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(open_region(&bad[i], sizeof(bad[i]), &m, &fd), -EINVAL);
		close(fd);
	}
	assert_int_equal(open_region(&bad[0], 100, &m, &fd), -EINVAL);
	close(fd);
}

/* A flow's way through its row; a stale sample takes nothing back. */
static void a_row_follows_its_flow(void **state)
{
	const struct run_config config = { .t0_ns = 1000 };
	const struct flow_spec spec = { .transport = FLOW_TCP, .packet_bytes = 1448 };
	struct flow flows[FLOW_ROWS] = { { .start_ns = -1, .end_ns = -1 },
					 { .spec = &spec, .start_ns = 1500, .end_ns = -1 } };
	struct tgen_sample_record sample = { .bytes_acked = 70,
					     .bytes_received = 80,
					     .srtt_us = 9,
					     .min_rtt_us = UINT32_MAX,
					     .cwnd_packets = 10,
					     .retransmits = 2 };
	struct run run = { .config = &config, .flows.flow = flows };
	struct region region = good_region();
	struct sm_flow row;
	int fd;

	(void)state;
	assert_int_equal(open_region(&region, sizeof(region), &run.matrix, &fd), 0);
	publish_reset(&run);
	row = read_region(fd).flows[1];
	assert_true(row.status == SM_FLOW_WAITING && row.start_ns == -1 && row.end_ns == -1);
	flows[1].phase = PHASE_CONNECTING;
	publish_state(&run, 1);
	row = read_region(fd).flows[1];
	assert_true(row.status == SM_FLOW_RUNNING && row.start_ns == 500 && row.end_ns == -1);
	publish_sample(&run, 1, &sample);
	row = read_region(fd).flows[1];
	assert_true(row.received_bytes == 80 && row.acked_bytes == 70 && row.srtt_us == 9);
	assert_true(row.min_rtt_us == 0 && row.cwnd_packets == 10 && row.retransmits == 2);
	flows[1] = (struct flow){ &spec, .phase = PHASE_ENDED, .status = TGEN_STOPPED, .start_ns = 1500,
				  .end_ns = 1900 };
	publish_state(&run, 1);
	publish_received(&run, 1, 79);
	row = read_region(fd).flows[1];
	assert_true(row.status == SM_FLOW_STOPPED && row.end_ns == 900 && row.received_bytes == 80);
	publish_received(&run, 1, 81);
	assert_int_equal(read_region(fd).flows[1].received_bytes, 81);
	assert_int_equal(read_region(fd).flows[0].start_ns, -1);
	tgen_matrix_close(&run.matrix);
	publish_state(&run, 1); /* no matrix: nothing happens */
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_come_in_order),
		cmocka_unit_test(offers_no_more_than_its_rate),
		cmocka_unit_test(offers_everything_without_a_rate),
		cmocka_unit_test(gaps_have_their_distribution),
		cmocka_unit_test(random_gaps_keep_the_rate),
		cmocka_unit_test(log_is_renamed_when_whole),
		cmocka_unit_test(frame_has_a_right_ip_and_a_wrong_tcp_checksum),
		cmocka_unit_test(activity_counts),
		cmocka_unit_test(what_is_no_matrix_is_refused),
		cmocka_unit_test(a_row_follows_its_flow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
