/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of tgen: one process that holds both ends of every flow, one epoll loop, one timer.
 *
 *   tgen_setup.c   namespaces, listeners and senders, all open before the traffic starts
 *   tgen_flow.c    what one flow does at a time or an event
 *   tgen_run.c     the loop, the samples and the logs
 *
 * What shapes it: in the lab computing takes no virtual time, but a system call takes microseconds of wall
 * time, a failing one (EAGAIN too) also 1 us of virtual time, and a clock read 25 ns. So descriptors are
 * edge-triggered, a wake-up moves as many bytes as it can in one call, the clock is read at most once a
 * wake-up and only when something is to be dated, and nothing is tried that is known to fail.
 *
 * Functions answer 0 or -errno, print nothing, and leave a sentence in run.fault when they fail.
 */
#ifndef TGEN_RUN_H
#define TGEN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "flow_csv.h"
#include "tgen_activity.h"
#include "tgen_log.h"
#include "tgen_timers.h"

#define AHEAD_MIN   (32 << 10)  /* bytes that a sender's socket holds unsent */
#define AHEAD_FIRST (128 << 10) /* before the first sample tells the flow's rate */
#define AHEAD_MAX   (512 << 10)
#define BATCH_MAX   (256 << 10) /* bytes that a receiver leaves unread */
#define ROOM_MIN    (16 << 10)  /* for either, however many flows share the memory */

enum phase { PHASE_WAITING, PHASE_CONNECTING, PHASE_SENDING, PHASE_ENDED };

struct flow {
	const struct flow_spec *spec;
	int sender, receiver; /* descriptors; -1 when closed */
	enum phase phase;
	enum tgen_status status;
	int error;
	bool full;   /* the sender's socket took less than it was offered; EPOLLOUT will say when to go on */
	bool closed; /* the sender has sent its FIN */
	bool final_batch; /* SO_RCVLOWAT is what is left of the flow */
	int ahead;
	int64_t start_ns, established_ns, end_ns; /* CLOCK_MONOTONIC; -1: not yet */
	uint64_t queued;                          /* payload that the sender's socket took */
	uint64_t sent, received, retransmits;
};

struct run_config {
	int64_t t0_ns, duration_ns, sample_ns;
	uint64_t seed;
	const char *matrix; /* NULL: none */
	int out;            /* directory */
	int signals;        /* a signalfd: when it is readable, the run is given up */
	bool warm;
};

struct run {
	const struct run_config *config;
	const struct flow_table *table;
	struct flow *flows;
	int *namespaces, *listeners; /* listeners by flow_spec.listener; -1: none */
	struct slots peers;          /* flows by the connection that their receiver sees */
	struct activity activity;
	struct timers timers;
	struct tgen_log samples, log;
	int epoll, timer, payload; /* payload: a file of zeros that takes no memory */
	int ahead_max, batch;
	int64_t now, armed;   /* 0: not read since the wake-up; not armed */
	bool over, bad_input; /* the fault is in what the user gave */
	char fault[256];
};

/* What an epoll event is about: kind << 32 | number. */
enum watch { WATCH_TIMER, WATCH_SIGNAL, WATCH_LISTENER, WATCH_SENDER, WATCH_RECEIVER };
int run_watch(struct run *run, int fd, uint32_t events, enum watch kind, uint32_t number);
int run_fault(struct run *run, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
int64_t run_now(struct run *run); /* read once a wake-up */
int64_t clock_now(void);

int run_open(struct run *run, const struct run_config *config, const struct flow_table *table);
int run_loop(struct run *run); /* from now to t0 + duration; -EINTR: a signal came */
int run_finish(struct run *run);
void run_close(struct run *run); /* fine after a failed open, and twice */

int setup_sockets(struct run *run);
int setup_warm(struct run *run);

int flow_start(struct run *run, uint32_t number);
int flow_stop(struct run *run, uint32_t number, int64_t at);
int flow_offer(struct run *run, uint32_t number, int64_t at);
int flow_index_peers(struct run *run);
int flow_accept(struct run *run, uint32_t listener);
int flow_on_sender(struct run *run, uint32_t number, uint32_t events);
int flow_on_receiver(struct run *run, uint32_t number, uint32_t events);
int flow_sample(struct run *run, uint32_t number, int64_t at);
int flow_settle(struct run *run, uint32_t number); /* the run is over: take the last counts */

/* Payload that an application with rate_bps has produced after `elapsed` ns, in whole chunks, and when it has
 * more. */
uint64_t offered_bytes(const struct flow_spec *spec, int64_t elapsed);
int64_t offered_next(const struct flow_spec *spec, uint64_t queued);

#endif
