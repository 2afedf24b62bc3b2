/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweeper: one look at the queues of many network namespaces, published as a row a port in the state
 * matrix and appended to a trace (docs/protocols.md).
 *
 * Each sweep dumps the qdiscs of every namespace once over a netlink socket that stays open: one system call
 * to sleep and for all of them, or more where the kernel has no AIO. It reads no clock: who calls it knows
 * what time it is. Functions return 0 or -errno with *f filled in (fault.h).
 */
#ifndef SWEEPER_H
#define SWEEPER_H

#include "fault.h"
#include "matrix.h"
#include "nl.h"
#include "ports.h"
#include "qdisc.h"

#include <stdint.h>

struct sweeper {
	struct ports ports;
	struct source *sources; /* one a namespace */
	uint32_t n_sources;
	struct batch batch;             /* of all their dumps */
	struct batch *first;            /* what a sweep carries out before it sleeps, or NULL */
	struct calls calls;             /* that, a sleep, and the dumps */
	struct port_sample *samples;    /* of all rows, as of the last sweep */
	struct port_counters *counters; /* since the first */
	uint64_t *cells;
	struct matrix matrix;
	struct trace trace;
	/* Called for each port and each class with the port's root qdisc as it is dumped; NULL: nobody asks.
	 * 0 or -errno. */
	int (*on_root)(void *arg, uint32_t row, const struct qdisc *q);
	void *on_root_arg;
};

#define SWEEPER_INIT                                                                                         \
	{                                                                                                    \
		.trace = TRACE_INIT, .calls = CALLS_INIT                                                     \
	}

/* Read the ports file, enter its namespaces, and look once: each port has a qdisc. */
int sweeper_open(struct sweeper *s, const char *ports_file, struct fault *f);
void sweeper_close(struct sweeper *s);

/* Where sweeps are published: a file or device, or NULL for memory of this process alone. */
int sweeper_open_matrix(struct sweeper *s, const char *file, uint32_t flow_rows, uint32_t command_rows,
			uint64_t interval_ns, uint64_t t0_ns, struct fault *f);

/* Where each is kept; without, none is. */
int sweeper_open_trace(struct sweeper *s, const char *file, uint64_t interval_ns, uint64_t t0_ns,
		       struct fault *f);
int sweeper_finish_trace(struct sweeper *s, struct fault *f);

/* Look at all ports. */
int sweeper_sample(struct sweeper *s, struct fault *f);

/* Sleep until t_ns, look at all ports, and publish it as the sweep of that time; nothing if `program_stop` is
 * set before. */
int sweeper_sweep(struct sweeper *s, uint64_t t_ns, struct fault *f);

/* The socket in the namespace of a port, and the port's index there. */
struct nl_sock *sweeper_socket(const struct sweeper *s, uint32_t row);
int sweeper_ifindex(const struct sweeper *s, uint32_t row);

#endif
