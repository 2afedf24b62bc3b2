/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From RTM_NEWQDISC messages to the counters of a port.
 *
 * A port may carry one qdisc or a tree of them; the dump shows each. What counts:
 *
 *   backlog, packets, bytes sent, requeues   of the root. A classful qdisc's queue includes its
 *       children's, and it counts a packet as sent when it really leaves; a child of tbf counts the
 *       packet that tbf has only peeked at.
 *   drops   of the root. Each qdisc counts a child's refusal at enqueue as a drop of its own
 *       (net_xmit_drop_count), and what a child throws away later reaches every parent's counter
 *       through qdisc_tree_reduce_backlog. So the root's counter has each lost packet once, and a sum
 *       over the tree would have it once a layer.
 *   marks   the sum over all qdiscs of the port: parents do not count what a child marks.
 *   bytes with CE, time integral of the queue, busy time, longest queue, pauses   of the root, if it is a
 * `port`.
 *
 * ingress and clsact hold no queue and are not counted. noqueue is passed by: its counters stay 0.
 * A netem with a delay has what is under way in its queue, as tc shows it.
 */
#ifndef QDISC_H
#define QDISC_H

#include "nl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qdisc_place { QDISC_ROOT, QDISC_CHILD, QDISC_INGRESS };

/* One qdisc as the kernel reports it. */
struct qdisc {
	int ifindex;
	uint32_t handle;
	enum qdisc_place place;
	uint32_t backlog_bytes, backlog_packets, drops, requeues;
	uint64_t tx_bytes, tx_packets, marks;
	/* of `port`; 0 of others */
	uint64_t ce_bytes, queue_byte_ns, busy_ns, longest_bytes, paused_ns, pauses, charged_bytes;
	struct nl_attr kind, options, app; /* in the message, and valid only as long as that is */
};

/* One port in one sweep: what its qdiscs say together. */
struct port_sample {
	bool has_root;
	struct qdisc root;
	uint64_t marks;
};

/* A port over all sweeps: totals in 64 bits, from the kernel's 32 where it has no more. */
struct port_counters {
	bool started;
	struct port_sample last;
	uint64_t tx_bytes, tx_packets, drops, marks, requeues;
	uint64_t ce_bytes, queue_byte_ns, busy_ns, paused_ns, pauses;
};

/* Parse the payload of an RTM_NEWQDISC: 0, or -EBADMSG and *q undefined. */
int qdisc_parse(const unsigned char *payload, size_t len, struct qdisc *q);

/* One class of a `port`: 0, or -ENOENT if it has no such class. */
int qdisc_class(const struct qdisc *q, uint32_t class, struct qdisc *found);

/* Returns true for a qdisc of that kind, such as "red". */
bool qdisc_is(const struct qdisc *q, const char *kind);

void port_sample_add(struct port_sample *s, const struct qdisc *q);

/*
 * Move the totals to a new sample. A 32-bit counter may wrap once between two sweeps. A counter that
 * begins again (the qdisc was replaced) adds to the total, so that totals never fall.
 */
void port_counters_advance(struct port_counters *c, const struct port_sample *now);

#endif
