/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The rows of flows and NICs as they are before anything is sent: constants and templates of frames. */
#ifndef NIC_ROWS_H
#define NIC_ROWS_H

#include "nics.h"

void rows_port(struct nic_port *port, const struct nic *nic, uint32_t wire_ifindex, uint32_t ring_ifindex);
void rows_flow(struct nic_sender *sender, struct nic_receiver *receiver, const struct nic_flow *flow,
	       const struct nic_port *src);

#endif
