/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of tgen: one process that holds both ends of every flow, one epoll loop, one timer. From below:
 *
 *   flow_table     what the flows are to do; flow_gates, flow_state: how far they are
 *   tgen_clock     the clock, the timers (tgen_timers) and what the process waits for (tgen_watch)
 *   tgen_net       sockets; tgen_receivers: those where flows arrive; tgen_memory: their memory
 *   tgen_hosts     network namespaces
 *   tgen_nic       the NICs' tables; tgen_pairs: what a flow takes over from the last one between its ends
 *   job_state      how far each node of a job (job_table) is
 *   tgen_log       the files; tgen_matrix: the part of the state matrix
 *   tgen_run       these together: what a run keeps
 *   tgen_publish   the rows of flows in the state matrix, which others read while the run is under way
 *   tgen_orders    what an agent sets at flows' sockets
 *   tgen_flow      how a flow of any transport begins and ends; tgen_pace: when it has more to send
 *   tgen_tcp       what one flow does at a time or an event; the same for datagrams in tgen_udp, and in
 *                  tgen_rdma for flows that a NIC sends of its own
 *   tgen_transport the choice between them
 *   tgen_job       jobs, whose messages are what their connections offer
 *   tgen_setup     what is open before the traffic starts; tgen_warm: frames over each path
 *   tgen_loop      the loop and the samples; tgen_end: the last counts, and the logs
 *
 * The design follows from costs: in the lab computing takes no virtual time, but a system call takes
 * microseconds of wall time, a failing one (EAGAIN too) also 1 us of virtual time, and a clock read 25 ns. So
 * descriptors are edge-triggered, a wake-up moves as many bytes as it can in one call, the clock is read at
 * most once a wake-up and only when something is to be dated, and nothing is tried that is known to fail.
 *
 * Functions that take a run answer 0 or -errno, print nothing, and leave a sentence in run.fault when they
 * fail.
 */
#ifndef TGEN_RUN_H
#define TGEN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "flow_state.h"
#include "flow_table.h"
#include "job_state.h"
#include "tgen_clock.h"
#include "tgen_hosts.h"
#include "tgen_log.h"
#include "tgen_matrix.h"
#include "tgen_memory.h"
#include "tgen_nic.h"
#include "tgen_pairs.h"
#include "tgen_receivers.h"
#include "tgen_timers.h"
#include "tgen_warm.h"
#include "tgen_watch.h"

#define RUN_CALLS 130 /* calls that may be planned at once */

struct run_config {
	int64_t t0_ns, duration_ns;
	int64_t sample_ns, publish_ns; /* periods of samples.bin and of the state matrix; 0: never */
	uint64_t seed;
	const char *matrix; /* NULL: none */
	struct nic_ids nic; /* tables that the NICs share */
	struct warm_config warm;
	int out;         /* directory */
	int signals;     /* a signalfd: when it is readable, the run is given up */
	bool stay;       /* at the end, until it is told to go */
	bool keep_pairs; /* flows over RDMA between the same ends are of one queue pair */
};

struct run {
	const struct run_config *config;
	const struct flow_table *table;
	struct flows flows;
	struct receivers receivers;
	struct hosts hosts;
	struct memory memory;
	struct nic_tables nics;
	struct pairs pairs;
	struct clock clock;
	struct timers timers;
	struct watches watches;
	struct calls calls; /* calls that are made together, as one system call */
	struct job job;
	struct tgen_matrix matrix;
	struct tgen_logs logs;
	int orders;     /* a signalfd: an agent wants something of flows; -1: none can */
	int payload;    /* what TCP sends: a file of zeros that takes no memory */
	bool bad_input; /* the fault is in what the user gave */
	char fault[256];
};

int run_open(struct run *run, const struct run_config *config, const struct flow_table *table,
	     const struct job_table *jobs);
void run_close(struct run *run); /* fine after a failed open, and twice */

int run_fault(struct run *run, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
int run_watch(struct run *run, int fd, uint32_t events, enum watch kind, uint32_t number);
int run_enter(struct run *run, uint32_t ns);
int run_calls(struct run *run, const char **step); /* 0, or the error of the call that *step names */

/* -1 for what has not come. */
static inline int64_t run_after_t0(const struct run *run, int64_t at)
{
	return at < 0 ? -1 : at - run->config->t0_ns;
}

#endif
