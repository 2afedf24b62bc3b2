/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control packets: commands to an agent in each host (hostd) over an out-of-band network, and its echoes.
 *
 * One UDP datagram a host and command, little-endian. The host carries out a command whose number is above
 * the last one's and echoes it with the time at which it did; an old or repeated number is echoed and no
 * more. The controller never waits: echoes are looked for at each sweep, a command without one is sent again
 * after a time-out, and a newer command takes its place. So a lost packet costs that host a time-out and
 * nobody else anything.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "actuators.h"
#include "batch.h"
#include "fault.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_MAGIC 0x54434344 /* "DCCT" */

enum control_kind { CONTROL_COMMAND = 1, CONTROL_ECHO = 2 };

struct control_packet {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t host; /* its row in the actuators file */
	uint32_t reserved;
	uint64_t seq;
	uint64_t value;      /* what its actuator is to have */
	uint64_t applied_ns; /* of an echo: CLOCK_MONOTONIC at which that host last obeyed */
};

static_assert(sizeof(struct control_packet) == 40, "control packet");

/* A packet of the other side, for one of `hosts` hosts? */
bool control_check(const struct control_packet *p, size_t len, enum control_kind kind, uint32_t hosts);

/* The controller. */
struct control {
	const struct actuators *hosts; /* each with one value */
	struct line *lines;            /* one a host */
	struct batch batch;
	uint64_t timeout_ns;
	uint64_t timeouts; /* commands sent again */
};

/* Sockets in the namespace `netns`, to the hosts' addresses. */
int control_open(struct control *c, const struct actuators *hosts, const char *netns, uint64_t timeout_ns,
		 struct fault *f);
void control_close(struct control *c);

/* Send every host its value, the first of SM_MAX_VALUES, under number `seq`; it is t_ns. */
int control_send(struct control *c, uint64_t seq, const uint64_t *wanted, uint64_t t_ns, struct fault *f);

/* Take the echoes that have come, and send again what is overdue. */
int control_poll(struct control *c, uint64_t t_ns, struct fault *f);

/* All that was sent so far is given up; `seq`: the last number. */
int control_forget(struct control *c, uint64_t seq, struct fault *f);

/* The last command that a host has carried out, and by all of them: the number that each has reached, and
 * when. */
uint64_t control_acked(const struct control *c, uint32_t i);
uint64_t control_all_acked(const struct control *c, uint64_t *applied_ns);

#endif
