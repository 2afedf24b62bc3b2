// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cable: a pair of Ethernet devices with a line rate and a propagation delay.
 *
 * A frame keeps its transmitter busy for the serialization time, length x 8 / rate, then travels for
 * the delay and arrives at the peer. While the transmitter is busy its queue is stopped, so the
 * queueing discipline above is the port's real and only queue. Each direction has its own rate and
 * delay; there is no other queue.
 *
 * A direction may be impaired. Of the frames sent from impaired_from_ns on, numbered from 0, each is
 * lost on the way with probability loss_ppb, travels longer by a uniform draw from 0 .. jitter_ns, and
 * with probability reorder_ppb longer by reorder_delay_ns. Jitter keeps the order: who would overtake
 * arrives with the frame ahead. A reordered frame delays none of the frames behind it. The draws are
 * splitmix64's numbers 3n, 3n + 1 and 3n + 2 for frame n, so one impairment never changes another's.
 *
 * Lengths are frame bytes as skb->len has them at an Ethernet device: header and payload, at least
 * 60, without FCS, preamble and gap. Time is kept in picoseconds and what they miss is carried on, so
 * that a train of frames does not drift at any rate; events round up to the next nanosecond.
 *
 * A frame belongs to its sender's socket until its transmission starts (skb_orphan), as with a NIC
 * that completes at once: TCP small queues and SO_SNDBUF see the host's queue, and nothing beyond.
 *
 * An end that hears a PAUSE frame (IEEE 802.3x, or 802.1Qbb for single classes) holds those classes for the
 * time that the frame says. A qdisc that knows classes leaves their frames alone; above any other the whole
 * queue stops. PAUSE frames pass no queue: they start behind the frame under way, take their time on the wire
 * and arrive after the delay. Impairments leave them alone, and they are in counters of their own.
 *
 * A direction may be cut: all frames on their way are lost at once, and so is what is sent until the cut
 * ends. The port does not notice. It sends at its rate, so its queue drains; every lost frame is counted.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/lab.h>
#include <linux/lab_event.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#include "lab_draw.h"
#include "port.h"

#define DRV_NAME           "cable"
#define CABLE_RATE_DEFAULT (10ull * 1000 * 1000 * 1000)
#define CABLE_RATE_MAX     (10ull * 1000 * 1000 * 1000 * 1000)
#define CABLE_DELAY_MAX    (10ull * NSEC_PER_SEC)
#define CABLE_PPB_MAX      1000000000u

#define PAUSE_OPCODE_PORT    0x0001 /* IEEE 802.3 annex 31B */
#define PAUSE_OPCODE_CLASSES 0x0101 /* IEEE 802.1Qbb */
#define PAUSE_QUANTUM_BITS   512

struct pause_frame {
	struct ethhdr eth;
	__be16 opcode;
	__be16 operand;                 /* the quanta of the port, or a bit for each class that counts */
	__be16 quanta[TC_PORT_CLASSES]; /* of 802.1Qbb alone */
} __packed;

enum cable_draw { CABLE_DRAW_LOSS, CABLE_DRAW_JITTER, CABLE_DRAW_REORDER, CABLE_DRAWS };

struct cable {
	struct net_device *dev;
	struct net_device __rcu *peer;
	u64 rate_bps;
	u64 delay_ns;
	u64 free_at_ps;             /* when the last bit of the last frame leaves, rounded up, */
	u64 ahead;                  /* and how much sooner that really is, in ps / rate_bps */
	struct sk_buff_head flight; /* frames on their way, in order of arrival */
	u64 flight_bytes;
	u64 last_arrival_ns;          /* of the frames that may not be overtaken */
	u64 lost_packets, lost_bytes; /* frames that found no peer, or one that was down */
	u64 seed;
	u64 impaired_from_ns; /* CLOCK_MONOTONIC */
	u64 impaired_frames;  /* sent since then: the number of the next */
	u64 jitter_ns;
	u64 reorder_delay_ns;
	u32 loss_ppb; /* parts in 10^9 */
	u32 reorder_ppb;
	u64 dropped_packets, dropped_bytes; /* by loss_ppb */
	u64 reordered_packets;
	struct lab_event free_event;        /* the transmitter is free again */
	struct lab_event arrival_event;     /* the first frame of flight arrives */
	struct port_ingress __rcu *ingress; /* charges what comes in here */
	unsigned int ports;                 /* qdiscs of this end that know classes */
	u8 paused;                          /* classes that the peer has us hold, a bit each */
	u64 paused_until_ns[TC_PORT_CLASSES];
	u64 paused_since_ns; /* when the times below were last brought up to date */
	u64 paused_ns, class_paused_ns[TC_PORT_CLASSES];
	u64 pauses_sent, pauses_received, pauses_lost, pauses_in_flight, pause_bytes_in_flight;
	u32 ring_ifindex, ring_classes;
	struct lab_event resume_event; /* the first pause is over */
	bool cut;
	u64 cut_packets, cut_bytes; /* frames that were on their way, or sent, when it was */
};

struct cable_cb {
	u64 arrival_ns;
};

static struct cable_cb *cable_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct cable_cb) > sizeof(skb->cb));
	return (struct cable_cb *)skb->cb;
}

/* A PAUSE frame on its way is lost; false: it is another frame. */
static bool cable_lose_pause(struct cable *cable, struct sk_buff *skb)
{
	if (likely(skb->protocol != htons(ETH_P_PAUSE)))
		return false;
	cable->pauses_lost++;
	cable->pauses_in_flight--;
	cable->pause_bytes_in_flight -= skb->len;
	kfree_skb(skb);
	return true;
}

static void cable_lose(struct cable *cable, struct sk_buff *skb)
{
	if (cable_lose_pause(cable, skb))
		return;
	cable->lost_packets++;
	cable->lost_bytes += skb->len;
	dev_core_stats_tx_dropped_inc(cable->dev);
	kfree_skb_reason(skb, SKB_DROP_REASON_DEV_READY);
}

/* All below runs in softirq context, or with bottom halves off, on the lab's one CPU; __QUEUE_STATE
 * and the events are therefore never touched by two at a time.
 */

static void cable_free(struct lab_event *event)
{
	struct cable *cable = container_of(event, struct cable, free_event);

	if (unlikely(cable->paused) && !cable->ports)
		return;
	netif_wake_queue(cable->dev);
}

/* ---- Paused by the peer ---- */

/* Brings the times up to date. */
static void cable_tally_pauses(struct cable *cable, u64 now_ns)
{
	u64 passed = now_ns - cable->paused_since_ns;
	unsigned int which;

	cable->paused_since_ns = now_ns;
	if (!cable->paused)
		return;
	cable->paused_ns += passed;
	for (which = 0; which < TC_PORT_CLASSES; which++)
		if (cable->paused & BIT(which))
			cable->class_paused_ns[which] += passed;
}

/* The NIC's ring holds its tokens while the wire holds its frames: fq keeps them until then. */
static void cable_stop_ring(struct cable *cable, u8 before)
{
	bool was = before & cable->ring_classes, is = cable->paused & cable->ring_classes;
	struct net_device *ring;

	if (was == is)
		return;
	ring = dev_get_by_index_rcu(dev_net(cable->dev), cable->ring_ifindex);
	if (!ring)
		return;
	if (is)
		netif_tx_stop_queue(netdev_get_tx_queue(ring, 0));
	else
		netif_tx_wake_queue(netdev_get_tx_queue(ring, 0));
}

static void cable_hold(struct cable *cable, u8 paused)
{
	u8 before = cable->paused;

	cable->paused = paused;
	if (cable->ports) {
		if (before & ~paused)
			netif_schedule_queue(netdev_get_tx_queue(cable->dev, 0));
	} else if (paused && !before) {
		netif_stop_queue(cable->dev);
	} else if (!paused && before && !lab_event_queued(&cable->free_event)) {
		netif_wake_queue(cable->dev);
	}
	if (cable->ring_ifindex)
		cable_stop_ring(cable, before);
}

/* Goes by the times until which classes are paused. */
static void cable_look_at_pauses(struct cable *cable, u64 now_ns)
{
	u64 next_ns = U64_MAX;
	unsigned int which;
	u8 paused = 0;

	for (which = 0; which < TC_PORT_CLASSES; which++)
		if (cable->paused_until_ns[which] > now_ns) {
			paused |= BIT(which);
			next_ns = min(next_ns, cable->paused_until_ns[which]);
		}
	cable_tally_pauses(cable, now_ns);
	if (paused)
		lab_event_start(&cable->resume_event, next_ns);
	else
		lab_event_cancel(&cable->resume_event);
	if (paused != cable->paused)
		cable_hold(cable, paused);
}

static void cable_resume(struct lab_event *event)
{
	struct cable *cable = container_of(event, struct cable, resume_event);

	rcu_read_lock();
	cable_look_at_pauses(cable, ktime_to_ns(ktime_get()));
	rcu_read_unlock();
}

static u64 cable_pause_ns(const struct cable *cable, u32 quanta)
{
	return div64_u64(quanta * (u64)PAUSE_QUANTUM_BITS * NSEC_PER_SEC, cable->rate_bps);
}

/* A PAUSE frame has come; others of its type mean nothing here. */
static void cable_hear_pause(struct cable *cable, const struct sk_buff *skb)
{
	const struct pause_frame *frame = (const void *)skb->data;
	u64 now_ns = ktime_to_ns(ktime_get());
	unsigned int which;
	u16 operand;

	cable->pauses_received++;
	if (skb_headlen(skb) < sizeof(*frame))
		return;
	operand = ntohs(frame->operand);
	for (which = 0; which < TC_PORT_CLASSES; which++) {
		u32 quanta;

		if (frame->opcode == htons(PAUSE_OPCODE_PORT))
			quanta = operand;
		else if (frame->opcode == htons(PAUSE_OPCODE_CLASSES) && operand & BIT(which))
			quanta = ntohs(frame->quanta[which]);
		else
			continue;
		cable->paused_until_ns[which] = now_ns + cable_pause_ns(cable, quanta);
	}
	cable_look_at_pauses(cable, now_ns);
}

static void cable_deliver(struct cable *cable, struct sk_buff *skb)
{
	struct net_device *peer = rcu_dereference(cable->peer);

	if (unlikely(!peer || !netif_running(peer))) {
		cable_lose(cable, skb);
		return;
	}
	if (unlikely(skb->protocol == htons(ETH_P_PAUSE))) {
		cable->pauses_in_flight--;
		cable->pause_bytes_in_flight -= skb->len;
		cable_hear_pause(netdev_priv(peer), skb);
		consume_skb(skb);
		return;
	}
	dev_sw_netstats_rx_add(peer, skb->len);
	skb->protocol = eth_type_trans(skb, peer);
	netif_receive_skb(skb);
}

static void cable_arrival(struct lab_event *event)
{
	struct cable *cable = container_of(event, struct cable, arrival_event);
	u64 now = lab_event_clock();
	struct sk_buff *skb;

	rcu_read_lock();
	while ((skb = skb_peek(&cable->flight)) && cable_cb(skb)->arrival_ns <= now) {
		__skb_unlink(skb, &cable->flight);
		cable->flight_bytes -= skb->len;
		cable_deliver(cable, skb);
	}
	rcu_read_unlock();
	/* Delivery may have sent a frame back into this very cable and started the event anew. */
	skb = skb_peek(&cable->flight);
	if (skb && !lab_event_queued(event))
		lab_event_start(event, cable_cb(skb)->arrival_ns);
}

static u64 cable_ps_to_timer_ns(u64 ps)
{
	return div64_u64(ps + PSEC_PER_NSEC - 1, PSEC_PER_NSEC);
}

static void cable_stop_until_free(struct cable *cable)
{
	netif_stop_queue(cable->dev);
	lab_event_start(&cable->free_event, cable_ps_to_timer_ns(cable->free_at_ps));
}

/* A frame leaves behind all that it carries inside a host. */
static void cable_scrub(struct sk_buff *skb)
{
	skb_tx_timestamp(skb);
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	skb_clear_hash(skb);
	skb_set_queue_mapping(skb, 0);
	skb->priority = 0;
}

/* The transmitter serializes a frame, behind the one under way. Returns when it arrives. A frame that waited
 * is handed over at the first whole nanosecond after the transmitter became free: less than a nanosecond late
 * is not late, or fractions would add up.
 */
static u64 cable_occupy(struct cable *cable, unsigned int len, u64 now_ns)
{
	u64 now_ps = now_ns * PSEC_PER_NSEC, length, ps;

	if (now_ps >= cable->free_at_ps + PSEC_PER_NSEC) {
		cable->free_at_ps = now_ps;
		cable->ahead = 0;
	}
	length = len * 8ull * PSEC_PER_SEC - cable->ahead;
	ps = div64_u64(length + cable->rate_bps - 1, cable->rate_bps);
	cable->ahead = ps * cable->rate_bps - length;
	cable->free_at_ps += ps;
	return cable_ps_to_timer_ns(cable->free_at_ps) + cable->delay_ns;
}

/* A frame that may bypass an empty qdisc is counted as sent before it is seen that the transmitter is
 * busy, and then again as waiting. Without the bypass the qdisc's counters are those of the cable.
 */
static void cable_no_bypass(struct net_device *dev)
{
	struct Qdisc *qdisc = rcu_dereference_bh(netdev_get_tx_queue(dev, 0)->qdisc);

	if (unlikely(qdisc->flags & TCQ_F_CAN_BYPASS))
		qdisc->flags &= ~TCQ_F_CAN_BYPASS;
}

static u64 cable_draw(const struct cable *cable, u64 frame, enum cable_draw draw)
{
	return lab_draw(cable->seed, frame * CABLE_DRAWS + draw);
}

static bool cable_happens(const struct cable *cable, u64 frame, enum cable_draw draw, u32 ppb)
{
	return ppb && mul_u64_u64_shr(cable_draw(cable, frame, draw), CABLE_PPB_MAX, 64) < ppb;
}

/* Moves a frame's arrival as the impairments say and keeps the order; false if the frame is lost. */
static bool cable_impair(struct cable *cable, u64 now_ns, u64 *arrival_ns)
{
	u64 frame;

	if (now_ns < cable->impaired_from_ns)
		goto keep;
	frame = cable->impaired_frames++;
	if (cable_happens(cable, frame, CABLE_DRAW_LOSS, cable->loss_ppb))
		return false;
	if (cable->jitter_ns)
		*arrival_ns += mul_u64_u64_shr(cable_draw(cable, frame, CABLE_DRAW_JITTER),
					       cable->jitter_ns + 1, 64);
	if (cable_happens(cable, frame, CABLE_DRAW_REORDER, cable->reorder_ppb)) {
		*arrival_ns = max(*arrival_ns, cable->last_arrival_ns) + cable->reorder_delay_ns;
		cable->reordered_packets++;
		return true;
	}
keep:
	*arrival_ns = max(*arrival_ns, cable->last_arrival_ns);
	cable->last_arrival_ns = *arrival_ns;
	return true;
}

/* Puts a frame on its way: behind all that arrive before it or with it. */
static void cable_launch(struct cable *cable, struct sk_buff *skb, u64 arrival_ns)
{
	struct sk_buff *after = skb_peek_tail(&cable->flight);

	cable_cb(skb)->arrival_ns = arrival_ns;
	while (unlikely(after) && cable_cb(after)->arrival_ns > arrival_ns)
		after = skb_queue_is_first(&cable->flight, after) ? NULL
								  : skb_queue_prev(&cable->flight, after);
	if (after)
		__skb_queue_after(&cable->flight, after, skb);
	else
		__skb_queue_head(&cable->flight, skb);
	cable->flight_bytes += skb->len;
	if (!after)
		lab_event_start(&cable->arrival_event, arrival_ns);
}

static void cable_drop(struct cable *cable, struct sk_buff *skb)
{
	cable->dropped_packets++;
	cable->dropped_bytes += skb->len;
	kfree_skb_reason(skb, SKB_DROP_REASON_NOT_SPECIFIED);
}

static void cable_lose_by_cut(struct cable *cable, struct sk_buff *skb)
{
	if (cable_lose_pause(cable, skb))
		return;
	cable->cut_packets++;
	cable->cut_bytes += skb->len;
	kfree_skb_reason(skb, SKB_DROP_REASON_NOT_SPECIFIED);
}

/* The event of the first frame's arrival stays: it finds none, or those sent after the cut. */
static void cable_set_cut(struct cable *cable, bool cut)
{
	struct netdev_queue *queue = netdev_get_tx_queue(cable->dev, 0);
	struct sk_buff *skb;

	__netif_tx_lock_bh(queue);
	cable->cut = cut;
	while (cut && (skb = __skb_dequeue(&cable->flight)))
		cable_lose_by_cut(cable, skb);
	if (cut) {
		cable->flight_bytes = 0;
		cable->last_arrival_ns = 0;
	}
	__netif_tx_unlock_bh(queue);
}

static netdev_tx_t cable_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	u64 now_ns = lab_event_clock(), arrival_ns;

	if (eth_skb_pad(skb))
		return NETDEV_TX_OK;
	arrival_ns = cable_occupy(cable, skb->len, now_ns);
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	cable_scrub(skb);
	if (unlikely(cable->cut))
		cable_lose_by_cut(cable, skb);
	else if (cable_impair(cable, now_ns, &arrival_ns))
		cable_launch(cable, skb, arrival_ns);
	else
		cable_drop(cable, skb);

	cable_no_bypass(dev);
	cable_stop_until_free(cable);
	return NETDEV_TX_OK;
}

/* ---- Pausing the peer ---- */

static struct sk_buff *cable_new_pause(struct net_device *dev, u8 changed, u8 hold, u16 quanta,
				       bool whole_port)
{
	static const u8 to[ETH_ALEN] = { 0x01, 0x80, 0xc2, 0x00, 0x00, 0x01 };
	struct sk_buff *skb = netdev_alloc_skb(dev, ETH_ZLEN);
	struct pause_frame *frame;
	unsigned int which;

	if (!skb)
		return NULL;
	frame = skb_put_zero(skb, ETH_ZLEN);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	ether_addr_copy(frame->eth.h_dest, to);
	ether_addr_copy(frame->eth.h_source, dev->dev_addr);
	frame->eth.h_proto = skb->protocol = htons(ETH_P_PAUSE);
	frame->opcode = htons(whole_port ? PAUSE_OPCODE_PORT : PAUSE_OPCODE_CLASSES);
	if (whole_port) {
		frame->operand = htons(hold ? quanta : 0);
		return skb;
	}
	frame->operand = htons(changed);
	for (which = 0; which < TC_PORT_CLASSES; which++)
		frame->quanta[which] = htons(hold & BIT(which) ? quanta : 0);
	return skb;
}

void cable_send_pause(struct net_device *dev, u8 changed, u8 hold, u16 quanta, bool whole_port)
{
	struct sk_buff *skb =
		netif_running(dev) ? cable_new_pause(dev, changed, hold, quanta, whole_port) : NULL;
	struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);
	struct cable *cable = netdev_priv(dev);
	u64 arrival_ns;

	if (!skb)
		return;
	if (unlikely(dev_nit_active(dev)))
		dev_queue_xmit_nit(skb, dev);
	__netif_tx_lock(queue, smp_processor_id());
	arrival_ns = cable_occupy(cable, skb->len, ktime_to_ns(ktime_get()));
	arrival_ns = max(arrival_ns, cable->last_arrival_ns);
	cable->last_arrival_ns = arrival_ns;
	cable->pauses_sent++;
	cable->pauses_in_flight++;
	cable->pause_bytes_in_flight += skb->len;
	if (unlikely(cable->cut))
		cable_lose_pause(cable, skb);
	else
		cable_launch(cable, skb, arrival_ns);
	cable_stop_until_free(cable);
	__netif_tx_unlock(queue);
}

u64 cable_quanta_ns(const struct net_device *dev, u32 quanta)
{
	return cable_pause_ns(netdev_priv(dev), quanta);
}

/* ---- What a qdisc of this end asks ---- */

const u8 *cable_attach_port(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);

	cable->ports++;
	return &cable->paused;
}

void cable_detach_port(struct net_device *dev)
{
	((struct cable *)netdev_priv(dev))->ports--;
}

void cable_set_ingress(struct net_device *dev, struct port_ingress *ingress)
{
	rcu_assign_pointer(((struct cable *)netdev_priv(dev))->ingress, ingress);
}

struct port_ingress *cable_ingress(const struct net_device *dev)
{
	return rcu_dereference(((struct cable *)netdev_priv(dev))->ingress);
}

void cable_read_pauses(const struct net_device *dev, u64 now_ns, struct cable_pauses *pauses)
{
	struct cable *cable = netdev_priv(dev);

	cable_tally_pauses(cable, now_ns);
	pauses->sent = cable->pauses_sent;
	pauses->received = cable->pauses_received;
	pauses->paused_ns = cable->paused_ns;
	memcpy(pauses->class_ns, cable->class_paused_ns, sizeof(pauses->class_ns));
}

static void cable_end_events(struct cable *cable)
{
	lab_event_end(&cable->free_event);
	lab_event_end(&cable->arrival_event);
	lab_event_end(&cable->resume_event);
}

static int cable_init_dev(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	int err = lab_event_begin(&cable->free_event);

	if (!err)
		err = lab_event_begin(&cable->arrival_event);
	if (!err)
		err = lab_event_begin(&cable->resume_event);
	if (err)
		cable_end_events(cable);
	return err;
}

static void cable_uninit_dev(struct net_device *dev)
{
	cable_end_events(netdev_priv(dev));
}

static int cable_open(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(cable->peer);

	netif_start_queue(dev);
	if (peer && (peer->flags & IFF_UP)) {
		netif_carrier_on(dev);
		netif_carrier_on(peer);
	}
	return 0;
}

static int cable_stop(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(cable->peer);
	struct sk_buff *skb;

	local_bh_disable();
	rcu_read_lock();
	memset(cable->paused_until_ns, 0, sizeof(cable->paused_until_ns));
	cable_look_at_pauses(cable, ktime_to_ns(ktime_get()));
	rcu_read_unlock();
	local_bh_enable();
	netif_stop_queue(dev);
	netif_carrier_off(dev);
	if (peer)
		netif_carrier_off(peer);
	lab_event_cancel(&cable->free_event);
	lab_event_cancel(&cable->arrival_event);
	local_bh_disable();
	while ((skb = __skb_dequeue(&cable->flight)))
		cable_lose(cable, skb);
	cable->flight_bytes = 0;
	cable->last_arrival_ns = 0;
	local_bh_enable();
	return 0;
}

static int cable_get_iflink(const struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	struct net_device *peer;
	int iflink;

	rcu_read_lock();
	peer = rcu_dereference(cable->peer);
	iflink = peer ? READ_ONCE(peer->ifindex) : 0;
	rcu_read_unlock();
	return iflink;
}

/* Every skb is one frame: no segmentation, no aggregation, whoever asks for it. */
static netdev_features_t cable_fix_features(struct net_device *dev, netdev_features_t features)
{
	return features & ~(NETIF_F_GSO | NETIF_F_ALL_TSO | NETIF_F_GSO_SOFTWARE | NETIF_F_GRO |
			    NETIF_F_GRO_HW | NETIF_F_GRO_FRAGLIST | NETIF_F_GRO_UDP_FWD | NETIF_F_LRO);
}

static struct rtnl_link_ops cable_link_ops;

static const struct net_device_ops cable_netdev_ops = {
	.ndo_init = cable_init_dev,
	.ndo_uninit = cable_uninit_dev,
	.ndo_open = cable_open,
	.ndo_stop = cable_stop,
	.ndo_start_xmit = cable_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_get_iflink = cable_get_iflink,
	.ndo_fix_features = cable_fix_features,
};

bool cable_is(const struct net_device *dev)
{
	return dev->rtnl_link_ops == &cable_link_ops;
}

static int cable_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	struct cable *cable = netdev_priv(dev);

	settings->base.speed = max_t(u64, 1, div_u64(cable->rate_bps, 1000000));
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static void cable_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, DRV_NAME, sizeof(info->driver));
}

static const struct ethtool_ops cable_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = cable_get_link_ksettings,
	.get_drvinfo = cable_get_drvinfo,
	.get_ts_info = ethtool_op_get_ts_info,
};

static void cable_setup(struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);

	ether_setup(dev);
	dev->netdev_ops = &cable_netdev_ops;
	dev->ethtool_ops = &cable_ethtool_ops;
	dev->needs_free_netdev = true;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->max_mtu = ETH_MAX_MTU;
	/* Payload is never touched on its way, so it need be neither contiguous nor summed. */
	dev->hw_features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->features = dev->hw_features;
	dev->vlan_features = dev->features;
	netif_set_tso_max_segs(dev, 1);

	cable->dev = dev;
	cable->rate_bps = CABLE_RATE_DEFAULT;
	__skb_queue_head_init(&cable->flight);
	lab_event_setup(&cable->free_event, cable_free);
	lab_event_setup(&cable->arrival_event, cable_arrival);
	lab_event_setup(&cable->resume_event, cable_resume);
}

static int cable_validate_delays(struct nlattr *data[], struct netlink_ext_ack *extack)
{
	static const int delays[] = { IFLA_CABLE_DELAY, IFLA_CABLE_JITTER, IFLA_CABLE_REORDER_DELAY };
	int i;

	for (i = 0; data && i < ARRAY_SIZE(delays); i++)
		if (data[delays[i]] && nla_get_u64(data[delays[i]]) > CABLE_DELAY_MAX) {
			NL_SET_ERR_MSG_ATTR(extack, data[delays[i]], "delay is not in 0 .. 10^10 ns");
			return -ERANGE;
		}
	return 0;
}

static int cable_validate_shares(struct nlattr *data[], struct netlink_ext_ack *extack)
{
	static const int shares[] = { IFLA_CABLE_LOSS, IFLA_CABLE_REORDER };
	int i;

	for (i = 0; data && i < ARRAY_SIZE(shares); i++)
		if (data[shares[i]] && nla_get_u32(data[shares[i]]) > CABLE_PPB_MAX) {
			NL_SET_ERR_MSG_ATTR(extack, data[shares[i]], "share is not in 0 .. 10^9 ppb");
			return -ERANGE;
		}
	return 0;
}

static int cable_validate(struct nlattr *tb[], struct nlattr *data[], struct netlink_ext_ack *extack)
{
	u64 value;

	if (tb[IFLA_ADDRESS]) {
		if (nla_len(tb[IFLA_ADDRESS]) != ETH_ALEN ||
		    !is_valid_ether_addr(nla_data(tb[IFLA_ADDRESS]))) {
			NL_SET_ERR_MSG(extack, "not an Ethernet address");
			return -EADDRNOTAVAIL;
		}
	}
	if (data && data[IFLA_CABLE_RATE]) {
		value = nla_get_u64(data[IFLA_CABLE_RATE]);
		if (!value || value > CABLE_RATE_MAX) {
			NL_SET_ERR_MSG_ATTR(extack, data[IFLA_CABLE_RATE], "rate is not in 1 .. 10^13 bit/s");
			return -ERANGE;
		}
	}
	return cable_validate_delays(data, extack) ?: cable_validate_shares(data, extack);
}

/* A new seed, or another moment from which on frames are impaired, numbers them from 0 again. */
static void cable_configure_impairments(struct cable *cable, struct nlattr *data[])
{
	if (data[IFLA_CABLE_LOSS])
		cable->loss_ppb = nla_get_u32(data[IFLA_CABLE_LOSS]);
	if (data[IFLA_CABLE_JITTER])
		cable->jitter_ns = nla_get_u64(data[IFLA_CABLE_JITTER]);
	if (data[IFLA_CABLE_REORDER])
		cable->reorder_ppb = nla_get_u32(data[IFLA_CABLE_REORDER]);
	if (data[IFLA_CABLE_REORDER_DELAY])
		cable->reorder_delay_ns = nla_get_u64(data[IFLA_CABLE_REORDER_DELAY]);
	if (data[IFLA_CABLE_SEED])
		cable->seed = nla_get_u64(data[IFLA_CABLE_SEED]);
	if (data[IFLA_CABLE_IMPAIRED_FROM])
		cable->impaired_from_ns = nla_get_u64(data[IFLA_CABLE_IMPAIRED_FROM]);
	if (data[IFLA_CABLE_SEED] || data[IFLA_CABLE_IMPAIRED_FROM])
		cable->impaired_frames = 0;
}

/* A new rate or delay holds from the next frame on; frames on their way keep their arrival. Behind a delay
 * that shrinks, frames stay in order: none arrives before the last that was on its way (cable_impair).
 */
static int cable_configure(struct cable *cable, struct nlattr *data[], struct netlink_ext_ack *extack)
{
	if (!data)
		return 0;
	if (data[IFLA_CABLE_DELAY])
		cable->delay_ns = nla_get_u64(data[IFLA_CABLE_DELAY]);
	if (data[IFLA_CABLE_RATE]) {
		cable->rate_bps = nla_get_u64(data[IFLA_CABLE_RATE]);
		cable->ahead = 0;
	}
	if (data[IFLA_CABLE_RING]) {
		cable->ring_ifindex = nla_get_u32(data[IFLA_CABLE_RING]);
		cable->ring_classes = U8_MAX;
	}
	if (data[IFLA_CABLE_RING_CLASSES])
		cable->ring_classes = nla_get_u32(data[IFLA_CABLE_RING_CLASSES]);
	cable_configure_impairments(cable, data);
	if (data[IFLA_CABLE_CUT])
		cable_set_cut(cable, nla_get_u32(data[IFLA_CABLE_CUT]));
	return 0;
}

static int cable_changelink(struct net_device *dev, struct nlattr *tb[], struct nlattr *data[],
			    struct netlink_ext_ack *extack)
{
	if (data && data[IFLA_CABLE_PEER]) {
		NL_SET_ERR_MSG_ATTR(extack, data[IFLA_CABLE_PEER], "a cable's peer cannot be changed");
		return -EOPNOTSUPP;
	}
	return cable_configure(netdev_priv(dev), data, extack);
}

/* Creates and registers the other end. Without IFLA_CABLE_PEER it is named by the kernel. */
static struct net_device *cable_new_peer(struct net *net, struct nlattr *nla, struct netlink_ext_ack *extack)
{
	struct nlattr *tb[IFLA_MAX + 1] = {};
	struct ifinfomsg *ifm = NULL;
	char name[IFNAMSIZ] = DRV_NAME "%d";
	unsigned char name_type = NET_NAME_ENUM;
	struct net_device *peer;
	int err;

	if (nla) {
		ifm = nla_data(nla);
		err = rtnl_nla_parse_ifinfomsg(tb, nla, extack);
		if (err < 0)
			return ERR_PTR(err);
		if (tb[IFLA_IFNAME]) {
			nla_strscpy(name, tb[IFLA_IFNAME], IFNAMSIZ);
			name_type = NET_NAME_USER;
		}
	}
	peer = rtnl_create_link(net, name, name_type, &cable_link_ops, tb, extack);
	if (IS_ERR(peer))
		return peer;
	if (!tb[IFLA_ADDRESS])
		eth_hw_addr_random(peer);
	if (ifm && ifm->ifi_index)
		peer->ifindex = ifm->ifi_index;
	err = register_netdevice(peer);
	if (err < 0) {
		free_netdev(peer);
		return ERR_PTR(err);
	}
	netif_carrier_off(peer);
	err = rtnl_configure_link(peer, ifm, 0, NULL);
	if (err < 0) {
		unregister_netdevice(peer);
		return ERR_PTR(err);
	}
	return peer;
}

static int cable_newlink(struct net_device *dev, struct rtnl_newlink_params *params,
			 struct netlink_ext_ack *extack)
{
	struct nlattr **data = params->data;
	struct net_device *peer;
	int err;

	peer = cable_new_peer(rtnl_newlink_peer_net(params), data ? data[IFLA_CABLE_PEER] : NULL, extack);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	if (!params->tb[IFLA_ADDRESS])
		eth_hw_addr_random(dev);
	if (!params->tb[IFLA_IFNAME])
		strscpy(dev->name, DRV_NAME "%d", IFNAMSIZ);
	err = register_netdevice(dev);
	if (err < 0) {
		unregister_netdevice(peer);
		return err;
	}
	netif_carrier_off(dev);
	rcu_assign_pointer(((struct cable *)netdev_priv(dev))->peer, peer);
	rcu_assign_pointer(((struct cable *)netdev_priv(peer))->peer, dev);
	cable_configure(netdev_priv(dev), data, extack);
	cable_configure(netdev_priv(peer), data, extack);
	return 0;
}

static void cable_dellink(struct net_device *dev, struct list_head *head)
{
	struct cable *cable = netdev_priv(dev);
	struct net_device *peer = rtnl_dereference(cable->peer);

	RCU_INIT_POINTER(cable->peer, NULL);
	unregister_netdevice_queue(dev, head);
	if (peer) {
		RCU_INIT_POINTER(((struct cable *)netdev_priv(peer))->peer, NULL);
		unregister_netdevice_queue(peer, head);
	}
}

static struct net *cable_get_link_net(const struct net_device *dev)
{
	struct cable *cable = netdev_priv(dev);
	struct net_device *peer = rcu_dereference_rtnl(cable->peer);

	return peer ? dev_net(peer) : dev_net(dev);
}

static size_t cable_get_size(const struct net_device *dev)
{
	return 20 * nla_total_size_64bit(sizeof(u64)) + 6 * nla_total_size(sizeof(u32));
}

static int cable_fill_impairments(struct sk_buff *skb, const struct cable *cable)
{
	if (nla_put_u32(skb, IFLA_CABLE_LOSS, cable->loss_ppb) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_JITTER, cable->jitter_ns, IFLA_CABLE_PAD) ||
	    nla_put_u32(skb, IFLA_CABLE_REORDER, cable->reorder_ppb) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_REORDER_DELAY, cable->reorder_delay_ns, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_SEED, cable->seed, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_IMPAIRED_FROM, cable->impaired_from_ns, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_DROPPED_PACKETS, cable->dropped_packets, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_DROPPED_BYTES, cable->dropped_bytes, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_REORDERED_PACKETS, cable->reordered_packets, IFLA_CABLE_PAD))
		return -EMSGSIZE;
	return 0;
}

static int cable_fill_pauses(struct sk_buff *skb, const struct cable *cable)
{
	if (nla_put_u32(skb, IFLA_CABLE_RING, cable->ring_ifindex) ||
	    nla_put_u32(skb, IFLA_CABLE_RING_CLASSES, cable->ring_classes) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_PAUSES_SENT, cable->pauses_sent, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_PAUSES_RECEIVED, cable->pauses_received, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_PAUSES_IN_FLIGHT, cable->pauses_in_flight, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_PAUSES_LOST, cable->pauses_lost, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_PAUSED_NS, cable->paused_ns, IFLA_CABLE_PAD) ||
	    nla_put_u32(skb, IFLA_CABLE_PAUSED_CLASSES, cable->paused))
		return -EMSGSIZE;
	return 0;
}

static int cable_fill_cut(struct sk_buff *skb, const struct cable *cable)
{
	if (nla_put_u32(skb, IFLA_CABLE_CUT, cable->cut) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_CUT_PACKETS, cable->cut_packets, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_CUT_BYTES, cable->cut_bytes, IFLA_CABLE_PAD))
		return -EMSGSIZE;
	return 0;
}

static int cable_fill_info(struct sk_buff *skb, const struct net_device *dev)
{
	const struct cable *cable = netdev_priv(dev);

	if (nla_put_u64_64bit(skb, IFLA_CABLE_RATE, cable->rate_bps, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_DELAY, cable->delay_ns, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_FLIGHT_PACKETS,
			      skb_queue_len(&cable->flight) - cable->pauses_in_flight, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_FLIGHT_BYTES,
			      cable->flight_bytes - cable->pause_bytes_in_flight, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_LOST_PACKETS, cable->lost_packets, IFLA_CABLE_PAD) ||
	    nla_put_u64_64bit(skb, IFLA_CABLE_LOST_BYTES, cable->lost_bytes, IFLA_CABLE_PAD))
		return -EMSGSIZE;
	return cable_fill_impairments(skb, cable) ?: cable_fill_pauses(skb, cable) ?: cable_fill_cut(skb, cable);
}

static const struct nla_policy cable_policy[IFLA_CABLE_MAX + 1] = {
	[IFLA_CABLE_PEER] = { .len = sizeof(struct ifinfomsg) },
	[IFLA_CABLE_RATE] = { .type = NLA_U64 },
	[IFLA_CABLE_DELAY] = { .type = NLA_U64 },
	[IFLA_CABLE_FLIGHT_PACKETS] = { .type = NLA_REJECT },
	[IFLA_CABLE_FLIGHT_BYTES] = { .type = NLA_REJECT },
	[IFLA_CABLE_LOST_PACKETS] = { .type = NLA_REJECT },
	[IFLA_CABLE_LOST_BYTES] = { .type = NLA_REJECT },
	[IFLA_CABLE_LOSS] = { .type = NLA_U32 },
	[IFLA_CABLE_JITTER] = { .type = NLA_U64 },
	[IFLA_CABLE_REORDER] = { .type = NLA_U32 },
	[IFLA_CABLE_REORDER_DELAY] = { .type = NLA_U64 },
	[IFLA_CABLE_SEED] = { .type = NLA_U64 },
	[IFLA_CABLE_IMPAIRED_FROM] = { .type = NLA_U64 },
	[IFLA_CABLE_DROPPED_PACKETS] = { .type = NLA_REJECT },
	[IFLA_CABLE_DROPPED_BYTES] = { .type = NLA_REJECT },
	[IFLA_CABLE_REORDERED_PACKETS] = { .type = NLA_REJECT },
	[IFLA_CABLE_RING] = { .type = NLA_U32 },
	[IFLA_CABLE_RING_CLASSES] = { .type = NLA_U32 },
	[IFLA_CABLE_PAUSES_SENT] = { .type = NLA_REJECT },
	[IFLA_CABLE_PAUSES_RECEIVED] = { .type = NLA_REJECT },
	[IFLA_CABLE_PAUSES_IN_FLIGHT] = { .type = NLA_REJECT },
	[IFLA_CABLE_PAUSED_NS] = { .type = NLA_REJECT },
	[IFLA_CABLE_PAUSED_CLASSES] = { .type = NLA_REJECT },
	[IFLA_CABLE_PAUSES_LOST] = { .type = NLA_REJECT },
	[IFLA_CABLE_CUT] = { .type = NLA_U32 },
	[IFLA_CABLE_CUT_PACKETS] = { .type = NLA_REJECT },
	[IFLA_CABLE_CUT_BYTES] = { .type = NLA_REJECT },
};

static struct rtnl_link_ops cable_link_ops = {
	.kind = DRV_NAME,
	.priv_size = sizeof(struct cable),
	.setup = cable_setup,
	.validate = cable_validate,
	.newlink = cable_newlink,
	.changelink = cable_changelink,
	.dellink = cable_dellink,
	.policy = cable_policy,
	.maxtype = IFLA_CABLE_MAX,
	.peer_type = IFLA_CABLE_PEER,
	.get_link_net = cable_get_link_net,
	.get_size = cable_get_size,
	.fill_info = cable_fill_info,
};

static int __init cable_init(void)
{
	return rtnl_link_register(&cable_link_ops);
}
device_initcall(cable_init);

MODULE_DESCRIPTION("A pair of Ethernet devices with a line rate, a propagation delay and seeded impairments");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RTNL_LINK(DRV_NAME);
