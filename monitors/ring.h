/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of one interface, by a packet socket with a ring that the kernel fills (TPACKET_V3, packet(7)).
 *
 * The kernel hands over whole blocks: when one is full, or RING_RETIRE_NS after the last one. It copies a
 * frame when its transmission starts, behind the queue, and when it arrives, before anybody else sees it.
 * Reading costs no system call.
 */
#ifndef RING_H
#define RING_H

#include "fault.h"

#include <stdbool.h>
#include <stdint.h>

#define RING_RETIRE_NS 10000000ULL

enum ring_direction { RING_BOTH, RING_OUT, RING_IN };

struct ring {
	int fd;
	unsigned char *at;
	uint32_t next; /* block */
	uint64_t taken, lost,
		visited; /* frames that the kernel took, or lost for want of room; those visited */
};

#define RING_INIT                                                                                            \
	{                                                                                                    \
		.fd = -1                                                                                     \
	}

struct ring_frame {
	uint64_t t_ns; /* CLOCK_REALTIME */
	bool out;      /* sent, not received */
	const unsigned char *data;
	uint32_t captured, length;
};

/* Called for each frame; what it returns other than 0 ends the walk. */
typedef int (*ring_visit)(void *arg, const struct ring_frame *frame);

/* Opens the ring of `ifname` in `netns`, for the first `snap` bytes of frames: 0, or -errno with *f filled
 * in. */
int ring_open(struct ring *r, const char *netns, const char *ifname, uint32_t snap,
	      enum ring_direction direction, struct fault *f);
void ring_close(struct ring *r);

/* Visits the frames of all blocks that are there, in order, and gives the blocks back. */
int ring_drain(struct ring *r, ring_visit visit, void *arg);

/* No frame is taken from here on: 0, or -errno. */
int ring_stop(struct ring *r);

/* Frames that the kernel took and ring_drain() has not visited yet, or -errno. It counts `lost` up to now. */
int64_t ring_left(struct ring *r);

#endif
