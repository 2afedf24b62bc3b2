/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The NICs' network namespaces, and the programs of the data path that are attached to devices there. */
#ifndef NIC_HOOKS_H
#define NIC_HOOKS_H

#include "fault.h"
#include "nics.h"

#include <stdint.h>
#include <sys/types.h>

#define HOOK_PROGRAMS 4

struct hooks {
	const struct nics *nics;
	int program[HOOK_PROGRAMS]; /* descriptors, by hook_programs */
	struct hook *hook;          /* four a NIC, shared with the guard */
	pid_t guard;                /* the process that detaches */
	int alive;                  /* the pipe that tells it when */
};

/* The names of the programs. The last is loaded only where flows are capped. */
extern const char *const hook_programs[HOOK_PROGRAMS];

/* Runs `work` on each NIC in its namespace, and comes home: 0, or -errno and what went wrong. */
int in_each_nic(const struct nics *nics, int (*work)(void *context, uint32_t nic, struct fault *f),
		void *context, struct fault *f);
/* 0, or -errno and what went wrong; hooks_detach() undoes what was done, after failures, too. */
int hooks_attach(struct hooks *hooks, struct fault *f);
void hooks_detach(struct hooks *hooks);

#endif
