// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group port: a device that sends each frame by one of its members, which are ports of one switch.
 *
 * A switch with equal next hops outputs to it. The member follows from a seeded hash of the frame's IPv4
 * addresses, protocol and ports (lab_group.h), so all frames of a flow leave by the same port. The group has
 * no queue, takes no time and counts nothing but what it drops: the frame goes on as if the switch had sent
 * it to the member itself, with the port where it came in (skb_iif), which that member's buffer charges.
 *
 * It may balance instead: then it has a table of flows, and chooses in one of the ways of `group_ways` with
 * each flowlet (lab.h). The table has a place for each value of a part of the hash. A flow that finds another
 * one in its place takes it over as if it were new. Such a group counts what its members get.
 *
 * As Open vSwitch does with its own ports, it drops what is for a member that is down, without carrier, or
 * gone.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/lab.h>
#include <linux/lab_event.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#include "lab_group.h"

#define DRV_NAME    "lab_group"
#define GROUP_FLOWS 4096

struct group_flow {
	u64 hash;
	u64 last_ns;
	u32 flowlets; /* so far; 0: the place is free */
	u32 at;       /* the member that it took last */
};

/* Of a group that balances. */
struct group_state {
	struct lab_group_balance asked;
	u64 seed, draws;
	u32 turn;                    /* the member whose turn it is */
	u32 remembered;              /* how many of `best` */
	u8 best[LAB_GROUP_SAMPLES];  /* of the frame before, the best first */
	u8 order[LAB_GROUP_MEMBERS]; /* all members; samples are drawn from it without replacement */
	struct lab_group_count counts[LAB_GROUP_MEMBERS];
	struct group_flow flows[GROUP_FLOWS];
};

struct group_members {
	struct rcu_head rcu;
	struct group_state *state; /* NULL: the hash chooses */
	u64 seed;
	u32 count;
	struct net_device *port[] __counted_by(count); /* NULL: it is gone */
};

struct group {
	struct list_head list; /* under RTNL */
	struct group_members __rcu *members;
};

static LIST_HEAD(groups);

/* ---- A frame ---- */

static bool group_has_ports(const struct iphdr *ip)
{
	return (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) && !ip_is_fragment(ip);
}

static void group_read(const struct sk_buff *skb, struct lab_tuple *t)
{
	const struct iphdr *ip;
	const __be16 *ports;
	struct iphdr _ip;
	__be16 _ports[2];

	memset(t, 0, sizeof(*t));
	if (skb->protocol != htons(ETH_P_IP))
		return;
	ip = skb_header_pointer(skb, ETH_HLEN, sizeof(_ip), &_ip);
	if (unlikely(!ip))
		return;
	t->src = ntohl(ip->saddr);
	t->dst = ntohl(ip->daddr);
	t->protocol = ip->protocol;
	if (!group_has_ports(ip))
		return;
	ports = skb_header_pointer(skb, ETH_HLEN + ip->ihl * 4, sizeof(_ports), _ports);
	if (unlikely(!ports))
		return;
	t->src_port = ntohs(ports[0]);
	t->dst_port = ntohs(ports[1]);
}

static bool group_takes(const struct net_device *port, const struct sk_buff *skb)
{
	return port && netif_running(port) && netif_carrier_ok(port) && skb->len <= port->mtu + ETH_HLEN;
}

/* ---- Ways to choose ---- */

/* Bytes that wait at a member. One that sends nothing is the fullest of all. */
static u32 group_queued(const struct group_members *m, u32 at)
{
	struct net_device *port = m->port[at];

	if (unlikely(!port || !netif_running(port) || !netif_carrier_ok(port)))
		return U32_MAX;
	return rcu_dereference_bh(netdev_get_tx_queue(port, 0)->qdisc)->qstats.backlog;
}

static u32 group_draw(const struct group_members *m, const struct group_flow *f)
{
	return f->flowlets ? lab_group_choose(lab_draw(f->hash, f->flowlets), m->count) : f->at;
}

static u32 group_next(const struct group_members *m, const struct group_flow *f)
{
	struct group_state *s = m->state;
	u32 at = s->turn;

	s->turn = at + 1 < m->count ? at + 1 : 0;
	return at;
}

static u32 group_least(const struct group_members *m, const struct group_flow *f)
{
	u32 best = f->at, least = group_queued(m, best), at = best, step;

	for (step = 1; step < m->count && least; step++) {
		u32 queued;

		at = at + 1 < m->count ? at + 1 : 0;
		queued = group_queued(m, at);
		if (queued < least) {
			least = queued;
			best = at;
		}
	}
	return best;
}

/* Members in the order of their queues; of equal ones, the first that was noted comes first. */
struct group_ranking {
	u32 count;
	u32 queued[2 * LAB_GROUP_SAMPLES];
	u8 at[2 * LAB_GROUP_SAMPLES];
};

static void group_note(struct group_ranking *r, u32 at, u32 queued)
{
	u32 place;

	for (place = 0; place < r->count; place++)
		if (r->at[place] == at)
			return;
	for (place = r->count++; place && r->queued[place - 1] > queued; place--) {
		r->queued[place] = r->queued[place - 1];
		r->at[place] = r->at[place - 1];
	}
	r->queued[place] = queued;
	r->at[place] = at;
}

static u32 group_drill(const struct group_members *m, const struct group_flow *f)
{
	struct group_state *s = m->state;
	struct group_ranking r = { .count = 0 };
	u32 i;

	for (i = 0; i < s->remembered; i++)
		group_note(&r, s->best[i], group_queued(m, s->best[i]));
	for (i = 0; i < min(s->asked.samples, m->count); i++) {
		u32 with = i + lab_group_choose(lab_draw(s->seed, s->draws++), m->count - i);

		swap(s->order[i], s->order[with]);
		group_note(&r, s->order[i], group_queued(m, s->order[i]));
	}
	s->remembered = min(s->asked.memory, r.count);
	memcpy(s->best, r.at, s->remembered);
	return r.at[0];
}

static u32 (*const group_ways[])(const struct group_members *m, const struct group_flow *f) = {
	[LAB_GROUP_RANDOM] = group_draw,    [LAB_GROUP_ROUND_ROBIN] = group_next,
	[LAB_GROUP_FLOWLET] = group_draw,   [LAB_GROUP_DRILL] = group_drill,
	[LAB_GROUP_ADAPTIVE] = group_least,
};

static noinline u32 group_balance(const struct group_members *m, const struct sk_buff *skb, u64 hash)
{
	struct group_state *s = m->state;
	struct group_flow *f = &s->flows[hash % GROUP_FLOWS];
	u64 now = lab_event_clock();
	struct lab_group_count *count;

	if (f->hash != hash || !f->flowlets)
		*f = (struct group_flow){ .hash = hash, .at = lab_group_choose(hash, m->count) };
	if (!f->flowlets || now - f->last_ns >= s->asked.gap_ns) {
		u32 at = group_ways[s->asked.mode](m, f);

		s->counts[at].moves += f->flowlets && m->port[at] != m->port[f->at];
		s->counts[at].flowlets++;
		f->flowlets++;
		f->at = at;
	}
	f->last_ns = now;
	count = &s->counts[f->at];
	count->frames++;
	count->bytes += skb->len;
	return f->at;
}

static netdev_tx_t group_xmit(struct sk_buff *skb, struct net_device *dev)
{
	const struct group_members *m = rcu_dereference_bh(((struct group *)netdev_priv(dev))->members);
	struct net_device *port;
	struct lab_tuple t;
	u64 hash;

	group_read(skb, &t);
	hash = lab_group_hash(m->seed, &t);
	port = m->port[likely(!m->state) ? lab_group_choose(hash, m->count) : group_balance(m, skb, hash)];
	if (unlikely(!group_takes(port, skb))) {
		dev_core_stats_tx_dropped_inc(dev);
		kfree_skb_reason(skb, SKB_DROP_REASON_DEV_READY);
		return NETDEV_TX_OK;
	}
	skb->dev = port;
	dev_queue_xmit(skb);
	return NETDEV_TX_OK;
}

/* ---- Members ---- */

static void group_free(struct rcu_head *rcu)
{
	struct group_members *m = container_of(rcu, struct group_members, rcu);

	kvfree(m->state);
	kfree(m);
}

static void group_let_go(struct group_members *m)
{
	u32 at;

	for (at = 0; at < m->count; at++)
		dev_put(m->port[at]);
	call_rcu(&m->rcu, group_free);
}

/* Takes a port of the namespace whose frames an Ethernet device sends; a group in a group could send in a
 * circle. */
static struct net_device *group_find(struct net_device *dev, struct net *net, u32 ifindex,
				     struct netlink_ext_ack *extack)
{
	struct net_device *port = dev_get_by_index(net, ifindex);

	if (port && port->type == ARPHRD_ETHER && port->rtnl_link_ops != dev->rtnl_link_ops)
		return port;
	NL_SET_ERR_MSG_FMT(extack, "member %u is not an Ethernet device, or is a group port", ifindex);
	dev_put(port);
	return NULL;
}

static struct group_members *group_collect(struct net_device *dev, struct net *net, const struct nlattr *attr,
					   u64 seed, struct netlink_ext_ack *extack)
{
	const u32 *ifindexes = nla_data(attr);
	u32 count = nla_len(attr) / sizeof(u32);
	struct group_members *m = kzalloc(struct_size(m, port, count), GFP_KERNEL);

	if (!m)
		return ERR_PTR(-ENOMEM);
	m->seed = seed;
	m->count = count;
	for (count = 0; count < m->count; count++) {
		m->port[count] = group_find(dev, net, ifindexes[count], extack);
		if (!m->port[count]) {
			group_let_go(m);
			return ERR_PTR(-ENODEV);
		}
	}
	return m;
}

/* The members there are, with another seed. */
static struct group_members *group_reseed(const struct group_members *old, u64 seed)
{
	struct group_members *m = kmemdup(old, struct_size(old, port, old->count), GFP_KERNEL);
	u32 at;

	if (!m)
		return ERR_PTR(-ENOMEM);
	m->seed = seed;
	m->state = NULL;
	for (at = 0; at < m->count; at++)
		dev_hold(m->port[at]);
	return m;
}

/* Balances from now on, with nothing seen yet. */
static int group_begin(struct group_members *m, const struct lab_group_balance *asked)
{
	u32 at;

	if (asked->mode == LAB_GROUP_ECMP)
		return 0;
	m->state = kvzalloc(sizeof(*m->state), GFP_KERNEL);
	if (!m->state)
		return -ENOMEM;
	m->state->asked = *asked;
	m->state->seed = lab_draw(m->seed, U64_MAX);
	for (at = 0; at < m->count; at++)
		m->state->order[at] = at;
	return 0;
}

static int group_configure(struct net_device *dev, struct net *net, struct nlattr *data[],
			   struct netlink_ext_ack *extack)
{
	struct group *group = netdev_priv(dev);
	struct group_members *old = rtnl_dereference(group->members), *new;
	u64 seed = data[IFLA_LAB_GROUP_SEED] ? nla_get_u64(data[IFLA_LAB_GROUP_SEED]) : old ? old->seed : 0;
	struct lab_group_balance asked = { .mode = LAB_GROUP_ECMP };
	int err;

	if (data[IFLA_LAB_GROUP_BALANCE])
		nla_memcpy(&asked, data[IFLA_LAB_GROUP_BALANCE], sizeof(asked));
	else if (old && old->state)
		asked = old->state->asked;
	if (data[IFLA_LAB_GROUP_MEMBERS])
		new = group_collect(dev, net, data[IFLA_LAB_GROUP_MEMBERS], seed, extack);
	else
		new = group_reseed(old, seed);
	if (IS_ERR(new))
		return PTR_ERR(new);
	err = group_begin(new, &asked);
	if (err) {
		group_let_go(new);
		return err;
	}
	rcu_assign_pointer(group->members, new);
	if (old)
		group_let_go(old);
	return 0;
}

/* A member goes away: frames for it are dropped. */
static int group_hear(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *gone = netdev_notifier_info_to_dev(info);
	struct group *group;
	u32 at;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	list_for_each_entry(group, &groups, list)
	{
		struct group_members *m = rtnl_dereference(group->members);

		for (at = 0; at < m->count; at++)
			if (m->port[at] == gone) {
				WRITE_ONCE(m->port[at], NULL);
				dev_put(gone);
			}
	}
	return NOTIFY_DONE;
}

static struct notifier_block group_notifier = { .notifier_call = group_hear };

/* ---- The device ---- */

static void group_uninit(struct net_device *dev)
{
	struct group *group = netdev_priv(dev);
	struct group_members *m = rtnl_dereference(group->members);

	RCU_INIT_POINTER(group->members, NULL);
	if (m)
		group_let_go(m);
}

static const struct net_device_ops group_netdev_ops = {
	.ndo_uninit = group_uninit,
	.ndo_start_xmit = group_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

/* It does for a frame what its members do, and leaves the rest to them. */
static void group_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &group_netdev_ops;
	dev->needs_free_netdev = true;
	dev->netns_immutable = true;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_NO_QUEUE;
	dev->lltx = true;
	dev->max_mtu = ETH_MAX_MTU;
	dev->mtu = ETH_MAX_MTU;
	dev->features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->hw_features = dev->features;
}

static int group_check_balance(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	const struct lab_group_balance *asked = attr ? nla_data(attr) : NULL;
	bool drills = asked && asked->mode == LAB_GROUP_DRILL;

	if (asked && (asked->mode >= __LAB_GROUP_MODES || asked->samples > LAB_GROUP_SAMPLES ||
		      asked->memory > LAB_GROUP_SAMPLES || drills != (asked->samples > 0))) {
		NL_SET_ERR_MSG_ATTR(
			extack, attr,
			"unknown balance; DRILL alone samples members, 1 .. 8, and remembers 0 .. 8");
		return -EINVAL;
	}
	return 0;
}

static int group_validate(struct nlattr *tb[], struct nlattr *data[], struct netlink_ext_ack *extack)
{
	const struct nlattr *members = data ? data[IFLA_LAB_GROUP_MEMBERS] : NULL;

	if (members && (!nla_len(members) || nla_len(members) % sizeof(u32) ||
			nla_len(members) > LAB_GROUP_MEMBERS * sizeof(u32))) {
		NL_SET_ERR_MSG_ATTR(extack, members, "a group has 1 .. 256 members");
		return -ERANGE;
	}
	return group_check_balance(data ? data[IFLA_LAB_GROUP_BALANCE] : NULL, extack);
}

static int group_newlink(struct net_device *dev, struct rtnl_newlink_params *params,
			 struct netlink_ext_ack *extack)
{
	struct group *group = netdev_priv(dev);
	int err;

	if (!params->data || !params->data[IFLA_LAB_GROUP_MEMBERS]) {
		NL_SET_ERR_MSG(extack, "a group needs members");
		return -EINVAL;
	}
	if (!params->tb[IFLA_ADDRESS])
		eth_hw_addr_random(dev);
	err = group_configure(dev, dev_net(dev), params->data, extack);
	if (err)
		return err;
	err = register_netdevice(dev);
	if (err) {
		group_uninit(dev);
		return err;
	}
	list_add(&group->list, &groups);
	return 0;
}

static int group_changelink(struct net_device *dev, struct nlattr *tb[], struct nlattr *data[],
			    struct netlink_ext_ack *extack)
{
	return data ? group_configure(dev, dev_net(dev), data, extack) : 0;
}

static void group_dellink(struct net_device *dev, struct list_head *head)
{
	struct group *group = netdev_priv(dev);

	list_del(&group->list);
	unregister_netdevice_queue(dev, head);
}

static size_t group_get_size(const struct net_device *dev)
{
	const struct group_members *m = rcu_dereference_rtnl(((struct group *)netdev_priv(dev))->members);
	size_t size = nla_total_size_64bit(sizeof(u64)) + nla_total_size(LAB_GROUP_MEMBERS * sizeof(u32));

	if (m && m->state)
		size += nla_total_size_64bit(sizeof(m->state->asked)) +
			nla_total_size_64bit(m->count * sizeof(m->state->counts[0]));
	return size;
}

static int group_fill_info(struct sk_buff *skb, const struct net_device *dev)
{
	const struct group_members *m = rtnl_dereference(((struct group *)netdev_priv(dev))->members);
	struct nlattr *attr;
	u32 *ifindexes, at;

	if (nla_put_u64_64bit(skb, IFLA_LAB_GROUP_SEED, m->seed, IFLA_LAB_GROUP_PAD))
		return -EMSGSIZE;
	attr = nla_reserve(skb, IFLA_LAB_GROUP_MEMBERS, m->count * sizeof(u32));
	if (!attr)
		return -EMSGSIZE;
	ifindexes = nla_data(attr);
	for (at = 0; at < m->count; at++)
		ifindexes[at] = m->port[at] ? m->port[at]->ifindex : 0;
	if (!m->state)
		return 0;
	if (nla_put_64bit(skb, IFLA_LAB_GROUP_BALANCE, sizeof(m->state->asked), &m->state->asked,
			  IFLA_LAB_GROUP_PAD))
		return -EMSGSIZE;
	return nla_put_64bit(skb, IFLA_LAB_GROUP_COUNTS, m->count * sizeof(m->state->counts[0]),
			     m->state->counts, IFLA_LAB_GROUP_PAD);
}

static const struct nla_policy group_policy[IFLA_LAB_GROUP_MAX + 1] = {
	[IFLA_LAB_GROUP_SEED] = { .type = NLA_U64 },
	[IFLA_LAB_GROUP_MEMBERS] = { .type = NLA_BINARY },
	[IFLA_LAB_GROUP_BALANCE] = NLA_POLICY_EXACT_LEN(sizeof(struct lab_group_balance)),
	[IFLA_LAB_GROUP_COUNTS] = { .type = NLA_REJECT },
};

static struct rtnl_link_ops group_link_ops = {
	.kind = DRV_NAME,
	.priv_size = sizeof(struct group),
	.setup = group_setup,
	.validate = group_validate,
	.newlink = group_newlink,
	.changelink = group_changelink,
	.dellink = group_dellink,
	.policy = group_policy,
	.maxtype = IFLA_LAB_GROUP_MAX,
	.get_size = group_get_size,
	.fill_info = group_fill_info,
};

static int __init group_init(void)
{
	int err = register_netdevice_notifier(&group_notifier);

	if (err)
		return err;
	err = rtnl_link_register(&group_link_ops);
	if (err)
		unregister_netdevice_notifier(&group_notifier);
	return err;
}
device_initcall(group_init);

MODULE_DESCRIPTION(
	"A device that sends each frame by one of several others, chosen by a seeded hash or by load");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RTNL_LINK(DRV_NAME);
