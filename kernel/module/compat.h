/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parts of newer kernels that the drivers use, for kernels back to 6.1. Kbuild says which of it a kernel has.
 *
 * Where a structure lacks a field, its name stands for another that is of no use here; cable_module_init()
 * puts right what matters.
 */
#ifndef CABLE_COMPAT_H
#define CABLE_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#ifndef HAVE_hrtimer_setup
static inline void compat_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*function)(struct hrtimer *), clockid_t clock,
					enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#define hrtimer_setup compat_hrtimer_setup
#endif

#ifndef HAVE_rtnl_newlink_params
struct rtnl_newlink_params {
	struct net *src_net;
	struct nlattr **tb;
	struct nlattr **data;
};

static inline struct net *rtnl_newlink_peer_net(struct rtnl_newlink_params *params)
{
	return params->src_net;
}
#endif

#ifndef HAVE_rtnl_nla_parse_ifinfomsg
static inline int rtnl_nla_parse_ifinfomsg(struct nlattr **tb, const struct nlattr *nla,
					   struct netlink_ext_ack *extack)
{
	return rtnl_nla_parse_ifla(tb, nla_data(nla) + sizeof(struct ifinfomsg),
				   nla_len(nla) - sizeof(struct ifinfomsg), extack);
}
#endif

#ifndef HAVE_configure_portid
#define rtnl_configure_link(dev, ifm, portid, nlh) rtnl_configure_link(dev, ifm)
#endif

#ifndef HAVE_peer_type
#define peer_type slave_maxtype
#endif

#ifndef HAVE_qdisc_qlen_inc
static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}
#endif

#ifndef HAVE_pcpu_stat_type
#define pcpu_stat_type          group
#define NETDEV_PCPU_STAT_TSTATS INIT_NETDEV_GROUP
#endif

#endif
