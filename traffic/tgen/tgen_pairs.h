/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that outlive a flow: with --keep-pairs a flow over RDMA begins as the last one between its two
 * ends was left, as the messages of one connection do. What is taken over is what the NIC knows of the path
 * (rate, window, the algorithm's state, when the next packet is due), not the transport: packets are numbered
 * from 0.
 */
#ifndef TGEN_PAIRS_H
#define TGEN_PAIRS_H

#include "flow_table.h"
#include "slots.h"
#include "tgen_nic.h"

#include <stdint.h>

struct pairs {
	const struct flow_table *table; /* NULL: no flow takes anything over */
	struct slots newest;            /* the newest flow between two ends */
};

int pairs_open(struct pairs *pairs, const struct flow_table *table); /* 0 or -ENOMEM */
void pairs_close(struct pairs *pairs);
/* Called before the flow posts anything. */
void pairs_take(struct pairs *pairs, const struct nic_tables *nics, uint32_t number);

#endif
