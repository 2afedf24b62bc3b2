/* SPDX-License-Identifier: Apache-2.0 */
/* The ports file: which interface of which namespace is which row. A record file with one table. */
#ifndef PORTS_H
#define PORTS_H

#include "record_file.h"
#include "state_matrix.h"

#define PORT_MAGIC      "DCGPORTS"
#define PORT_VERSION    2
#define PORT_NETNS_LEN  256
#define PORT_IFNAME_LEN 16

/* Words, each with a final NUL. The record's number is the row in the state matrix. */
struct port {
	char name[SM_NAME_LEN];
	char netns[PORT_NETNS_LEN]; /* a path; "-": the present namespace */
	char ifname[PORT_IFNAME_LEN];
	uint32_t class; /* 0: the whole port; n: its class n - 1 */
	uint32_t reserved;
};

static_assert(sizeof(struct port) == 312, "port");
static_assert(offsetof(struct port, netns) == 32, "port");
static_assert(offsetof(struct port, ifname) == 288, "port");
static_assert(offsetof(struct port, class) == 304, "port");

struct ports {
	struct record_file file; /* in which they lie */
	const struct port *port;
	uint32_t n;
};

/* The ports of `file`: 0, or -EINVAL with *f filled in. */
int ports_take(struct ports *ports, struct fault *f);

#endif
