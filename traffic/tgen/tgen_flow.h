/* SPDX-License-Identifier: Apache-2.0 */
/* How a flow begins and ends, whatever its transport. */
#ifndef TGEN_FLOW_H
#define TGEN_FLOW_H

#include "tgen_log.h"
#include "tgen_net.h"
#include "tgen_run.h"

#include <stdbool.h>
#include <stdint.h>

struct net_sender flow_sender(const struct run *run, uint32_t number, int ahead);
/* Opens, connects and watches a sender in its namespace, and dates that: 0, or the error of the call that
 * *step names. */
int flow_open(struct run *run, uint32_t number, uint32_t events, const char **step);
void flow_begin(struct run *run, uint32_t number); /* it counts as under way */
int flow_end(struct run *run, uint32_t number, enum tgen_status status, int64_t at);
int flow_fail(struct run *run, uint32_t number, int error, const char *failed);

#endif
