/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events file: what changes in the network while traffic runs, and when.
 *
 * A change is a netlink request, ready but for the index of its port's device, and a second request that
 * reads back what is in force then. Changes of Open vSwitch's datapath are generic netlink, complete, and not
 * read back. So eventd knows no cable and no qdisc: both are declared in Python alone
 * (dc_gym/run/plan/changes.py).
 *
 * A record file with two tables: changes in the order of their times, and the bytes of the requests. What
 * eventd has done is a record file, too: one record a change, and the bytes of the kernel's descriptions.
 */
#ifndef EVENTS_FILE_H
#define EVENTS_FILE_H

#include "ports.h"

#define EVENT_MAGIC       "DCGEVENT"
#define EVENT_DONE_MAGIC  "DCGEDONE"
#define EVENT_BYTES_MAGIC "DCGBYTES"
#define EVENT_VERSION     1
#define EVENT_MOST        (1u << 20)
#define EVENT_MAX_SIZE    4096 /* bytes of a request, and of a description */

struct event_change {
	uint64_t at_ns;              /* after t0 */
	uint32_t row;                /* of its port in the ports file */
	uint32_t tag;                /* its number for whoever reads what was done */
	uint32_t set_start, set_len; /* in the table of bytes: the request that changes it, */
	uint32_t get_start, get_len; /* and the one that reads it back; none: 0 */
	uint32_t generic;            /* 1: generic netlink in the present namespace, for no port */
	uint32_t reserved;
};

static_assert(sizeof(struct event_change) == 40, "event change");
static_assert(offsetof(struct event_change, get_start) == 24, "event change");

struct event_done {
	uint64_t t_ns; /* after t0: when it was in force */
	uint32_t tag;
	int32_t error;                     /* 0 or -errno */
	uint32_t answer_start, answer_len; /* in the table of bytes: a netlink message */
};

static_assert(sizeof(struct event_done) == 24, "event done");

struct events {
	struct record_file file; /* in which they lie */
	const struct event_change *change;
	const unsigned char *bytes;
	uint32_t n, n_bytes;
};

/* The changes of `file`, for these ports: 0, or -EINVAL with *f filled in. */
int events_take(struct events *events, const struct ports *ports, struct fault *f);

#endif
