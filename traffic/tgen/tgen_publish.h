/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of flows in the state matrix. A beginning and an end are in it at once, with no system call of
 * their own: what the sender's socket knows (srtt, window, retransmits) is of the last sample, and final when
 * that socket closes, up to a round trip after the last byte has arrived.
 */
#ifndef TGEN_PUBLISH_H
#define TGEN_PUBLISH_H

#include "tgen_log.h"
#include "tgen_run.h"

#include <stdint.h>

/* Nothing happens when the state matrix has no rows of flows. */
void publish_reset(const struct run *run);                  /* all rows: flows that wait */
void publish_state(const struct run *run, uint32_t number); /* a flow has begun or ended */
void publish_sample(const struct run *run, uint32_t number, const struct tgen_sample_record *sample);
void publish_received(const struct run *run, uint32_t number, uint64_t bytes);

#endif
