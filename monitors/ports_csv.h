/* SPDX-License-Identifier: Apache-2.0 */
/* The ports file: which interface of which namespace is which row. CSV, header `row,name,netns,ifname`. */
#ifndef PORTS_CSV_H
#define PORTS_CSV_H

#include "fault.h"
#include "state_matrix.h"

#include <stddef.h>
#include <stdint.h>

#define PORT_NETNS_LEN  256 /* with the final NUL, as the other two */
#define PORT_IFNAME_LEN 16

struct port {
	char name[SM_NAME_LEN];
	char netns[PORT_NETNS_LEN];
	char ifname[PORT_IFNAME_LEN];
};

struct ports {
	struct port *port;
	uint32_t n;
};

/*
 * Parse a whole file in memory: 0, -ENOMEM or -EINVAL, and *f says where and what: "line 3, ifname:
 * 'a-very-long-one' has 17 characters; give at most 15". On success the caller releases with ports_free(); on
 * failure there is nothing to release.
 */
int ports_csv_parse(const char *buf, size_t len, struct ports *out, struct fault *f);
void ports_free(struct ports *p);

#endif
