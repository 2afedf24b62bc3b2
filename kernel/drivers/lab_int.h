/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * In-band telemetry (INT): what switch ports write into frames of NICs, and NICs read.
 *
 * The form is HPCC's (Li et al., SIGCOMM 2019): a frame that asks for telemetry has 42 reserved bytes behind
 * its NIC header, a count and five records of 8 bytes. A port fills the next record when the frame leaves its
 * queue. Lengths never change on the way. All numbers are in network byte order.
 *
 * A record's fields are short, so they count units. A unit belongs to a line rate: 80 bytes of queue and 128
 * bytes sent at 25 Gbit/s and below, in proportion above, as in HPCC's simulator; 1 ns at 25 Gbit/s and
 * above, in proportion below. A record names its rate by its place in the network's table of rates.
 */
#ifndef LAB_INT_H
#define LAB_INT_H

#include <linux/types.h>

#define LAB_INT_HOPS  5
#define LAB_INT_RATES 8 /* different line rates in one network */
#define LAB_INT_BYTES 42

/* Where it lies in a frame: Ethernet, IPv4 without options, UDP and the NIC's header stand before it. */
#define LAB_INT_AT      74
#define LAB_INT_UDP     4791 /* destination port */
#define LAB_INT_VERSION 2    /* first byte of the NIC's header */
#define LAB_INT_FLAG    8    /* in its third byte: this frame has telemetry */
#define LAB_INT_WRITE   1    /* its second byte, the opcode: ports write into frames of this one alone */

struct lab_int {
	__be16 hops;
	__be64 hop[LAB_INT_HOPS];
} __attribute__((packed));

#define LAB_INT_RATE_SHIFT 61 /* 3 bits: place in the table of rates */
#define LAB_INT_TIME_SHIFT 37 /* 24 bits: when the frame left; wraps */
#define LAB_INT_SENT_SHIFT 17 /* 20 bits: sent before this frame; wraps */
#define LAB_INT_TIME_MASK  0xffffffull
#define LAB_INT_SENT_MASK  0xfffffull
#define LAB_INT_QUEUE_MASK                                                                                   \
	0x1ffffull /* 17 bits: left behind in the queue; the largest value stands for more */

/* The units of a rate. */
struct lab_int_unit {
	__u32 time_ns, sent_bytes, queue_bytes;
};

/* Returns a record. Each field is rounded down. */
static inline __u64 lab_int_record(const struct lab_int_unit *unit, __u32 rate, __u64 time_ns,
				   __u64 sent_bytes, __u32 queue_bytes)
{
	__u64 queue = queue_bytes / unit->queue_bytes;

	return (__u64)rate << LAB_INT_RATE_SHIFT |
	       (time_ns / unit->time_ns & LAB_INT_TIME_MASK) << LAB_INT_TIME_SHIFT |
	       (sent_bytes / unit->sent_bytes & LAB_INT_SENT_MASK) << LAB_INT_SENT_SHIFT |
	       (queue < LAB_INT_QUEUE_MASK ? queue : LAB_INT_QUEUE_MASK);
}

#endif
