/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts: the network namespaces between which the process goes, and the limits of sockets in each. */
#ifndef TGEN_HOSTS_H
#define TGEN_HOSTS_H

#include "calls.h"
#include "flow_table.h"
#include "tgen_net.h"

#include <stdint.h>

struct hosts {
	int *namespaces;           /* descriptors; -1: not open */
	struct net_limits *limits; /* zeros: not read yet */
	uint32_t count;
	uint32_t entered; /* the namespace that the process is in; UINT32_MAX: its own */
};

/* All answer 0 or -errno. */
int hosts_init(struct hosts *hosts, uint32_t count);
int hosts_open(struct hosts *hosts, const struct flow_table *table, uint32_t *failed); /* a namespace */
int hosts_enter(struct hosts *hosts, uint32_t ns);
void hosts_plan_enter(struct hosts *hosts, struct calls *calls, uint32_t ns);
void hosts_close(struct hosts *hosts);

#endif
