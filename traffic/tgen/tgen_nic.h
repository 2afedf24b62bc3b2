/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NICs' side of tgen: the tables that the NIC shim shares (ctrl/nic/shim.h, BPF arrays that are mapped
 * here, found by the ids that its loader prints), and one packet socket a NIC, on its ring: doorbells go out
 * by it, bells come in. All answer 0 or -errno; *step then names what failed.
 */
#ifndef TGEN_NIC_H
#define TGEN_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim.h"

struct nic_table {
	void *rows;
	size_t len; /* the mapping's */
	uint32_t count;
};

/* Zeroed with `sockets` NULL: no NIC. */
struct nic_tables {
	struct nic_table senders, receivers, ports;
	int *sockets; /* one for each NIC; -1: not open */
};

struct nic_ids {
	uint32_t senders, receivers, ports; /* ids of BPF maps; 0: none */
};

int nic_tables_open(struct nic_tables *nics, struct nic_ids ids, const char **step);
void nic_tables_close(struct nic_tables *nics);

struct nic_sender *nic_sender(const struct nic_tables *nics, uint32_t flow);
const struct nic_receiver *nic_receiver(const struct nic_tables *nics, uint32_t flow);
void nic_ring_each(const struct nic_tables *nics, uint32_t flow); /* its bell rings for each message */
const struct nic_port *nic_port(const struct nic_tables *nics, uint32_t nic);
bool nic_has_row(const struct nic_tables *nics, uint32_t flow); /* a NIC sends or caps the flow */

/* The socket of a NIC, in the network namespace that the process is in. */
int nic_listen(struct nic_tables *nics, uint32_t nic, const char **step);
int nic_ring(const struct nic_tables *nics, uint32_t flow);                 /* work was posted */
int nic_heard(const struct nic_tables *nics, uint32_t nic, uint32_t *flow); /* -EBADMSG: it was no bell */

#endif
