// SPDX-License-Identifier: GPL-2.0-only
/*
 * `port`: the queueing discipline of a switch port.
 *
 * One FIFO with a limit in bytes. It marks CE by the queue itself, when a frame comes or when it leaves, and
 * writes in-band telemetry into frames of NICs that ask for it (lab_int.h). Whether a frame on the slope is
 * marked is a draw of its own: the n-th such frame of a port gets the n-th number of the port's sequence, so
 * the traffic of other ports moves no draw.
 *
 * A frame that comes finds what waits, itself not among it. A frame that leaves looks at what it leaves
 * behind, as HPCC's simulator does for marks and telemetry alike. Lengths are qdisc_pkt_len(): frame bytes.
 *
 * tc_port_xstats (lab.h) says what is counted. A change touches no frame that waits; it counts from the next
 * one on.
 */
#include <linux/ip.h>
#include <linux/lab.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "lab_draw.h"
#include "lab_int.h"

struct port_queue {
	u32 limit_bytes;
	/* The threshold of the moment at which the port marks; of the other it is TC_PORT_NO_MARKS. */
	u32 arrival_kmin, departure_kmin;
	u32 longest_bytes; /* since the last look */
	u64 since_ns;      /* when the queue last changed */
	u64 queue_byte_ns, busy_ns;
	u64 marked, ce_packets, ce_bytes;
	struct tc_port_marking marking;
	u64 seed, draws;
	bool tells; /* telemetry */
	u32 rate;
	struct lab_int_unit unit;
	u64 int_records, int_missed;
};

/* A process would pay for reading the clock, in virtual time; with bottom halves off nobody does. */
static u64 port_now(void)
{
	u64 now;

	local_bh_disable();
	now = ktime_get_ns();
	local_bh_enable();
	return now;
}

/* To be called before the queue changes. A frame that leaves as it comes has not waited. */
static void port_integrate(struct port_queue *q, u32 queued, u64 now)
{
	u64 passed = now - q->since_ns;

	q->since_ns = now;
	if (!queued || !passed)
		return;
	q->queue_byte_ns += queued * passed;
	q->busy_ns += passed;
	if (queued > q->longest_bytes)
		q->longest_bytes = queued;
}

/* Decides on a frame that meets that queue; `queued` is at least kmin. */
static bool port_marks(struct port_queue *q, u32 queued)
{
	const struct tc_port_marking *m = &q->marking;
	u64 chance;

	if (queued >= m->kmax_bytes)
		return true;
	chance = div_u64((u64)m->pmax * (queued - m->kmin_bytes), m->kmax_bytes - m->kmin_bytes);
	return lab_draw(q->seed, q->draws++) >> 32 < chance;
}

static noinline void port_mark(struct port_queue *q, struct sk_buff *skb, u32 queued)
{
	if (port_marks(q, queued) && INET_ECN_set_ce(skb))
		q->marked++;
}

static int port_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct port_queue *q = qdisc_priv(sch);
	u32 queued = sch->qstats.backlog;

	if (unlikely(queued >= q->arrival_kmin))
		port_mark(q, skb, queued);
	if (unlikely(queued + qdisc_pkt_len(skb) > q->limit_bytes))
		return qdisc_drop(skb, sch, to_free);
	port_integrate(q, queued, ktime_get_ns());
	return qdisc_enqueue_tail(skb, sch);
}

/* The frame is DATA of a NIC that asks for telemetry. Its header lies in the linear part, as NICs make it. */
static bool port_asked(const struct sk_buff *skb)
{
	const struct iphdr *ip = (const void *)(skb->data + ETH_HLEN);
	const struct udphdr *udp = (const void *)(ip + 1);
	const u8 *nic = (const u8 *)(udp + 1);

	return skb->protocol == htons(ETH_P_IP) && skb_headlen(skb) >= LAB_INT_AT && ip->ihl == 5 &&
	       ip->protocol == IPPROTO_UDP && udp->dest == htons(LAB_INT_UDP) && nic[0] == LAB_INT_VERSION &&
	       nic[1] == LAB_INT_WRITE && nic[2] & LAB_INT_FLAG;
}

static noinline void port_tell(struct port_queue *q, struct sk_buff *skb, u64 now, u64 sent_bytes, u32 queued)
{
	struct lab_int *telemetry;
	u16 hops;

	if (!port_asked(skb))
		return;
	if (skb_ensure_writable(skb, LAB_INT_AT + LAB_INT_BYTES)) {
		q->int_missed++;
		return;
	}
	telemetry = (void *)(skb->data + LAB_INT_AT);
	hops = ntohs(telemetry->hops);
	if (hops >= LAB_INT_HOPS) {
		q->int_missed++;
		return;
	}
	telemetry->hop[hops] = cpu_to_be64(lab_int_record(&q->unit, q->rate, now, sent_bytes, queued));
	telemetry->hops = htons(hops + 1);
	q->int_records++;
}

static void port_count_ce(struct port_queue *q, const struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP) && INET_ECN_is_ce(ip_hdr(skb)->tos)) {
		q->ce_packets++;
		q->ce_bytes += qdisc_pkt_len(skb);
	}
}

static struct sk_buff *port_dequeue(struct Qdisc *sch)
{
	struct port_queue *q = qdisc_priv(sch);
	u32 queued = sch->qstats.backlog;
	u64 now, sent_bytes;
	struct sk_buff *skb;

	if (!queued)
		return NULL;
	now = ktime_get_ns();
	port_integrate(q, queued, now);
	sent_bytes = u64_stats_read(&sch->bstats.bytes);
	skb = qdisc_dequeue_head(sch);
	queued = sch->qstats.backlog;
	if (unlikely(queued >= q->departure_kmin))
		port_mark(q, skb, queued);
	port_count_ce(q, skb);
	if (unlikely(q->tells))
		port_tell(q, skb, now, sent_bytes, queued);
	return skb;
}

static void port_reset(struct Qdisc *sch)
{
	struct port_queue *q = qdisc_priv(sch);

	port_integrate(q, sch->qstats.backlog, port_now());
	qdisc_reset_queue(sch);
}

static const struct nla_policy port_policy[TCA_PORT_MAX + 1] = {
	[TCA_PORT_LIMIT] = { .type = NLA_U32 },
	[TCA_PORT_MARKING] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_marking)),
	[TCA_PORT_SEED] = { .type = NLA_U64 },
	[TCA_PORT_INT] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_int)),
};

static int port_check_marking(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	const struct tc_port_marking *m = attr ? nla_data(attr) : NULL;

	if (m && m->kmin_bytes > m->kmax_bytes) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "kmin is above kmax");
		return -EINVAL;
	}
	if (m && m->at > TC_PORT_MARKS_DEPARTURES) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "marks are made at arrival (0) or departure (1)");
		return -EINVAL;
	}
	return 0;
}

static int port_check_int(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	const struct tc_port_int *t = attr ? nla_data(attr) : NULL;

	if (t && (t->rate >= LAB_INT_RATES || !t->time_ns || !t->sent_bytes || !t->queue_bytes)) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "telemetry needs a rate's place below 8 and units above 0");
		return -EINVAL;
	}
	return 0;
}

static void port_set_marking(struct port_queue *q, const struct tc_port_marking *marking)
{
	bool arrival = marking->at == TC_PORT_MARKS_ARRIVALS;

	q->marking = *marking;
	q->arrival_kmin = arrival ? marking->kmin_bytes : TC_PORT_NO_MARKS;
	q->departure_kmin = arrival ? TC_PORT_NO_MARKS : marking->kmin_bytes;
}

static void port_set_int(struct port_queue *q, const struct tc_port_int *telemetry)
{
	q->tells = true;
	q->rate = telemetry->rate;
	q->unit.time_ns = telemetry->time_ns;
	q->unit.sent_bytes = telemetry->sent_bytes;
	q->unit.queue_bytes = telemetry->queue_bytes;
}

static int port_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct port_queue *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_PORT_MAX + 1];
	int err;

	if (!opt)
		return 0;
	err = nla_parse_nested(tb, TCA_PORT_MAX, opt, port_policy, extack);
	if (!err)
		err = port_check_marking(tb[TCA_PORT_MARKING], extack);
	if (!err)
		err = port_check_int(tb[TCA_PORT_INT], extack);
	if (err)
		return err;
	sch_tree_lock(sch);
	if (tb[TCA_PORT_LIMIT])
		q->limit_bytes = nla_get_u32(tb[TCA_PORT_LIMIT]);
	if (tb[TCA_PORT_MARKING])
		port_set_marking(q, nla_data(tb[TCA_PORT_MARKING]));
	if (tb[TCA_PORT_SEED]) {
		q->seed = nla_get_u64(tb[TCA_PORT_SEED]);
		q->draws = 0;
	}
	if (tb[TCA_PORT_INT])
		port_set_int(q, nla_data(tb[TCA_PORT_INT]));
	sch_tree_unlock(sch);
	return 0;
}

static int port_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	static const struct tc_port_marking none = { .kmin_bytes = TC_PORT_NO_MARKS,
						     .kmax_bytes = TC_PORT_NO_MARKS };
	struct port_queue *q = qdisc_priv(sch);

	q->limit_bytes = U32_MAX;
	port_set_marking(q, &none);
	q->since_ns = port_now();
	return port_change(sch, opt, extack);
}

static int port_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct port_queue *q = qdisc_priv(sch);
	const struct tc_port_int telemetry = { q->rate, q->unit.time_ns, q->unit.sent_bytes,
					       q->unit.queue_bytes };
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_PORT_LIMIT, q->limit_bytes) ||
	    nla_put(skb, TCA_PORT_MARKING, sizeof(q->marking), &q->marking) ||
	    nla_put_u64_64bit(skb, TCA_PORT_SEED, q->seed, TCA_PORT_PAD) ||
	    (q->tells && nla_put(skb, TCA_PORT_INT, sizeof(telemetry), &telemetry)))
		return -EMSGSIZE;
	return nla_nest_end(skb, nest);
}

static int port_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct port_queue *q = qdisc_priv(sch);
	struct tc_port_xstats stats;

	sch_tree_lock(sch); /* bottom halves are off, so the clock costs nobody */
	port_integrate(q, sch->qstats.backlog, ktime_get_ns());
	stats = (struct tc_port_xstats){
		.marked = q->marked,
		.ce_packets = q->ce_packets,
		.ce_bytes = q->ce_bytes,
		.queue_byte_ns = q->queue_byte_ns,
		.busy_ns = q->busy_ns,
		.longest_bytes = q->longest_bytes,
		.int_records = q->int_records,
		.int_missed = q->int_missed,
	};
	q->longest_bytes = sch->qstats.backlog;
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &stats, sizeof(stats));
}

static struct Qdisc_ops port_qdisc_ops __read_mostly = {
	.id = "port",
	.priv_size = sizeof(struct port_queue),
	.enqueue = port_enqueue,
	.dequeue = port_dequeue,
	.peek = qdisc_peek_head,
	.init = port_init,
	.reset = port_reset,
	.change = port_change,
	.dump = port_dump,
	.dump_stats = port_dump_stats,
	.owner = THIS_MODULE,
};

static int __init port_module_init(void)
{
	return register_qdisc(&port_qdisc_ops);
}
device_initcall(port_module_init);

MODULE_DESCRIPTION("A switch port's queue: marks that may change while it works, telemetry, time integrals");
MODULE_LICENSE("GPL");
