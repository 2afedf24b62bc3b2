/* SPDX-License-Identifier: Apache-2.0 */
/* What a flow does at a time or an event, by its transport. */
#ifndef TGEN_TRANSPORT_H
#define TGEN_TRANSPORT_H

#include "tgen_run.h"
#include "tgen_tcp.h"

#include <stdint.h>

int transport_start(struct run *run, uint32_t number, int64_t at);
int transport_stop(struct run *run, uint32_t number, int64_t at);
int transport_offer(struct run *run, uint32_t number, int64_t at);
int transport_on_sender(struct run *run, uint32_t number, uint32_t events);

/* One look at a flow serves both. It is planned, run->calls is run, and then the sample is taken. */
enum sample_use { SAMPLE_LOG = 1, SAMPLE_PUBLISH = 2 };
void transport_plan_look(struct run *run, struct look *look);
int transport_sample(struct run *run, const struct look *look, int64_t at, unsigned int uses);
int transport_settle(struct run *run, uint32_t number); /* the run is over: take the last counts */

#endif
