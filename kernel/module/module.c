// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cable and the qdisc `port` as a module, for a kernel in real time with any number of CPUs.
 *
 * The driver itself is ../drivers/cable.c, included below: it is written for the lab, where there is one
 * CPU and no timer is ever late. Two of its functions are replaced here, and one is told another time:
 *
 * - A frame arrives on the CPU of its event's timer while the next may be sent on another. Both touch the
 * list of frames on their way: cable_host_arrival() does so under the lock of the transmit queue, which the
 *   kernel holds around cable_xmit(), and delivers after it has let it go.
 * - A transmitter is found free late, by as much as timers are late here. A frame that waited in the queue
 *   starts when the transmitter became free, not when that was noticed: else each frame would lose the
 *   lateness, and the line its rate. cable_host_free() notes whether one waits, and cable_xmit() asks
 *   cable_host_now() for the time.
 */
#include "compat.h"

#include <linux/lab_event.h>

struct cable;
static u64 cable_host_now(struct cable *cable);

/* The driver's own initcall gives way to cable_module_init(). */
#undef device_initcall
#define device_initcall(function) static int (*const cable_own_init)(void) __maybe_unused = function
#define lab_event_clock()         cable_host_now(cable)
#include "cable.c"
#undef lab_event_clock
#undef device_initcall
#define device_initcall(function) static int (*const port_own_init)(void) __maybe_unused = function
#include "port_buffer.c"
#include "sch_port.c" /* as it is: a qdisc is under the lock of its root */

#define CABLE_SLACK_NS (1 * NSEC_PER_MSEC) /* a waiting frame that is not sent by then was not due */

struct cable_host {
	struct cable cable;
	u64 woken_ns; /* when the transmitter was found free with a frame waiting; 0: none waited */
};

static struct cable_host *cable_host(struct cable *cable)
{
	return container_of(cable, struct cable_host, cable);
}

/* The moment at which a frame is handed over to the transmitter. */
static u64 cable_host_now(struct cable *cable)
{
	struct cable_host *host = cable_host(cable);
	u64 now = ktime_get_ns(), woken_ns = host->woken_ns;

	host->woken_ns = 0;
	if (woken_ns && now - woken_ns < CABLE_SLACK_NS)
		return cable_ps_to_timer_ns(cable->free_at_ps);
	return now;
}

static void cable_host_free(struct lab_event *event)
{
	struct cable *cable = container_of(event, struct cable, free_event);
	struct netdev_queue *queue = netdev_get_tx_queue(cable->dev, 0);

	rcu_read_lock();
	cable_host(cable)->woken_ns = rcu_dereference(queue->qdisc)->q.qlen ? ktime_get_ns() : 0;
	rcu_read_unlock();
	cable_free(event);
}

/* Moves the frames that have arrived to `due`, and starts the timer for the next. */
static void cable_host_take(struct cable *cable, struct sk_buff_head *due)
{
	struct netdev_queue *queue = netdev_get_tx_queue(cable->dev, 0);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	__netif_tx_lock(queue, smp_processor_id());
	while ((skb = skb_peek(&cable->flight)) && cable_cb(skb)->arrival_ns <= now) {
		__skb_unlink(skb, &cable->flight);
		cable->flight_bytes -= skb->len;
		__skb_queue_tail(due, skb);
	}
	if (skb && netif_running(cable->dev))
		lab_event_start(&cable->arrival_event, cable_cb(skb)->arrival_ns);
	__netif_tx_unlock(queue);
}

static void cable_host_arrival(struct lab_event *event)
{
	struct cable *cable = container_of(event, struct cable, arrival_event);
	struct sk_buff_head due;
	struct sk_buff *skb;

	__skb_queue_head_init(&due);
	cable_host_take(cable, &due);
	rcu_read_lock();
	while ((skb = __skb_dequeue(&due)))
		cable_deliver(cable, skb);
	rcu_read_unlock();
}

static struct net_device_ops cable_host_ops;

#ifndef HAVE_pcpu_stat_type
static int cable_host_init(struct net_device *dev)
{
	dev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	return dev->tstats ? 0 : -ENOMEM;
}

static void cable_host_uninit(struct net_device *dev)
{
	free_percpu(dev->tstats);
}
#endif

static void cable_host_setup(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);

	cable_setup(dev);
	dev->netdev_ops = &cable_host_ops;
	lab_event_setup(&cable->free_event, cable_host_free);
	lab_event_setup(&cable->arrival_event, cable_host_arrival);
}

#ifndef HAVE_rtnl_newlink_params
static int cable_host_newlink(struct net *src_net, struct net_device *dev, struct nlattr *tb[],
			      struct nlattr *data[], struct netlink_ext_ack *extack)
{
	struct rtnl_newlink_params params = { .src_net = src_net, .tb = tb, .data = data };

	return cable_newlink(dev, &params, extack);
}
#endif

static int __init cable_module_init(void)
{
	int err = register_qdisc(&port_qdisc_ops);

	if (err)
		return err;
	cable_host_ops = cable_netdev_ops;
	cable_host_ops.ndo_get_stats64 = dev_get_tstats64; /* kernels that allocate them need not show them */
#ifndef HAVE_pcpu_stat_type
	cable_host_ops.ndo_init = cable_host_init;
	cable_host_ops.ndo_uninit = cable_host_uninit;
#endif
#ifndef HAVE_rtnl_newlink_params
	cable_link_ops.newlink = cable_host_newlink;
#endif
#ifndef HAVE_peer_type
	cable_link_ops.slave_maxtype = 0;
#endif
	cable_link_ops.setup = cable_host_setup;
	cable_link_ops.priv_size = sizeof(struct cable_host);
	err = rtnl_link_register(&cable_link_ops);
	if (err)
		unregister_qdisc(&port_qdisc_ops);
	return err;
}
module_init(cable_module_init);

static void __exit cable_module_exit(void)
{
	rtnl_link_unregister(&cable_link_ops);
	unregister_qdisc(&port_qdisc_ops);
}
module_exit(cable_module_exit);
