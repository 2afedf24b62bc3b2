/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of tgen: one process that holds both ends of every flow, one epoll loop, one timer.
 *
 *   tgen_setup.c   namespaces and listeners, open before the traffic starts
 *   tgen_flow.c    what one TCP flow does at a time or an event, and how any flow begins and ends
 *   tgen_udp.c     the same for datagrams
 *   tgen_rdma.c    and for flows that a NIC sends of its own; tgen_nic.c reaches the NICs
 *   tgen_pairs.c   what such a flow takes over from the last one between its ends
 *   tgen_pace.c    when an application with a rate has more to send
 *   tgen_publish.c the rows of flows in the state matrix, which others read while the run is under way
 *   tgen_run.c     the loop, the samples and the logs
 *
 * The design follows from costs: in the lab computing takes no virtual time, but a system call takes
 * microseconds of wall time, a failing one (EAGAIN too) also 1 us of virtual time, and a clock read 25 ns. So
 * descriptors are edge-triggered, a wake-up moves as many bytes as it can in one call, the clock is read at
 * most once a wake-up and only when something is to be dated, and nothing is tried that is known to fail.
 *
 * Functions answer 0 or -errno, print nothing, and leave a sentence in run.fault when they fail.
 */
#ifndef TGEN_RUN_H
#define TGEN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "flow_table.h"
#include "slots.h"
#include "tgen_log.h"
#include "tgen_matrix.h"
#include "tgen_net.h"
#include "tgen_nic.h"
#include "tgen_timers.h"

#define NS_PER_S    1000000000
#define AHEAD_MIN   (32 << 10)  /* bytes that a sender's socket holds unsent */
#define AHEAD_FIRST (128 << 10) /* before the first sample tells the flow's rate */
#define AHEAD_MAX   (512 << 10)
#define BATCH_MAX   (256 << 10) /* bytes that a receiver leaves unread */
#define ROOM_MIN    (16 << 10)  /* a buffer's least size, however many flows share the memory */

enum phase { PHASE_WAITING, PHASE_CONNECTING, PHASE_SENDING, PHASE_ENDED };

struct flow {
	const struct flow_spec *spec;
	int sender, receiver; /* descriptors; -1 when closed */
	enum phase phase;
	enum tgen_status status;
	int error;
	const char *failed; /* the call that failed */
	bool full;   /* the sender's socket took less than it was offered; EPOLLOUT will say when to go on */
	bool closed; /* the sender has sent its FIN */
	bool final_batch; /* SO_RCVLOWAT is what is left of the flow */
	int ahead;
	int64_t due_ns;                           /* CLOCK_MONOTONIC; -1: its gate has not opened */
	int64_t start_ns, established_ns, end_ns; /* likewise; -1: not yet */
	uint64_t queued;                          /* payload that the sender's socket took */
	uint64_t sent, received, retransmits;
	struct pace {
		uint64_t bytes;  /* produced by the application */
		int64_t next_ps; /* time of its next bytes, after its first */
		uint32_t draws;
	} pace; /* used where gaps are random */
};

/* At what the kernel tells of a flow's two sockets. */
#define LOOKS_MAX 64
/* After so many waits in a row that ended alike, the next one is taken to end so, too. */
#define ALIKE_MIN 2
struct look {
	uint32_t flow;
	struct net_tcp_look sender, receiver;
};

/* One UDP socket receives for all flows that have a listener in common. */
struct sink {
	uint64_t rate_bps; /* sum over the flows under way */
	uint32_t datagram_bytes;
	bool timed; /* a TIMER_DRAIN is planned */
};

struct run_config {
	int64_t t0_ns, duration_ns;
	int64_t sample_ns, publish_ns; /* periods of samples.bin and of the state matrix; 0: never */
	uint64_t seed;
	const char *matrix; /* NULL: none */
	struct nic_ids nic; /* tables that the NICs share */
	int out;            /* directory */
	int signals;        /* a signalfd: when it is readable, the run is given up */
	bool warm;
	bool stay;                           /* at the end, until it is told to go */
	bool keep_pairs;                     /* flows over RDMA between the same ends are of one queue pair */
	uint16_t warm_mask;                  /* bits of the ports that switches look at */
	uint32_t warm_burst;                 /* frames that are sent at once */
	int64_t warm_gap_ns, warm_settle_ns; /* pauses after them, and after the last */
};

struct run {
	const struct run_config *config;
	const struct flow_table *table;
	struct flow *flows;
	int *namespaces, *listeners;       /* listeners by flow_spec.listener; -1: none */
	struct net_limits *limits;         /* one for each namespace */
	uint32_t entered;                  /* the namespace that the process is in; UINT32_MAX: its own */
	struct sink *sinks;                /* indexed by flow_spec.listener */
	uint32_t *udp, udp_count;          /* the listeners that are one */
	struct slots peers;                /* flows by the connection that their receiver sees */
	uint32_t *gate_start, *gate_flows; /* the flows that wait at gate g: gate_flows[gate_start[g] ...] */
	uint32_t *gate_left;               /* flows that have yet to end */
	uint64_t *under_way;               /* one bit a flow */
	uint64_t *draining;                /* likewise: stopped, and not all has arrived */
	uint32_t active;                   /* bits set in it */
	struct tgen_matrix matrix;
	struct nic_tables nics;
	struct slots pairs; /* the newest flow between two ends */
	struct timers timers;
	struct calls calls; /* calls that are made together, as one system call */
	struct look *looks; /* LOOKS_MAX of them */
	uint32_t foreseen;  /* looks that were taken with the wait for their time; 0: none */
	unsigned int alike; /* waits in a row that ended with nothing but the time of looks */
	struct tgen_log samples, log, nic_log;
	int epoll, timer, payload;         /* payload: a file of zeros that takes no memory */
	long memory;                       /* bytes that all sockets may hold unsent, and again unread */
	int64_t next_sample, next_publish; /* INT64_MAX: no more */
	int64_t now, armed;                /* 0: not read since the wake-up; not armed */
	struct timespec clock;             /* where a planned call puts it */
	bool over, bad_input;              /* the fault is in what the user gave */
	char fault[256];
};

/* The subject of an epoll event: kind << 32 | number. */
enum watch { WATCH_TIMER, WATCH_SIGNAL, WATCH_LISTENER, WATCH_SENDER, WATCH_RECEIVER, WATCH_BELL };
struct epoll_event run_event(uint32_t events, enum watch kind, uint32_t number);
int run_watch(struct run *run, int fd, uint32_t events, enum watch kind, uint32_t number);
int run_enter(struct run *run, uint32_t ns);
/* Calls that run->calls makes: into a namespace, and the clock for run_now(), unless it is known. */
void run_plan_enter(struct run *run, uint32_t ns);
void run_plan_clock(struct run *run);
int run_calls(struct run *run, const char **step); /* 0, or the error of the call that *step names */
int run_share(const struct run *run, int max);     /* bytes of run.memory for one flow of those under way */
int run_fault(struct run *run, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
int64_t run_now(struct run *run); /* read once a wake-up */
int64_t clock_now(void);

int run_open(struct run *run, const struct run_config *config, const struct flow_table *table);
int run_loop(struct run *run);   /* lasts until t0 + duration; -EINTR: a signal came */
int run_settle(struct run *run); /* the last counts, all of one instant */
int run_finish(struct run *run); /* the logs */
void run_abort(struct run *run); /* instead of the above: no log, and nothing that the sockets hold is sent */
void run_close(struct run *run); /* fine after a failed open, and twice */

int setup_sockets(struct run *run);
int setup_warm(struct run *run);

int flow_start(struct run *run, uint32_t number, int64_t at);
int flow_stop(struct run *run, uint32_t number, int64_t at);
int flow_offer(struct run *run, uint32_t number, int64_t at);
int flow_index_peers(struct run *run);
uint32_t flow_of_peer(const struct run *run, uint32_t listener, struct net_end peer); /* or SLOT_EMPTY */
int flow_accept(struct run *run, uint32_t listener);
int flow_on_sender(struct run *run, uint32_t number, uint32_t events);
int flow_on_receiver(struct run *run, uint32_t number, uint32_t events);

/* One look at a flow serves both. It is planned, run->calls is run, and then the sample is taken. */
enum sample_use { SAMPLE_LOG = 1, SAMPLE_PUBLISH = 2 };
void flow_plan_look(struct run *run, struct look *look);
int flow_sample(struct run *run, const struct look *look, int64_t at, unsigned int uses);
int flow_settle(struct run *run, uint32_t number); /* the run is over: take the last counts */
int flow_end(struct run *run, uint32_t number, enum tgen_status status, int64_t at);
int flow_fail(struct run *run, uint32_t number, int error, const char *failed);
struct net_sender flow_sender(const struct run *run, uint32_t number, int ahead);
/* Opens, connects and watches a sender in its namespace, and dates that: 0, or the error of the call that
 * *step names. */
int flow_open(struct run *run, uint32_t number, uint32_t events, const char **step);

int udp_start(struct run *run, uint32_t number);
int udp_offer(struct run *run, uint32_t number, int64_t at);
int udp_on_sender(struct run *run, uint32_t number, uint32_t events);
void udp_leave(struct run *run, uint32_t number); /* the flow is over for its sink */
int udp_drain(struct run *run, uint32_t listener, int64_t at);
int udp_take(struct run *run); /* counts what has arrived at every sink */

int rdma_open(struct run *run);
bool rdma_has_row(const struct run *run, uint32_t number); /* a NIC sends or caps the flow */
/* The UDP ports of the frames that a NIC sends for the flow. */
void rdma_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst);
/* The UDP ports of the frames that come back. */
void rdma_answer_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst);
int rdma_start(struct run *run, uint32_t number);
int rdma_offer(struct run *run, uint32_t number, int64_t at);
void rdma_stop(struct run *run, uint32_t number);
void rdma_abort(struct run *run); /* nothing more is sent by any flow */
int rdma_look(struct run *run,
	      uint32_t number); /* takes the receiver's count; ends a flow that is complete */
int rdma_settle(struct run *run, uint32_t number);
int rdma_on_bell(struct run *run, uint32_t nic);
void rdma_sample(const struct run *run, uint32_t number, struct tgen_sample_record *sample);
int rdma_sampled(struct run *run, uint32_t number); /* reads its rows and acts on what they show */
void rdma_record(const struct run *run, uint32_t number, struct tgen_nic_record *record);
int pairs_open(struct run *run);
void pairs_close(struct run *run);
void pairs_take(struct run *run, uint32_t number); /* before the flow posts anything */
/* Payload of the first packets of a flow, and how many packets hold the whole of so many bytes. */
uint64_t rdma_bytes(uint64_t packets, uint32_t payload, uint64_t message, uint64_t total);
uint64_t rdma_packets(uint64_t bytes, uint32_t payload, uint64_t message, uint64_t total);

/* Nothing happens when the state matrix has no rows of flows. */
void publish_reset(const struct run *run);                  /* all rows: flows that wait */
void publish_state(const struct run *run, uint32_t number); /* a flow has begun or ended */
void publish_sample(const struct run *run, uint32_t number, const struct tgen_sample_record *sample);
void publish_received(const struct run *run, uint32_t number, uint64_t bytes);

/*
 * Payload that an application has produced `elapsed` ns after its first byte, in whole chunks (of a datagram
 * each, or of full segments), and when it has more than what was `queued`.
 */
uint64_t pace_offered(const struct run *run, struct flow *flow, int64_t elapsed);
int64_t pace_next(const struct flow *flow);
uint64_t offered_bytes(const struct flow_spec *spec, int64_t elapsed);
int64_t offered_next(const struct flow_spec *spec, uint64_t queued);
int64_t gap_ps(const struct flow_spec *spec, uint64_t random);

#endif
