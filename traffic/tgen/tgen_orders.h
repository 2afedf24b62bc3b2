/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent wants of flows' sockets: the window of congestion control `agent`, the largest window and the
 * pacing rate of any. agentd writes it into the state matrix and sends SIGUSR1. A flow gets it when it
 * starts, and when it is another; what the kernel then says stands in the matrix until the flow ends.
 */
#ifndef TGEN_ORDERS_H
#define TGEN_ORDERS_H

#include "tgen_run.h"

/* Nothing happens where the agent sets no rows of flows. */
int orders_open(struct run *run);
int orders_set(struct run *run, uint32_t number); /* one flow's */
int orders_on_signal(struct run *run);            /* all flows' */
void orders_read_back(const struct run *run, uint32_t number, uint32_t cwnd_packets);
void orders_drop(const struct run *run, uint32_t number); /* the flow has ended */

#endif
