/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows over RDMA. The NIC does the work (ctrl/nic/shim.h): a flow that begins, or whose application has more
 * to send, writes how many packets are posted into its row and rings; the NIC's bell says that the receiver
 * has everything. Nothing here is done packet by packet.
 */
#ifndef TGEN_RDMA_H
#define TGEN_RDMA_H

#include "tgen_log.h"
#include "tgen_run.h"

#include <stdint.h>

int rdma_open(struct run *run);
/* The UDP ports of the frames that a NIC sends for the flow. */
void rdma_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst);
/* The UDP ports of the frames that come back. */
void rdma_answer_ports(const struct run *run, uint32_t number, uint16_t *src, uint16_t *dst);
int rdma_start(struct run *run, uint32_t number);
int rdma_offer(struct run *run, uint32_t number, int64_t at);
void rdma_stop(struct run *run, uint32_t number);
void rdma_abort(struct run *run); /* nothing more is sent by any flow */
/* Takes the receiver's count; ends a flow that is complete. */
int rdma_look(struct run *run, uint32_t number);
int rdma_settle(struct run *run, uint32_t number);
int rdma_on_bell(struct run *run, uint32_t nic);
void rdma_sample(const struct run *run, uint32_t number, struct tgen_sample_record *sample);
int rdma_sampled(struct run *run, uint32_t number); /* reads its rows and acts on what they show */
void rdma_record(const struct run *run, uint32_t number, struct tgen_nic_record *record);
/* Payload of the first packets of a flow, and how many packets hold the whole of so many bytes. */
uint64_t rdma_bytes(uint64_t packets, uint32_t payload, uint64_t message, uint64_t total);
uint64_t rdma_packets(uint64_t bytes, uint32_t payload, uint64_t message, uint64_t total);

#endif
