/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that make a switch such as Open vSwitch set up its flows before the traffic starts: a TCP segment
 * (ACK, no payload) or an empty UDP datagram of each flow whose checksum is wrong, so that it crosses the
 * network and the receiving host drops it. Everything happens in the network namespace that the process is
 * in. All answer 0 or -errno, *step says at what.
 */
#ifndef TGEN_WARM_H
#define TGEN_WARM_H

#include <ifaddrs.h>
#include <stdbool.h>
#include <stdint.h>

#include "tgen_net.h"

#define WARM_FRAME_LEN 60 /* the shortest Ethernet frame, without its checksum */

struct warm_config {
	bool on;
	uint16_t mask;             /* bits of the ports that switches look at */
	uint32_t burst;            /* frames that are sent at once */
	int64_t gap_ns, settle_ns; /* pauses after them, and after the last */
};

struct warm_host {
	int fd;
	struct ifaddrs *addrs;
};

void warm_frame(uint8_t frame[WARM_FRAME_LEN], const uint8_t src_mac[6], const uint8_t dst_mac[6],
		int protocol, struct net_end src, struct net_end dst);
int warm_open(struct warm_host *host, const char **step);
int warm_send(const struct warm_host *host, int protocol, struct net_end src, struct net_end dst,
	      const char **step);
void warm_close(struct warm_host *host);

#endif
