/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that tgen writes: DIR/flows.bin and DIR/samples.bin, DIR/nics.bin if a flow went over RDMA, and
 * DIR/job.bin if there is a job.
 * Each is a header and `count` records of `record_size` bytes; little-endian, no padding. Times are
 * nanoseconds after t0. A file is called NAME.partial until it is whole and on the disk.
 * dc_gym/run/result/tgen_log.py reads them.
 */
#ifndef TGEN_LOG_H
#define TGEN_LOG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie in memory");

#define TGEN_FLOWS_MAGIC   "DCGYMFL2" /* 8 bytes, no NUL */
#define TGEN_SAMPLES_MAGIC "DCGYMSA2"
#define TGEN_NICS_MAGIC    "DCGYMNI1"
#define TGEN_JOB_MAGIC     "DCGYMJO1"
#define TGEN_LOG_VERSION   1

enum tgen_status { TGEN_DONE, TGEN_STOPPED, TGEN_RUNNING, TGEN_FAILED, TGEN_WAITING };

struct tgen_log_header {
	char magic[8];
	uint32_t version, record_size;
	uint64_t count;
	int64_t t0_ns;                  /* CLOCK_MONOTONIC */
	int64_t duration_ns, sample_ns; /* the latter 0: no samples */
	uint64_t seed;                  /* the option's value */
	uint64_t reserved;
};

struct tgen_flow_record {
	uint32_t flow;
	uint16_t src_port, dst_port;
	uint32_t status; /* enum tgen_status */
	int32_t error;   /* errno of a failed flow, else 0 */
	int64_t due_ns;  /* planned start; -1: the flow that it waits for has not ended */
	int64_t start_ns, established_ns, end_ns; /* -1: never */
	uint64_t size_bytes, sent_bytes, received_bytes, retransmits;
	int64_t fct_ns; /* -1 unless it is done; that of a UDP flow always */
};

struct tgen_sample_record {
	int64_t t_ns;
	uint64_t delivery_rate_bps, bytes_acked, bytes_received;
	uint64_t pacing_rate_bps; /* all ones: the socket is not paced, or is none of TCP */
	uint32_t flow, srtt_us, min_rtt_us, cwnd_packets, notsent_bytes, retransmits;
	uint32_t ssthresh_packets, ca_state; /* all ones: no threshold yet, or no TCP */
};

/* Counts of one flow by the NICs at both ends (ctrl/nic/shim.h); a flow of another transport has
 * none. */
struct tgen_nic_record {
	uint32_t flow;
	uint32_t rtt_ns, least_rtt_ns; /* the last probe's, the least of all; 0: none */
	uint32_t window_bytes;         /* 0: none */
	uint64_t rate_bps;             /* the rate at the end */
	uint64_t sent_packets, sent_bytes, resent_packets;
	uint64_t received_packets, marked_packets, dropped_packets, messages, broken_messages;
	uint64_t cnps, nacks, timeouts, rtts, probes, probe_bytes, decisions, lost_events;
};

/* A node of a job, in the order of the job table; -1: not yet. */
struct tgen_job_record {
	int64_t start_ns, end_ns;
};

static_assert(sizeof(struct tgen_job_record) == 16, "job record");
static_assert(sizeof(struct tgen_nic_record) == 152, "NIC record");
static_assert(sizeof(struct tgen_log_header) == 64, "log header");
static_assert(offsetof(struct tgen_log_header, count) == 16, "log header");
static_assert(offsetof(struct tgen_log_header, seed) == 48, "log header");
static_assert(sizeof(struct tgen_flow_record) == 88, "flow record");
static_assert(offsetof(struct tgen_flow_record, status) == 8, "flow record");
static_assert(offsetof(struct tgen_flow_record, start_ns) == 24, "flow record");
static_assert(offsetof(struct tgen_flow_record, size_bytes) == 48, "flow record");
static_assert(offsetof(struct tgen_flow_record, fct_ns) == 80, "flow record");
static_assert(sizeof(struct tgen_sample_record) == 72, "sample record");
static_assert(offsetof(struct tgen_sample_record, bytes_received) == 24, "sample record");
static_assert(offsetof(struct tgen_sample_record, flow) == 40, "sample record");

/* A file being written, in blocks of TGEN_LOG_BLOCK bytes. A zeroed one with fd -1 is closed. */
#define TGEN_LOG_BLOCK (1u << 18)
struct tgen_log {
	int dir, fd;
	char name[32];
	struct tgen_log_header header;
	char *block;
	size_t used;
};

/* All answer 0 or -errno. open() creates NAME.partial; finish() writes the count, syncs and renames. */
int tgen_log_open(struct tgen_log *log, int dir, const char *name, const struct tgen_log_header *header);
int tgen_log_add(struct tgen_log *log, const void *record);
int tgen_log_finish(struct tgen_log *log);
void tgen_log_discard(struct tgen_log *log); /* instead of finish(): removes NAME.partial */
void tgen_log_close(struct tgen_log *log);   /* leaves NAME.partial where it is; fine after finish() */

/* The files of a run. That of the NICs is open if a flow may go over RDMA, that of the job if there is one.
 */
struct tgen_logs {
	struct tgen_log samples, flows, nics, job;
};

#define TGEN_LOGS_CLOSED                                                                                     \
	{                                                                                                    \
		.samples.fd = -1, .flows.fd = -1, .nics.fd = -1, .job.fd = -1                                \
	}

void tgen_logs_discard(struct tgen_logs *logs);
void tgen_logs_close(struct tgen_logs *logs);

#endif
