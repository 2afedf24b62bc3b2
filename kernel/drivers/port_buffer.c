// SPDX-License-Identifier: GPL-2.0-only
/*
 * The buffer of a switch, and what of it frames take: see port.h.
 *
 * A lossy class of a port takes room for its queue beyond its reserve. It is full at alpha times the free
 * room (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
 *
 * A frame of a lossless class is charged to the port where it came in, and released when its transmission
 * starts or it is dropped. Reserve, pool and headroom are used in the order of HPCC's simulator
 * (switch-mmu.cc: UpdateIngressAdmission, RemoveFromIngressAdmission, CheckShouldPause, CheckShouldResume).
 *
 * The room that a frame needs is there or not at the moment at which it comes to its egress queue; no time
 * passes between the ingress and that.
 */
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "port.h"

static LIST_HEAD(port_pools); /* added to under RTNL; with bottom halves off, in which the last user may go */

/* ---- pools ---- */

/* The pool that is there already, with a user more. */
static struct port_pool *port_pool_join(struct net *net, const struct tc_port_pool *asked)
{
	struct port_pool *pool, *found = NULL;

	local_bh_disable();
	list_for_each_entry(pool, &port_pools, list)
	{
		if (pool->net != net || pool->id != asked->id)
			continue;
		found = pool;
		found->users++;
		found->bytes = asked->bytes;
	}
	local_bh_enable();
	return found;
}

struct port_pool *port_pool_get(struct net *net, const struct tc_port_pool *asked)
{
	struct port_pool *pool;

	ASSERT_RTNL();
	pool = port_pool_join(net, asked);
	if (pool)
		return pool;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		return NULL;
	pool->net = net;
	pool->id = asked->id;
	pool->users = 1;
	pool->bytes = asked->bytes;
	spin_lock_init(&pool->lock);
	local_bh_disable();
	list_add(&pool->list, &port_pools);
	local_bh_enable();
	return pool;
}

void port_pool_put(struct port_pool *pool)
{
	bool last;

	local_bh_disable();
	last = !--pool->users;
	if (last)
		list_del(&pool->list);
	local_bh_enable();
	if (!last)
		return;
	WARN_ON_ONCE(pool->used_bytes);
	kfree(pool);
}

static u64 port_pool_free(const struct port_pool *pool)
{
	return pool->bytes > pool->used_bytes ? pool->bytes - pool->used_bytes : 0;
}

/* The bytes of a queue, or of an ingress, that its reserve does not hold. */
static u32 port_beyond(u32 bytes, u32 reserve_bytes)
{
	return bytes > reserve_bytes ? bytes - reserve_bytes : 0;
}

/* Takes room for a frame of a lossy class; false if the class is full. */
bool port_pool_take(struct port_pool *pool, u32 queued_bytes, u32 len, u32 reserve_bytes, u32 alpha)
{
	u32 held = port_beyond(queued_bytes, reserve_bytes);
	u32 more = port_beyond(queued_bytes + len, reserve_bytes) - held;
	bool fits = true;
	u64 free;

	if (!more)
		return true;
	spin_lock(&pool->lock);
	free = port_pool_free(pool);
	if (more > free || held >= (free * alpha) >> 16)
		fits = false;
	else
		pool->used_bytes += more;
	spin_unlock(&pool->lock);
	return fits;
}

/* `queued_bytes`: before the frame leaves. */
void port_pool_give(struct port_pool *pool, u32 queued_bytes, u32 len, u32 reserve_bytes)
{
	spin_lock(&pool->lock);
	pool->used_bytes -=
		port_beyond(queued_bytes, reserve_bytes) - port_beyond(queued_bytes - len, reserve_bytes);
	spin_unlock(&pool->lock);
}

/* ---- ingresses ---- */

/* After half of the quanta, but PAUSE frames, which are shorter than a quantum, must not pile up. */
static void port_ingress_repeat_later(struct port_ingress *in)
{
	u64 later_ns = max3(cable_quanta_ns(in->dev, in->pfc.quanta) / 2, cable_quanta_ns(in->dev, 1), 1ull);

	lab_event_start(&in->refresh, ktime_to_ns(ktime_get()) + later_ns);
}

/* A device that is down sends nothing, and what it held before goes on when it is up again. */
static void port_ingress_refresh(struct lab_event *event)
{
	struct port_ingress *in = container_of(event, struct port_ingress, refresh);

	if (!in->off)
		return;
	cable_send_pause(in->dev, in->off, in->off, in->pfc.quanta, in->pfc.whole_port);
	port_ingress_repeat_later(in);
}

struct port_ingress *port_ingress_new(struct net_device *dev, struct port_pool *pool)
{
	struct port_ingress *in = kzalloc(sizeof(*in), GFP_KERNEL);

	if (!in)
		return NULL;
	lab_event_setup(&in->refresh, port_ingress_refresh);
	if (lab_event_begin(&in->refresh)) {
		kfree(in);
		return NULL;
	}
	in->dev = dev;
	in->pool = pool;
	pool->users++;
	cable_set_ingress(dev, in);
	return in;
}

static void port_ingress_free(struct port_ingress *in)
{
	port_pool_put(in->pool);
	kfree(in);
}

/* Its port goes away; RTNL is held. */
void port_ingress_end(struct port_ingress *in)
{
	cable_set_ingress(in->dev, NULL);
	synchronize_net();
	lab_event_end(&in->refresh);
	local_bh_disable();
	in->dev = NULL;
	local_bh_enable();
	if (!in->frames)
		port_ingress_free(in);
}

/* Where the frame came into this switch; NULL: it was made here, or nothing is charged there. */
struct port_ingress *port_ingress_of(const struct sk_buff *skb, struct net *net)
{
	struct net_device *dev = skb->skb_iif ? dev_get_by_index_rcu(net, skb->skb_iif) : NULL;

	return dev && cable_is(dev) ? cable_ingress(dev) : NULL;
}

static u64 port_xoff_bytes(const struct port_ingress *in)
{
	if (!in->pfc.share_of)
		return in->pfc.xoff_bytes;
	return div_u64(port_pool_free(in->pool) * in->pfc.share, in->pfc.share_of);
}

/* The frame takes reserve and pool, or headroom; false if there is none left. */
static bool port_ingress_take(struct port_ingress *in, struct port_ingress_class *c, u32 len)
{
	u32 beyond = port_beyond(c->bytes + len, in->pfc.reserve_bytes);
	u32 more = beyond - port_beyond(c->bytes, in->pfc.reserve_bytes);

	if (beyond && (beyond > port_xoff_bytes(in) || more > port_pool_free(in->pool))) {
		if (c->headroom_bytes + len > in->pfc.headroom_bytes)
			return false;
		c->headroom_bytes += len;
		in->most_headroom_bytes = max(in->most_headroom_bytes, c->headroom_bytes);
		return true;
	}
	c->bytes += len;
	in->pool->used_bytes += more;
	return true;
}

static void port_ingress_give(struct port_ingress *in, struct port_ingress_class *c, u32 len)
{
	u32 from_headroom = min(c->headroom_bytes, len);
	u32 beyond = port_beyond(c->bytes, in->pfc.reserve_bytes);

	c->headroom_bytes -= from_headroom;
	c->bytes -= len - from_headroom;
	in->pool->used_bytes -= beyond - port_beyond(c->bytes, in->pfc.reserve_bytes);
}

static void port_ingress_tell(struct port_ingress *in, u8 off)
{
	u8 changed = off ^ in->off;
	bool any = in->off;

	in->off = off;
	if (in->pfc.whole_port) {
		if (any == !!off)
			return;
		changed = 0xff;
		off = off ? 0xff : 0;
	}
	cable_send_pause(in->dev, changed, off & changed, in->pfc.quanta, in->pfc.whole_port);
	if (!any)
		port_ingress_repeat_later(in);
	else if (!in->off)
		lab_event_cancel(&in->refresh);
}

/* False: there is no room, and the frame is to be dropped. */
bool port_ingress_charge(struct port_ingress *in, unsigned int which, u32 len)
{
	struct port_ingress_class *c = &in->of_class[which];
	u8 off = in->off;
	bool fits;

	spin_lock(&in->pool->lock);
	fits = port_ingress_take(in, c, len);
	/* A class that holds nothing releases nothing, so no pause of it would end. */
	if (c->headroom_bytes ||
	    (c->bytes && port_beyond(c->bytes, in->pfc.reserve_bytes) >= port_xoff_bytes(in)))
		off |= BIT(which);
	spin_unlock(&in->pool->lock);
	in->frames += fits;
	in->refused += !fits;
	if (off != in->off) {
		c->pauses++;
		port_ingress_tell(in, off);
	}
	return fits;
}

/* The frame starts to leave the switch, or is dropped there. */
void port_ingress_release(struct port_ingress *in, unsigned int which, u32 len)
{
	struct port_ingress_class *c = &in->of_class[which];
	bool resume;
	u32 beyond;

	spin_lock(&in->pool->lock);
	port_ingress_give(in, c, len);
	beyond = port_beyond(c->bytes, in->pfc.reserve_bytes);
	resume = !c->headroom_bytes && (!beyond || beyond + in->pfc.xon_below_bytes <= port_xoff_bytes(in));
	spin_unlock(&in->pool->lock);
	in->frames--;
	if (unlikely(!in->dev)) {
		if (!in->frames)
			port_ingress_free(in);
		return;
	}
	if (in->off & BIT(which) && resume)
		port_ingress_tell(in, in->off & ~BIT(which));
}
