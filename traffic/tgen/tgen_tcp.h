/* SPDX-License-Identifier: Apache-2.0 */
/* What one TCP flow does at a time or an event. */
#ifndef TGEN_TCP_H
#define TGEN_TCP_H

#include "flow_state.h"
#include "tgen_log.h"
#include "tgen_net.h"
#include "tgen_run.h"

#include <stdint.h>

#define AHEAD_FIRST (128 << 10) /* bytes that a sender's socket holds unsent, before the first sample */
#define BATCH_MAX   (256 << 10) /* bytes that a receiver leaves unread */

/* At what the kernel tells of a flow's two sockets. */
struct look {
	uint32_t flow;
	struct net_tcp_look sender, receiver;
};

int tcp_start(struct run *run, uint32_t number);
int tcp_offer(struct run *run, uint32_t number, int64_t at);
int tcp_stop(struct run *run, uint32_t number, enum phase phase); /* the flow has ended in that phase */
int tcp_accept(struct run *run, uint32_t listener);
int tcp_on_sender(struct run *run, uint32_t number, uint32_t events);
int tcp_on_receiver(struct run *run, uint32_t number, uint32_t events);
/* A look is planned, run->calls is run, and then the sample is taken. */
void tcp_plan_look(struct run *run, struct look *look);
int tcp_sample(struct run *run, const struct look *look, struct tgen_sample_record *sample);
int tcp_expect(struct run *run, uint32_t number); /* a job's next message is under way */
int tcp_settle(struct run *run, uint32_t number);

#endif
