/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Barriers of virtual time: the lab stands still, the host has all steps since the barrier before, and may
 * leave another table (struct nic_exchange in shim.h). In a lab only: the clock has to wait.
 */
#ifndef NIC_BARRIER_H
#define NIC_BARRIER_H

#include "fault.h"
#include "shim.h"

struct barrier {
	int channel_fd;
	struct nic_exchange *exchange;
	uint64_t t0_ns, step_ns, number; /* the next one is at t0 + number x step */
};

/* All return 0 or -errno and what went wrong. */
int barrier_open(struct barrier *b, const char *device, uint64_t t0_ns, uint64_t step_ns, struct fault *f);
/* Stands still; `table`: the host's, NULL: it left none. */
int barrier_wait(struct barrier *b, const uint32_t **table, struct fault *f);
void barrier_close(struct barrier *b);

uint64_t barrier_next_ns(const struct barrier *b);
void barrier_take(struct barrier *b, const struct nic_step *step);

#endif
