// SPDX-License-Identifier: GPL-2.0-only
/*
 * `port`: the queueing discipline of a switch port.
 *
 * Up to eight classes by DSCP, each a FIFO with a limit in bytes. Strict classes go first, the highest number
 * first of all; the others share what is left by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
 * Classes whose frames the peer does not take (PAUSE, cable.c) wait; the others go on.
 *
 * A class marks CE by its own queue, when a frame comes or when it leaves, and the port writes in-band
 * telemetry into frames of NICs that ask for it (lab_int.h). Whether a frame on the slope is marked is a draw
 * of its own: the n-th such frame of a class gets the n-th number of the class's sequence, so the traffic of
 * other ports moves no draw.
 *
 * A frame that comes finds what waits, itself not among it. A frame that leaves looks at what it leaves
 * behind, as HPCC's simulator does for marks and telemetry alike. Lengths are qdisc_pkt_len(): frame bytes.
 *
 * The ports of a switch may share a buffer, and charge lossless classes to where their frames came in
 * (port_buffer.c).
 *
 * A port may trim what it would drop: it keeps the headers, in a class of their own (struct tc_port_trim).
 *
 * tc_port_xstats (lab.h) says what is counted. A change touches no frame that waits; it counts from the next
 * one on.
 */
#include <linux/ip.h>
#include <linux/lab.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "lab_draw.h"
#include "lab_int.h"
#include "port.h"

#define PORT_LARGEST_QUANTUM (1u << 28) /* so that no deficit overflows */
#define PORT_NIC_AT          (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))

/* For how long the queue was how long (lab.h). */
struct port_histogram {
	struct tc_port_window window;
	u64 ns[TC_PORT_BUCKETS];
};

/* A queue over time: its integrals and its longest. */
struct port_tally {
	u64 since_ns; /* when the queue last changed */
	u64 queue_byte_ns, busy_ns;
	struct port_histogram *histogram; /* NULL: nobody asked for it */
	u32 longest_bytes;                /* since the last look */
	u32 looked_bytes;                 /* what that saw, and when it was */
	u64 looked_ns;
};

struct port_class {
	struct qdisc_skb_head queue;
	u32 bytes;
	u32 limit_bytes;
	/* The threshold of the moment at which the class marks; of the other it is TC_PORT_NO_MARKS. */
	u32 arrival_kmin, departure_kmin;
	u64 ce_packets, ce_bytes;
	/* Plain ports need nothing below here, unless frames are marked or dropped. */
	struct tc_port_marking marking;
	u64 seed, draws;
	u64 marked;
	u64 sent_packets, sent_bytes, drops;
	struct port_tally tally; /* of classes that were given */
	u32 quantum_bytes;       /* a round; 0: strict */
	s32 deficit_bytes;
	u32 reserve_bytes, alpha;
	bool lossless;
};

struct port_sched {
	const u8 *paused;            /* classes that the peer does not take, a bit each */
	u8 classes, waiting, strict; /* how many; those with frames; those that go first: a bit each */
	u8 turn;                     /* the class that deficit round robin is at */
	bool tells;                  /* telemetry */
	bool named;                  /* classes were given: their statistics are told */
	bool plain;                  /* one class without a name, and no pool */
	struct port_tally tally;
	struct port_class of_class[TC_PORT_CLASSES];
	struct port_pool *pool;
	struct port_ingress *ingress; /* of what comes in here */
	u64 seed;
	u32 rate;
	struct lab_int_unit unit;
	u64 int_records, int_missed;
	struct tc_port_trim trim;
	struct tc_port_trimmed trimmed;
	u8 class_of[TC_PORT_DSCPS];
};

/* The place in a waiting frame that says where it was charged. */
static struct port_ingress **port_charged_to(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct port_ingress *) > sizeof(qdisc_skb_cb(skb)->data));
	return (struct port_ingress **)qdisc_skb_cb(skb)->data;
}

/* A process would pay for reading the clock, in virtual time; with bottom halves off nobody does. */
static u64 port_now(void)
{
	u64 now;

	local_bh_disable();
	now = ktime_get_ns();
	local_bh_enable();
	return now;
}

static unsigned int port_bucket(u32 queued)
{
	unsigned int octave;

	queued = max(queued, 1u << TC_PORT_OCTAVE_MIN);
	octave = __fls(queued);
	return ((octave - TC_PORT_OCTAVE_MIN - 1) << TC_PORT_BUCKETS_LOG) +
	       (queued >> (octave - TC_PORT_BUCKETS_LOG));
}

static void port_count(struct port_histogram *h, u32 queued, u64 since, u64 now)
{
	since = max(since, h->window.from_ns);
	now = min(now, h->window.until_ns);
	if (now > since)
		h->ns[port_bucket(queued)] += now - since;
}

/* To be called before the queue changes. A frame that leaves as it comes has not waited. */
static void port_integrate(struct port_tally *t, u32 queued, u64 now)
{
	u64 since = t->since_ns, passed = now - since;

	t->since_ns = now;
	if (!queued || !passed)
		return;
	t->queue_byte_ns += queued * passed;
	t->busy_ns += passed;
	t->longest_bytes = max(t->longest_bytes, queued);
	if (t->histogram)
		port_count(t->histogram, queued, since, now);
}

/* Returns the longest queue since the look before, now included. A dump whose message is full looks again at
 * once, in the next message, and goes back as far as the first time.
 */
static u32 port_look(struct port_tally *t, u32 queued, u64 now)
{
	u32 longest = t->longest_bytes;

	if (now == t->looked_ns)
		longest = max(longest, t->looked_bytes);
	t->looked_ns = now;
	t->looked_bytes = longest;
	t->longest_bytes = queued;
	return longest;
}

/* Integrates, for the port and one of its classes. */
static void port_changes(struct Qdisc *sch, struct port_class *c, u64 now)
{
	struct port_sched *q = qdisc_priv(sch);

	port_integrate(&q->tally, sch->qstats.backlog, now);
	if (unlikely(!q->plain))
		port_integrate(&c->tally, c->bytes, now);
}

/* Decides on a frame that meets that queue; `queued` is at least kmin. */
static bool port_marks(struct port_class *c, u32 queued)
{
	const struct tc_port_marking *m = &c->marking;
	u64 chance;

	if (queued >= m->kmax_bytes)
		return true;
	chance = div_u64((u64)m->pmax * (queued - m->kmin_bytes), m->kmax_bytes - m->kmin_bytes);
	return lab_draw(c->seed, c->draws++) >> 32 < chance;
}

static noinline void port_mark(struct port_class *c, struct sk_buff *skb, u32 queued)
{
	if (port_marks(c, queued) && INET_ECN_set_ce(skb))
		c->marked++;
}

static struct port_class *port_classify(struct port_sched *q, const struct sk_buff *skb)
{
	unsigned int dscp = 0;

	if (skb->protocol == htons(ETH_P_IP) && skb_headlen(skb) >= ETH_HLEN + sizeof(struct iphdr))
		dscp = ((const struct iphdr *)(skb->data + ETH_HLEN))->tos >> 2;
	return &q->of_class[q->class_of[dscp]];
}

/* The shared buffer has room for the frame, and it takes it. */
static noinline bool port_admit(struct Qdisc *sch, struct port_class *c, struct sk_buff *skb)
{
	struct port_sched *q = qdisc_priv(sch);
	struct port_ingress *in;

	if (!q->pool)
		return true;
	if (!c->lossless)
		return port_pool_take(q->pool, c->bytes, qdisc_pkt_len(skb), c->reserve_bytes, c->alpha);
	in = port_ingress_of(skb, dev_net(qdisc_dev(sch)));
	*port_charged_to(skb) = in;
	return !in || port_ingress_charge(in, c - q->of_class, qdisc_pkt_len(skb));
}

/* It leaves, and gives back what it took. */
static noinline void port_dismiss(struct port_sched *q, struct port_class *c, struct sk_buff *skb)
{
	struct port_ingress *in;

	if (!q->pool)
		return;
	if (!c->lossless) {
		port_pool_give(q->pool, c->bytes, qdisc_pkt_len(skb), c->reserve_bytes);
		return;
	}
	in = *port_charged_to(skb);
	if (in)
		port_ingress_release(in, c - q->of_class, qdisc_pkt_len(skb));
}

static __always_inline void port_append(struct Qdisc *sch, struct port_class *c, struct sk_buff *skb, u32 len)
{
	struct port_sched *q = qdisc_priv(sch);

	port_changes(sch, c, lab_event_clock());
	__qdisc_enqueue_tail(skb, &c->queue);
	c->bytes += len;
	q->waiting |= BIT(c - q->of_class);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
}

/* The frame is DATA of a NIC. Its header lies in the linear part, as NICs make it. */
static bool port_is_data(const struct sk_buff *skb)
{
	const struct iphdr *ip = (const void *)(skb->data + ETH_HLEN);
	const struct udphdr *udp = (const void *)(ip + 1);
	const u8 *nic = skb->data + PORT_NIC_AT;

	return skb->protocol == htons(ETH_P_IP) && skb_headlen(skb) >= LAB_INT_AT && ip->ihl == 5 &&
	       ip->protocol == IPPROTO_UDP && udp->dest == htons(LAB_INT_UDP) && nic[0] == LAB_INT_VERSION &&
	       nic[1] == LAB_INT_WRITE;
}

/* It has room for telemetry behind that header. */
static bool port_asked(const struct sk_buff *skb)
{
	return skb->data[PORT_NIC_AT + 2] & LAB_INT_FLAG;
}

/* The bytes of such a frame that trimming keeps. */
static u32 port_kept(const struct port_sched *q, const struct sk_buff *skb)
{
	u32 headers = LAB_INT_AT + (port_asked(skb) ? LAB_INT_BYTES : 0);

	return qdisc_pkt_len(skb) > q->trim.bytes ? max(q->trim.bytes, headers) : headers;
}

/* A class would drop the frame: it is trimmed instead, or false. */
static noinline bool port_trim(struct Qdisc *sch, const struct port_class *dropping, struct sk_buff *skb)
{
	struct port_sched *q = qdisc_priv(sch);
	struct port_class *c = &q->of_class[q->trim.class];
	u32 kept, len = qdisc_pkt_len(skb);

	if (!q->trim.bytes || dropping == c || dropping->lossless || !port_is_data(skb))
		return false;
	kept = port_kept(q, skb);
	if (kept >= len || c->bytes + kept > c->limit_bytes || skb_ensure_writable(skb, LAB_INT_AT) ||
	    pskb_trim(skb, kept))
		return false;
	qdisc_skb_cb(skb)->pkt_len = kept;
	if (!port_admit(sch, c, skb))
		return false;
	ipv4_change_dsfield((struct iphdr *)(skb->data + ETH_HLEN), INET_ECN_MASK, q->trim.dscp << 2);
	q->trimmed.packets++;
	q->trimmed.bytes += len - kept;
	port_append(sch, c, skb, kept);
	return true;
}

static int port_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct port_sched *q = qdisc_priv(sch);
	struct port_class *c = likely(q->plain) ? &q->of_class[0] : port_classify(q, skb);
	u32 len = qdisc_pkt_len(skb);

	if (unlikely(c->bytes >= c->arrival_kmin))
		port_mark(c, skb, c->bytes);
	if (unlikely(c->bytes + len > c->limit_bytes))
		goto drop;
	if (unlikely(!q->plain) && !port_admit(sch, c, skb))
		goto drop;
	port_append(sch, c, skb, len);
	return NET_XMIT_SUCCESS;
drop:
	if (port_trim(sch, c, skb))
		return NET_XMIT_SUCCESS;
	c->drops++;
	return qdisc_drop(skb, sch, to_free);
}

static noinline void port_tell(struct port_sched *q, struct sk_buff *skb, u64 now, u64 sent_bytes, u32 queued)
{
	struct lab_int *telemetry;
	u16 hops;

	if (!port_is_data(skb) || !port_asked(skb))
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

static void port_count_ce(struct port_class *c, const struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP) && INET_ECN_is_ce(ip_hdr(skb)->tos)) {
		c->ce_packets++;
		c->ce_bytes += qdisc_pkt_len(skb);
	}
}

/* The class that may send next, of those in `may`. */
static struct port_class *port_choose(struct port_sched *q, u8 may)
{
	struct port_class *c = &q->of_class[q->turn];
	u8 first = may & q->strict;

	if (first)
		return &q->of_class[fls(first) - 1];
	while (!(may & BIT(q->turn)) || c->deficit_bytes < (s32)qdisc_pkt_len(c->queue.head)) {
		do
			q->turn = q->turn + 1 < q->classes ? q->turn + 1 : 0;
		while (!(may & BIT(q->turn)));
		c = &q->of_class[q->turn];
		c->deficit_bytes += c->quantum_bytes;
	}
	return c;
}

/* The frame has left the queue of its class, which had it among its bytes. */
static noinline void port_depart(struct port_sched *q, struct port_class *c, struct sk_buff *skb)
{
	port_dismiss(q, c, skb);
	c->sent_packets++;
	c->sent_bytes += qdisc_pkt_len(skb);
	if (c->quantum_bytes)
		c->deficit_bytes = c->queue.head ? c->deficit_bytes - (s32)qdisc_pkt_len(skb) : 0;
}

static struct sk_buff *port_dequeue(struct Qdisc *sch)
{
	struct port_sched *q = qdisc_priv(sch);
	u8 may = q->waiting & ~*q->paused;
	struct port_class *c = &q->of_class[0];
	u64 now, sent_bytes;
	struct sk_buff *skb;
	u32 len;

	if (!may)
		return NULL;
	if (unlikely(!q->plain))
		c = port_choose(q, may);
	now = lab_event_clock();
	port_changes(sch, c, now);
	sent_bytes = u64_stats_read(&sch->bstats.bytes);
	skb = __qdisc_dequeue_head(&c->queue);
	len = qdisc_pkt_len(skb);
	if (unlikely(!q->plain))
		port_depart(q, c, skb);
	c->bytes -= len;
	if (!c->queue.head)
		q->waiting &= ~BIT(c - q->of_class);
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_qlen_dec(sch);
	qdisc_bstats_update(sch, skb);
	if (unlikely(c->bytes >= c->departure_kmin))
		port_mark(c, skb, c->bytes);
	port_count_ce(c, skb);
	if (unlikely(q->tells))
		port_tell(q, skb, now, sent_bytes, c->bytes);
	return skb;
}

static void port_empty(struct port_sched *q, struct port_class *c)
{
	struct sk_buff *skb;

	while ((skb = __qdisc_dequeue_head(&c->queue))) {
		port_dismiss(q, c, skb);
		c->bytes -= qdisc_pkt_len(skb);
		rtnl_kfree_skbs(skb, skb);
	}
	c->deficit_bytes = 0;
}

static void port_reset(struct Qdisc *sch)
{
	struct port_sched *q = qdisc_priv(sch);
	u64 now = port_now();
	unsigned int which;

	for (which = 0; which < q->classes; which++) {
		port_changes(sch, &q->of_class[which], now);
		port_empty(q, &q->of_class[which]);
	}
	q->waiting = 0;
	sch->qstats.backlog = 0;
	sch->q.qlen = 0;
}

static const struct nla_policy port_policy[TCA_PORT_MAX + 1] = {
	[TCA_PORT_LIMIT] = { .type = NLA_U32 },
	[TCA_PORT_MARKING] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_marking)),
	[TCA_PORT_SEED] = { .type = NLA_U64 },
	[TCA_PORT_INT] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_int)),
	[TCA_PORT_CLASS] = { .type = NLA_NESTED },
	[TCA_PORT_DSCP] = NLA_POLICY_EXACT_LEN(TC_PORT_DSCPS),
	[TCA_PORT_POOL] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_pool)),
	[TCA_PORT_PFC] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_pfc)),
	[TCA_PORT_HISTOGRAM] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_window)),
	[TCA_PORT_HISTOGRAM_NS] = { .type = NLA_REJECT },
	[TCA_PORT_TRIM] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_trim)),
	[TCA_PORT_TRIMMED] = { .type = NLA_REJECT },
};

static const struct nla_policy port_class_policy[TCA_PORT_CLASS_MAX + 1] = {
	[TCA_PORT_CLASS_NUMBER] = NLA_POLICY_MAX(NLA_U32, TC_PORT_CLASSES - 1),
	[TCA_PORT_CLASS_LIMIT] = { .type = NLA_U32 },
	[TCA_PORT_CLASS_MARKING] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_port_marking)),
	[TCA_PORT_CLASS_QUANTUM] = { .type = NLA_U32 },
	[TCA_PORT_CLASS_RESERVE] = { .type = NLA_U32 },
	[TCA_PORT_CLASS_ALPHA] = { .type = NLA_U32 },
	[TCA_PORT_CLASS_LOSSLESS] = NLA_POLICY_MAX(NLA_U32, 1),
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

static int port_check_pfc(const struct port_sched *q, struct nlattr **tb, struct netlink_ext_ack *extack)
{
	const struct tc_port_pfc *pfc = tb[TCA_PORT_PFC] ? nla_data(tb[TCA_PORT_PFC]) : NULL;

	if (pfc && (!pfc->quanta || pfc->quanta > U16_MAX || (pfc->share_of && pfc->share > pfc->share_of))) {
		NL_SET_ERR_MSG_ATTR(extack, tb[TCA_PORT_PFC], "quanta are 1 .. 65535, a share is at most 1");
		return -EINVAL;
	}
	if (pfc && !q->pool && !tb[TCA_PORT_POOL]) {
		NL_SET_ERR_MSG_ATTR(extack, tb[TCA_PORT_PFC],
				    "frames are charged to a pool, and none is given");
		return -EINVAL;
	}
	return 0;
}

/* Returns how many classes there will be, or an error. */
static int port_check_classes(const struct port_sched *q, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_PORT_CLASS_MAX + 1], *each;
	u32 classes = q->classes, number;
	int rem, err;

	nla_for_each_nested(each, opt, rem)
	{
		if (nla_type(each) != TCA_PORT_CLASS)
			continue;
		err = nla_parse_nested(tb, TCA_PORT_CLASS_MAX, each, port_class_policy, extack);
		if (!err)
			err = port_check_marking(tb[TCA_PORT_CLASS_MARKING], extack);
		if (err)
			return err;
		if (tb[TCA_PORT_CLASS_QUANTUM] &&
		    nla_get_u32(tb[TCA_PORT_CLASS_QUANTUM]) > PORT_LARGEST_QUANTUM) {
			NL_SET_ERR_MSG_ATTR(extack, each, "a quantum is at most 2^28 bytes");
			return -EINVAL;
		}
		number = tb[TCA_PORT_CLASS_NUMBER] ? nla_get_u32(tb[TCA_PORT_CLASS_NUMBER]) : U32_MAX;
		if (number > classes) {
			NL_SET_ERR_MSG_ATTR(extack, each, "classes are numbered from 0 without gaps");
			return -EINVAL;
		}
		classes = max(classes, number + 1);
	}
	return classes;
}

static int port_check_dscps(const struct nlattr *attr, u32 classes, struct netlink_ext_ack *extack)
{
	const u8 *class_of = attr ? nla_data(attr) : NULL;
	unsigned int dscp;

	for (dscp = 0; class_of && dscp < TC_PORT_DSCPS; dscp++)
		if (class_of[dscp] >= classes) {
			NL_SET_ERR_MSG_ATTR(extack, attr, "a DSCP belongs to a class that is not there");
			return -EINVAL;
		}
	return 0;
}

static int port_check_trim(const struct nlattr *attr, u32 classes, struct netlink_ext_ack *extack)
{
	const struct tc_port_trim *trim = attr ? nla_data(attr) : NULL;

	if (trim && (trim->class >= classes || trim->dscp >= TC_PORT_DSCPS)) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "trimmed frames need a class that is there and a DSCP below 64");
		return -EINVAL;
	}
	return 0;
}

static void port_set_marking(struct port_class *c, const struct tc_port_marking *marking)
{
	bool arrival = marking->at == TC_PORT_MARKS_ARRIVALS;

	c->marking = *marking;
	c->arrival_kmin = arrival ? marking->kmin_bytes : TC_PORT_NO_MARKS;
	c->departure_kmin = arrival ? TC_PORT_NO_MARKS : marking->kmin_bytes;
}

static void port_set_int(struct port_sched *q, const struct tc_port_int *telemetry)
{
	q->tells = true;
	q->rate = telemetry->rate;
	q->unit.time_ns = telemetry->time_ns;
	q->unit.sent_bytes = telemetry->sent_bytes;
	q->unit.queue_bytes = telemetry->queue_bytes;
}

/* Class 0 draws from the sequence of the port's seed, and each other class from one of its own. */
static void port_set_seed(struct port_sched *q, u64 seed)
{
	unsigned int which;

	q->seed = seed;
	for (which = 0; which < TC_PORT_CLASSES; which++) {
		q->of_class[which].seed = which ? lab_draw(seed, U64_MAX - which) : seed;
		q->of_class[which].draws = 0;
	}
}

static void port_set_queue(struct port_sched *q, struct nlattr **tb)
{
	u32 number = nla_get_u32(tb[TCA_PORT_CLASS_NUMBER]);
	struct port_class *c = &q->of_class[number];

	if (tb[TCA_PORT_CLASS_LIMIT])
		c->limit_bytes = nla_get_u32(tb[TCA_PORT_CLASS_LIMIT]);
	if (tb[TCA_PORT_CLASS_MARKING])
		port_set_marking(c, nla_data(tb[TCA_PORT_CLASS_MARKING]));
	if (tb[TCA_PORT_CLASS_ALPHA])
		c->alpha = nla_get_u32(tb[TCA_PORT_CLASS_ALPHA]);
	if (tb[TCA_PORT_CLASS_QUANTUM]) {
		c->quantum_bytes = nla_get_u32(tb[TCA_PORT_CLASS_QUANTUM]);
		c->deficit_bytes = 0;
	}
	if (tb[TCA_PORT_CLASS_RESERVE])
		c->reserve_bytes = nla_get_u32(tb[TCA_PORT_CLASS_RESERVE]);
	if (tb[TCA_PORT_CLASS_LOSSLESS])
		c->lossless = nla_get_u32(tb[TCA_PORT_CLASS_LOSSLESS]);
	q->strict = c->quantum_bytes ? q->strict & ~BIT(number) : q->strict | BIT(number);
}

static u32 port_u32_or(const struct nlattr *attr, u32 otherwise)
{
	return attr ? nla_get_u32(attr) : otherwise;
}

/* Waiting frames took room by the reserve, and by whether the class is lossless. */
static int port_check_room(const struct port_sched *q, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct nlattr *tb[TCA_PORT_CLASS_MAX + 1], *each;
	int rem, err;

	nla_for_each_nested(each, opt, rem)
	{
		const struct port_class *c;

		if (nla_type(each) != TCA_PORT_CLASS)
			continue;
		err = nla_parse_nested(tb, TCA_PORT_CLASS_MAX, each, port_class_policy, extack);
		if (err)
			return err;
		c = &q->of_class[nla_get_u32(tb[TCA_PORT_CLASS_NUMBER])];
		if (!c->queue.head ||
		    (port_u32_or(tb[TCA_PORT_CLASS_RESERVE], c->reserve_bytes) == c->reserve_bytes &&
		     port_u32_or(tb[TCA_PORT_CLASS_LOSSLESS], c->lossless) == c->lossless))
			continue;
		NL_SET_ERR_MSG_ATTR(extack, each, "frames wait that took room as the class is now");
		return -EBUSY;
	}
	return 0;
}

/* The attributes have been checked. */
static void port_set_classes(struct port_sched *q, struct nlattr *opt)
{
	struct nlattr *tb[TCA_PORT_CLASS_MAX + 1], *each;
	int rem;

	nla_for_each_nested(each, opt, rem)
	{
		if (nla_type(each) != TCA_PORT_CLASS ||
		    nla_parse_nested(tb, TCA_PORT_CLASS_MAX, each, port_class_policy, NULL))
			continue;
		port_set_queue(q, tb);
		q->named = true;
	}
}

/* A plain port has kept no time of its classes. */
static void port_begin_tallies(struct port_sched *q)
{
	u64 now = ktime_get_ns();
	unsigned int which;

	for (which = 0; which < TC_PORT_CLASSES; which++)
		q->of_class[which].tally.since_ns = now;
}

static int port_join_pool(struct Qdisc *sch, const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	struct port_sched *q = qdisc_priv(sch);
	struct port_pool *pool = port_pool_get(dev_net(qdisc_dev(sch)), nla_data(attr));
	bool joined;

	if (!pool)
		return -ENOMEM;
	sch_tree_lock(sch);
	joined = !q->pool && !sch->q.qlen;
	if (joined) {
		q->pool = pool;
		q->plain = false;
	}
	sch_tree_unlock(sch);
	if (joined)
		return 0;
	port_pool_put(pool);
	if (pool == q->pool)
		return 0;
	if (q->pool) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "a port cannot change to another pool");
		return -EOPNOTSUPP;
	}
	NL_SET_ERR_MSG_ATTR(extack, attr, "frames wait that took no room in the pool");
	return -EBUSY;
}

static int port_set_pfc(struct Qdisc *sch, const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	struct port_sched *q = qdisc_priv(sch);

	if (!cable_is(qdisc_dev(sch))) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "only cables send PAUSE frames");
		return -EOPNOTSUPP;
	}
	if (!q->ingress)
		q->ingress = port_ingress_new(qdisc_dev(sch), q->pool);
	if (!q->ingress)
		return -ENOMEM;
	local_bh_disable();
	q->ingress->pfc = *(const struct tc_port_pfc *)nla_data(attr);
	local_bh_enable();
	return 0;
}

/* Returns an empty histogram for the window that is asked for, NULL if none is, or an error. */
static struct port_histogram *port_new_histogram(const struct nlattr *attr)
{
	struct port_histogram *h = attr ? kvzalloc(sizeof(*h), GFP_KERNEL) : NULL;

	if (!attr)
		return NULL;
	if (!h)
		return ERR_PTR(-ENOMEM);
	h->window = *(const struct tc_port_window *)nla_data(attr);
	return h;
}

static void port_apply(struct Qdisc *sch, struct nlattr *opt, struct nlattr **tb, u32 classes)
{
	struct port_sched *q = qdisc_priv(sch);

	q->classes = classes;
	if (tb[TCA_PORT_LIMIT])
		q->of_class[0].limit_bytes = nla_get_u32(tb[TCA_PORT_LIMIT]);
	if (tb[TCA_PORT_MARKING])
		port_set_marking(&q->of_class[0], nla_data(tb[TCA_PORT_MARKING]));
	if (tb[TCA_PORT_SEED])
		port_set_seed(q, nla_get_u64(tb[TCA_PORT_SEED]));
	if (tb[TCA_PORT_INT])
		port_set_int(q, nla_data(tb[TCA_PORT_INT]));
	if (tb[TCA_PORT_DSCP])
		memcpy(q->class_of, nla_data(tb[TCA_PORT_DSCP]), sizeof(q->class_of));
	if (tb[TCA_PORT_TRIM])
		q->trim = *(const struct tc_port_trim *)nla_data(tb[TCA_PORT_TRIM]);
	port_set_classes(q, opt);
	if (q->plain && q->named)
		port_begin_tallies(q);
	q->plain = q->classes == 1 && !q->named && !q->pool;
}

static int port_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct port_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_PORT_MAX + 1];
	struct port_histogram *histogram;
	int err, classes;

	if (!opt)
		return 0;
	err = nla_parse_nested(tb, TCA_PORT_MAX, opt, port_policy, extack);
	if (!err)
		err = port_check_marking(tb[TCA_PORT_MARKING], extack);
	if (!err)
		err = port_check_int(tb[TCA_PORT_INT], extack);
	if (!err)
		err = port_check_pfc(q, tb, extack);
	if (err)
		return err;
	classes = port_check_classes(q, opt, extack);
	if (classes < 0)
		return classes;
	err = port_check_dscps(tb[TCA_PORT_DSCP], classes, extack);
	if (!err)
		err = port_check_trim(tb[TCA_PORT_TRIM], classes, extack);
	if (!err && tb[TCA_PORT_POOL])
		err = port_join_pool(sch, tb[TCA_PORT_POOL], extack);
	if (!err && tb[TCA_PORT_PFC])
		err = port_set_pfc(sch, tb[TCA_PORT_PFC], extack);
	if (err)
		return err;
	histogram = port_new_histogram(tb[TCA_PORT_HISTOGRAM]);
	if (IS_ERR(histogram))
		return PTR_ERR(histogram);
	sch_tree_lock(sch);
	err = port_check_room(q, opt, extack);
	if (!err)
		port_apply(sch, opt, tb, classes);
	if (!err && histogram)
		swap(q->tally.histogram, histogram);
	sch_tree_unlock(sch);
	kvfree(histogram);
	return err;
}

static void port_init_class(struct port_class *c, u64 now)
{
	static const struct tc_port_marking none = { .kmin_bytes = TC_PORT_NO_MARKS,
						     .kmax_bytes = TC_PORT_NO_MARKS };

	c->limit_bytes = U32_MAX;
	c->alpha = U32_MAX;
	c->tally.since_ns = now;
	port_set_marking(c, &none);
}

static int port_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	static const u8 never;
	struct port_sched *q = qdisc_priv(sch);
	u64 now = port_now();
	unsigned int which;

	q->paused = cable_is(qdisc_dev(sch)) ? cable_attach_port(qdisc_dev(sch)) : &never;
	q->classes = 1;
	q->plain = true;
	q->strict = U8_MAX;
	q->tally.since_ns = now;
	for (which = 0; which < TC_PORT_CLASSES; which++)
		port_init_class(&q->of_class[which], now);
	port_set_seed(q, 0);
	return port_change(sch, opt, extack);
}

static void port_destroy(struct Qdisc *sch)
{
	struct port_sched *q = qdisc_priv(sch);

	if (!q->paused)
		return; /* not even begun */
	if (cable_is(qdisc_dev(sch)))
		cable_detach_port(qdisc_dev(sch));
	if (q->ingress)
		port_ingress_end(q->ingress);
	if (q->pool)
		port_pool_put(q->pool);
	kvfree(q->tally.histogram);
}

static int port_dump_class(struct sk_buff *skb, const struct port_class *c, u32 number)
{
	struct nlattr *nest = nla_nest_start(skb, TCA_PORT_CLASS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_PORT_CLASS_NUMBER, number) ||
	    nla_put_u32(skb, TCA_PORT_CLASS_LIMIT, c->limit_bytes) ||
	    nla_put(skb, TCA_PORT_CLASS_MARKING, sizeof(c->marking), &c->marking) ||
	    nla_put_u32(skb, TCA_PORT_CLASS_QUANTUM, c->quantum_bytes) ||
	    nla_put_u32(skb, TCA_PORT_CLASS_RESERVE, c->reserve_bytes) ||
	    nla_put_u32(skb, TCA_PORT_CLASS_ALPHA, c->alpha) ||
	    nla_put_u32(skb, TCA_PORT_CLASS_LOSSLESS, c->lossless))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int port_dump_classes(struct sk_buff *skb, const struct port_sched *q)
{
	unsigned int which;

	for (which = 0; which < q->classes; which++)
		if (port_dump_class(skb, &q->of_class[which], which))
			return -EMSGSIZE;
	return nla_put(skb, TCA_PORT_DSCP, sizeof(q->class_of), q->class_of);
}

static int port_dump_buffer(struct sk_buff *skb, const struct port_sched *q)
{
	const struct tc_port_pool pool = { .id = q->pool->id, .bytes = q->pool->bytes };

	if (nla_put(skb, TCA_PORT_POOL, sizeof(pool), &pool))
		return -EMSGSIZE;
	return q->ingress ? nla_put(skb, TCA_PORT_PFC, sizeof(q->ingress->pfc), &q->ingress->pfc) : 0;
}

static int port_dump_trim(struct sk_buff *skb, const struct port_sched *q)
{
	if (nla_put(skb, TCA_PORT_TRIM, sizeof(q->trim), &q->trim))
		return -EMSGSIZE;
	return nla_put_64bit(skb, TCA_PORT_TRIMMED, sizeof(q->trimmed), &q->trimmed, TCA_PORT_PAD);
}

/* Buckets before the first and behind the last that count anything are left out. */
static int port_put_histogram(struct sk_buff *skb, const struct port_histogram *h)
{
	struct tc_port_histogram *told;
	u32 first = 0, end = TC_PORT_BUCKETS;
	struct nlattr *attr;

	while (end && !h->ns[end - 1])
		end--;
	while (first < end && !h->ns[first])
		first++;
	attr = nla_reserve_64bit(skb, TCA_PORT_HISTOGRAM_NS, struct_size(told, ns, end - first),
				 TCA_PORT_PAD);
	if (!attr)
		return -EMSGSIZE;
	told = nla_data(attr);
	told->first = first;
	told->count = end - first;
	memcpy(told->ns, h->ns + first, (end - first) * sizeof(h->ns[0]));
	return 0;
}

static int port_dump_histogram(struct Qdisc *sch, struct sk_buff *skb)
{
	struct port_sched *q = qdisc_priv(sch);
	const struct port_histogram *h = q->tally.histogram;
	int err;
	u64 now;

	if (!h)
		return 0;
	err = nla_put_64bit(skb, TCA_PORT_HISTOGRAM, sizeof(h->window), &h->window, TCA_PORT_PAD);
	if (err)
		return err;
	sch_tree_lock(sch); /* bottom halves are off, so the clock costs nobody */
	now = ktime_get_ns();
	port_integrate(&q->tally, sch->qstats.backlog, now);
	if (now > h->window.until_ns)
		err = port_put_histogram(skb, h);
	sch_tree_unlock(sch);
	return err;
}

static int port_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct port_sched *q = qdisc_priv(sch);
	const struct port_class *c = &q->of_class[0];
	const struct tc_port_int telemetry = { q->rate, q->unit.time_ns, q->unit.sent_bytes,
					       q->unit.queue_bytes };
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_PORT_LIMIT, c->limit_bytes) ||
	    nla_put(skb, TCA_PORT_MARKING, sizeof(c->marking), &c->marking) ||
	    nla_put_u64_64bit(skb, TCA_PORT_SEED, q->seed, TCA_PORT_PAD) ||
	    (q->tells && nla_put(skb, TCA_PORT_INT, sizeof(telemetry), &telemetry)) ||
	    (q->named && port_dump_classes(skb, q)) || (q->pool && port_dump_buffer(skb, q)) ||
	    (q->trim.bytes && port_dump_trim(skb, q)) || port_dump_histogram(sch, skb))
		return -EMSGSIZE;
	return nla_nest_end(skb, nest);
}

/* ---- Statistics ---- */

struct port_stats {
	struct tc_port_xstats port;
	struct tc_port_class_xstats of_class[TC_PORT_CLASSES];
};

static void port_read_ingress(const struct port_sched *q, struct port_stats *stats)
{
	unsigned int which;

	stats->port.most_headroom_bytes = q->ingress->most_headroom_bytes;
	stats->port.refused = q->ingress->refused;
	for (which = 0; which < q->classes; which++) {
		const struct port_ingress_class *c = &q->ingress->of_class[which];

		stats->port.charged_bytes += c->bytes + c->headroom_bytes;
		stats->port.headroom_bytes += c->headroom_bytes;
		stats->of_class[which].charged_bytes = c->bytes + c->headroom_bytes;
		stats->of_class[which].pauses = c->pauses;
	}
}

static void port_read_pauses(const struct port_sched *q, const struct net_device *dev, u64 now,
			     struct port_stats *stats)
{
	struct cable_pauses pauses;
	unsigned int which;

	cable_read_pauses(dev, now, &pauses);
	stats->port.paused_ns = pauses.paused_ns;
	stats->port.pauses_received = pauses.received;
	stats->port.pauses_sent = pauses.sent;
	stats->port.paused_classes = *q->paused;
	for (which = 0; which < q->classes; which++)
		stats->of_class[which].paused_ns = pauses.class_ns[which];
}

static void port_read_class(struct port_class *c, u64 now, struct tc_port_xstats *port,
			    struct tc_port_class_xstats *own)
{
	port->marked += c->marked;
	port->ce_packets += c->ce_packets;
	port->ce_bytes += c->ce_bytes;
	port_integrate(&c->tally, c->bytes, now);
	*own = (struct tc_port_class_xstats){
		.backlog_bytes = c->bytes,
		.backlog_packets = c->queue.qlen,
		.sent_bytes = c->sent_bytes,
		.sent_packets = c->sent_packets,
		.drops = c->drops,
		.marked = c->marked,
		.ce_packets = c->ce_packets,
		.ce_bytes = c->ce_bytes,
		.queue_byte_ns = c->tally.queue_byte_ns,
		.busy_ns = c->tally.busy_ns,
		.longest_bytes = port_look(&c->tally, c->bytes, now),
	};
}

static void port_read(struct Qdisc *sch, struct port_stats *stats)
{
	struct port_sched *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	unsigned int which;

	port_integrate(&q->tally, sch->qstats.backlog, now);
	stats->port.queue_byte_ns = q->tally.queue_byte_ns;
	stats->port.busy_ns = q->tally.busy_ns;
	stats->port.longest_bytes = port_look(&q->tally, sch->qstats.backlog, now);
	stats->port.int_records = q->int_records;
	stats->port.int_missed = q->int_missed;
	stats->port.classes = q->classes;
	for (which = 0; which < q->classes; which++)
		port_read_class(&q->of_class[which], now, &stats->port, &stats->of_class[which]);
	if (q->pool)
		stats->port.pool_used_bytes = q->pool->used_bytes;
	if (q->ingress)
		port_read_ingress(q, stats);
	if (cable_is(qdisc_dev(sch)))
		port_read_pauses(q, qdisc_dev(sch), now, stats);
}

static int port_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct port_sched *q = qdisc_priv(sch);
	struct port_stats stats = {};
	size_t bytes = sizeof(stats.port);

	if (q->named)
		bytes += q->classes * sizeof(stats.of_class[0]);
	sch_tree_lock(sch); /* bottom halves are off, so the clock costs nobody */
	port_read(sch, &stats);
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &stats, bytes);
}

static struct Qdisc_ops port_qdisc_ops __read_mostly = {
	.id = "port",
	.priv_size = sizeof(struct port_sched),
	.enqueue = port_enqueue,
	.dequeue = port_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = port_init,
	.reset = port_reset,
	.destroy = port_destroy,
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
