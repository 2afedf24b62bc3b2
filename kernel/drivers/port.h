/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of a switch port know of one another.
 *
 * - cable.c sends PAUSE frames, hears them, and keeps which classes of its own end are paused.
 * - port_buffer.c has the buffer that ports of a switch share, and charges frames to where they came in.
 * - sch_port.c is the queueing discipline: classes, their order, marks, telemetry.
 */
#ifndef LAB_PORT_H
#define LAB_PORT_H

#include <linux/lab.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include <linux/lab_event.h>

/* ---- cable.c ---- */

/* Times in which an end was paused, as of the call. */
struct cable_pauses {
	u64 sent, received;
	u64 paused_ns;
	u64 class_ns[TC_PORT_CLASSES];
};

struct port_ingress;

bool cable_is(const struct net_device *dev);
/* The qdisc of this end looks at the paused classes by itself; otherwise any pause stops the device. */
const u8 *cable_attach_port(struct net_device *dev);
void cable_detach_port(struct net_device *dev);
void cable_read_pauses(const struct net_device *dev, u64 now_ns, struct cable_pauses *pauses);
void cable_set_ingress(struct net_device *dev, struct port_ingress *ingress);
struct port_ingress *cable_ingress(const struct net_device *dev);
/* Tells the peer to hold those classes for so many quanta, and to go on with the others of `changed`. */
void cable_send_pause(struct net_device *dev, u8 changed, u8 hold, u16 quanta, bool whole_port);
u64 cable_quanta_ns(const struct net_device *dev, u32 quanta);

/* ---- port_buffer.c ---- */

struct port_pool {
	struct list_head list;
	struct net *net;
	u32 id, users;
	spinlock_t lock; /* also of all ingresses that take room here */
	u64 bytes, used_bytes;
};

struct port_ingress_class {
	u32 bytes;          /* in reserve and pool */
	u32 headroom_bytes; /* in headroom */
	u64 pauses;
};

/* Frames that came in at one port and wait in their switch. It outlives its port until the last has left. */
struct port_ingress {
	struct net_device *dev;
	struct port_pool *pool;
	struct tc_port_pfc pfc;
	struct port_ingress_class of_class[TC_PORT_CLASSES];
	struct lab_event refresh;
	u64 frames; /* charged now */
	u64 refused;
	u32 most_headroom_bytes;
	u8 off; /* classes that the peer was told to hold */
};

struct port_pool *port_pool_get(struct net *net, const struct tc_port_pool *asked);
void port_pool_put(struct port_pool *pool);
bool port_pool_take(struct port_pool *pool, u32 queued_bytes, u32 len, u32 reserve_bytes, u32 alpha);
void port_pool_give(struct port_pool *pool, u32 queued_bytes, u32 len, u32 reserve_bytes);

struct port_ingress *port_ingress_new(struct net_device *dev, struct port_pool *pool);
void port_ingress_end(struct port_ingress *in);
struct port_ingress *port_ingress_of(const struct sk_buff *skb, struct net *net);
bool port_ingress_charge(struct port_ingress *in, unsigned int which, u32 len);
void port_ingress_release(struct port_ingress *in, unsigned int which, u32 len);

#endif
