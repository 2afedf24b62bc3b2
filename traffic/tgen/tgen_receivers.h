/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets where flows arrive: TCP's listeners, and for datagrams one socket for all flows that have a
 * listener in common. `listener` is flow_spec.listener throughout.
 */
#ifndef TGEN_RECEIVERS_H
#define TGEN_RECEIVERS_H

#include "flow_table.h"
#include "slots.h"
#include "tgen_net.h"

#include <stdbool.h>
#include <stdint.h>

/* One UDP socket. */
struct sink {
	uint64_t rate_bps; /* sum over the flows under way */
	uint32_t datagram_bytes;
	bool timed; /* a TIMER_DRAIN is planned */
};

struct receivers {
	const struct flow_table *table;
	int *listeners;           /* descriptors by listener; -1: none */
	struct sink *sinks;       /* by listener */
	uint32_t *udp, udp_count; /* the listeners that are one */
	struct slots peers;       /* flows by the connection that their receiver sees */
};

int receivers_init(struct receivers *receivers, const struct flow_table *table); /* 0 or -ENOMEM */
void receivers_close(struct receivers *receivers);
/* Makes receivers_find() know all flows: 0, or -EINVAL if flow *number has the same ends as *other. */
int receivers_index(struct receivers *receivers, uint32_t *number, uint32_t *other);
/* Returns the flow whose data comes from `peer`, or SLOT_EMPTY. */
uint32_t receivers_find(const struct receivers *receivers, uint32_t listener, struct net_end peer);

/* A flow of datagrams begins, or is over. */
void receivers_join(struct receivers *receivers, const struct flow_spec *spec);
void receivers_leave(struct receivers *receivers, const struct flow_spec *spec);

#endif
