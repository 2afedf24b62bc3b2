/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An episode: sweeps at t0 + j * interval, steps at t0 + k * step, and the agent's commands carried out so
 * long after the step at which they were given as a decision takes.
 *
 * With a channel each step stops the lab, virtual time included, until the host has answered. Without one
 * nothing waits: commands are looked for at each sweep and each ms between, and the agent says in the state
 * matrix when the episode is to end. What happens at one instant happens in this
 * order: sweep, commands that are due, step, the command just given if it takes no time.
 */
#ifndef EPISODE_H
#define EPISODE_H

#include "actuators.h"
#include "commands.h"
#include "control.h"
#include "enforce.h"
#include "fault.h"
#include "sweeper.h"

#include <stdbool.h>
#include <stdint.h>

/* Without a channel: between looks for a command, where sweeps are farther apart. */
#define LOOK_NS 1000000ULL

enum step_code { STEP_GO_ON, STEP_RESET, STEP_END, NR_STEP_CODES }; /* the host's answers */

struct timing {
	uint64_t interval_ns, step_ns, latency_ns;
	bool check_late;
};

struct agent {
	struct timing timing;
	struct sweeper sweeper;
	struct actuators actuators;
	struct enforcer enforcer;
	struct commands pending;
	struct control control;
	bool by_packets; /* commands go by the control network, not straight to the kernel */
	int channel_fd;  /* -1: none */
	uint64_t taken;  /* number of the last command that was taken over */
	uint64_t late;   /* sweeps that began after the next was due, if somebody asked */
};

/* How an episode ended. */
struct end {
	uint64_t step;
	int code; /* enum step_code, or -1: a signal stopped it */
};

/* One episode of `count` steps: 0, or -errno and *f. Every value is that of the start before it and after it.
 */
int episode_run(struct agent *a, uint64_t t0_ns, uint64_t count, struct end *end, struct fault *f);

#endif
