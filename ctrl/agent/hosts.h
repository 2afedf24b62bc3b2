/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts file: which host egresses carry a token bucket filter that an agent sets, in the order of its
 * actions. A record file with one table.
 */
#ifndef HOSTS_H
#define HOSTS_H

#include "ports.h"

#include <netinet/in.h>
#include <stdbool.h>

#define HOST_MAGIC    "DCGHOSTS"
#define HOST_VERSION  1
#define HOST_RATE_MIN 8ULL              /* bit/s: the kernel counts whole bytes a second */
#define HOST_RATE_MAX 10000000000000ULL /* the fastest cable's */

struct host {
	uint64_t line_bps, floor_bps; /* greatest and least rate */
	uint32_t row;                 /* of its port in the ports file; each is larger than the last */
	uint32_t burst_bytes, limit_bytes;
	uint32_t control_addr; /* where its agent listens, in network byte order; no control network: 0 */
	uint16_t control_port; /* likewise, in host byte order */
	uint8_t reserved[6];
};

static_assert(sizeof(struct host) == 40, "host");
static_assert(offsetof(struct host, row) == 16, "host");
static_assert(offsetof(struct host, control_port) == 32, "host");

struct hosts {
	struct record_file file; /* in which they lie */
	const struct host *host;
	const struct ports *ports;
	uint32_t n;
};

/* The hosts of `file`: 0, or -EINVAL with *f filled in. `control`: they have agents. */
int hosts_take(struct hosts *hosts, const struct ports *ports, bool control, struct fault *f);

const char *hosts_name(const struct hosts *hosts, uint32_t i);
struct sockaddr_in hosts_address(const struct hosts *hosts, uint32_t i);

#endif
