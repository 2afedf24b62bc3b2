// SPDX-License-Identifier: Apache-2.0
/* Qdiscs of a port: see qdisc.h. */
#include "qdisc.h"

#include "lab.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define NO_FIELD 0xffff

/* Where a kind keeps its count of CE marks in its extra statistics: one or two fields. */
struct mark_field {
	uint16_t offset, width;
};

#define FIELD(type, member)                                                                                  \
	{                                                                                                    \
		offsetof(struct type, member), sizeof(((struct type *)0)->member)                            \
	}
#define NONE                                                                                                 \
	{                                                                                                    \
		NO_FIELD, 0                                                                                  \
	}

/* The beginning of struct tc_dualpi2_xstats, and cake's attributes: older headers lack them. */
struct dualpi2_xstats {
	uint32_t prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq;
	uint32_t ecn_mark; /* those of the step included */
};
#define CAKE_STATS_TIN_STATS      10
#define CAKE_TIN_STATS_ECN_MARKED 8

static const struct mark_kind {
	const char *kind;
	struct mark_field fields[2];
} mark_kinds[] = {
	{ "port", { FIELD(tc_port_xstats, marked), NONE } },
	{ "red", { FIELD(tc_red_xstats, marked), NONE } },
	{ "fq", { FIELD(tc_fq_qd_stats, ce_mark), NONE } },
	{ "fq_codel",
	  { FIELD(tc_fq_codel_xstats, qdisc_stats.ecn_mark),
	    FIELD(tc_fq_codel_xstats, qdisc_stats.ce_mark) } },
	{ "codel", { FIELD(tc_codel_xstats, ecn_mark), FIELD(tc_codel_xstats, ce_mark) } },
	{ "choke", { FIELD(tc_choke_xstats, marked), NONE } },
	{ "pie", { FIELD(tc_pie_xstats, ecn_mark), NONE } },
	{ "dualpi2", { FIELD(dualpi2_xstats, ecn_mark), NONE } },
};

/* One message, before it is understood: attributes that may come in any order. */
struct parts {
	struct nl_attr kind, options, stats2, basic, pkt64, queue, app;
};

static int split_stats(struct parts *p)
{
	const unsigned char *pos = p->stats2.data;
	size_t left = p->stats2.len;
	struct nl_attr a;
	int rc;

	while ((rc = nl_attr_next(&pos, &left, &a)) > 0) {
		switch (a.type) {
		case TCA_STATS_BASIC:
			p->basic = a;
			break;
		case TCA_STATS_PKT64:
			p->pkt64 = a;
			break;
		case TCA_STATS_QUEUE:
			p->queue = a;
			break;
		case TCA_STATS_APP:
			p->app = a;
			break;
		}
	}
	return rc;
}

static int split_message(const unsigned char *pos, size_t left, struct parts *p)
{
	struct nl_attr a;
	int rc;

	while ((rc = nl_attr_next(&pos, &left, &a)) > 0) {
		if (a.type == TCA_KIND)
			p->kind = a;
		else if (a.type == TCA_OPTIONS)
			p->options = a;
		else if (a.type == TCA_STATS2)
			p->stats2 = a;
	}
	if (rc || !p->kind.data || !p->stats2.data)
		return -EBADMSG;
	return split_stats(p);
}

static int read_basic(const struct parts *p, struct qdisc *q)
{
	uint32_t packets;

	/* struct gnet_stats_basic without the padding that 64-bit kernels send */
	if (p->basic.len < sizeof(q->tx_bytes) + sizeof(packets))
		return -EBADMSG;
	memcpy(&q->tx_bytes, p->basic.data, sizeof(q->tx_bytes));
	memcpy(&packets, p->basic.data + sizeof(q->tx_bytes), sizeof(packets));
	q->tx_packets = packets;
	if (!p->pkt64.data)
		return 0; /* it comes only once 32 bits are not enough */
	if (p->pkt64.len < sizeof(q->tx_packets))
		return -EBADMSG;
	memcpy(&q->tx_packets, p->pkt64.data, sizeof(q->tx_packets));
	return 0;
}

static int read_queue(const struct parts *p, struct qdisc *q)
{
	struct gnet_stats_queue s;

	if (p->queue.len < sizeof(s))
		return -EBADMSG;
	memcpy(&s, p->queue.data, sizeof(s));
	q->backlog_bytes = s.backlog;
	q->backlog_packets = s.qlen;
	q->drops = s.drops;
	q->requeues = s.requeues;
	return 0;
}

/* Older kernels send shorter statistics: a field that is not there counts nothing. */
static uint64_t read_field(const struct nl_attr *app, const struct mark_field *f)
{
	uint64_t wide = 0;
	uint32_t narrow = 0;

	if (f->offset == NO_FIELD || app->len < (size_t)f->offset + f->width)
		return 0;
	if (f->width == sizeof(wide)) {
		memcpy(&wide, app->data + f->offset, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, app->data + f->offset, sizeof(narrow));
	return narrow;
}

/* A kind is sent with its final NUL; do not count on it. An ingress qdisc has none. */
static bool is_kind(const struct nl_attr *a, const char *kind)
{
	size_t len = a->data ? strnlen((const char *)a->data, a->len) : 0;

	return len == strlen(kind) && !memcmp(a->data, kind, len);
}

/* Finds an attribute in the payload of another; without one, its length is 0. */
static struct nl_attr find_in(const struct nl_attr *outer, uint16_t type)
{
	const unsigned char *pos = outer->data;
	size_t left = outer->len;
	struct nl_attr a;

	while (nl_attr_next(&pos, &left, &a) > 0)
		if (a.type == type)
			return a;
	return (struct nl_attr){ 0 };
}

/* Cake counts in each of its tins. */
static uint64_t read_cake_marks(const struct nl_attr *app)
{
	static const struct mark_field whole = { 0, sizeof(uint32_t) };
	struct nl_attr tins = find_in(app, CAKE_STATS_TIN_STATS), tin;
	const unsigned char *pos = tins.data;
	size_t left = tins.len;
	uint64_t marks = 0;

	while (nl_attr_next(&pos, &left, &tin) > 0) {
		struct nl_attr marked = find_in(&tin, CAKE_TIN_STATS_ECN_MARKED);

		marks += read_field(&marked, &whole);
	}
	return marks;
}

static uint64_t read_marks(const struct parts *p)
{
	if (!p->app.data)
		return 0;
	if (is_kind(&p->kind, "cake"))
		return read_cake_marks(&p->app);
	for (size_t i = 0; i < sizeof(mark_kinds) / sizeof(mark_kinds[0]); i++) {
		const struct mark_kind *k = &mark_kinds[i];

		if (is_kind(&p->kind, k->kind))
			return read_field(&p->app, &k->fields[0]) + read_field(&p->app, &k->fields[1]);
	}
	return 0;
}

static bool read_class(const struct nl_attr *app, uint32_t class, struct tc_port_class_xstats *stats)
{
	size_t at = sizeof(struct tc_port_xstats) + class * sizeof(*stats);

	if (app->len < at + sizeof(*stats))
		return false;
	memcpy(stats, app->data + at, sizeof(*stats));
	return true;
}

/* Times that the port told its peer to hold a class. It sends more PAUSE frames: repetitions, and ends. */
static uint64_t read_pauses(const struct nl_attr *app, uint32_t classes)
{
	struct tc_port_class_xstats stats;
	uint64_t pauses = 0;

	for (uint32_t class = 0; class < classes && read_class(app, class, &stats); class ++)
		pauses += stats.pauses;
	return pauses;
}

/* A longer structure, of a newer kernel, begins like ours. */
static void read_port(const struct parts *p, struct qdisc *q)
{
	struct tc_port_xstats stats;

	if (!is_kind(&p->kind, "port") || p->app.len < sizeof(stats))
		return;
	memcpy(&stats, p->app.data, sizeof(stats));
	q->ce_bytes = stats.ce_bytes;
	q->queue_byte_ns = stats.queue_byte_ns;
	q->busy_ns = stats.busy_ns;
	q->longest_bytes = stats.longest_bytes;
	q->paused_ns = stats.paused_ns;
	q->pauses = read_pauses(&p->app, stats.classes);
	q->charged_bytes = stats.charged_bytes;
}

static enum qdisc_place place_of(uint32_t parent)
{
	if (parent == TC_H_ROOT)
		return QDISC_ROOT;
	return parent == TC_H_INGRESS ? QDISC_INGRESS : QDISC_CHILD; /* TC_H_CLSACT is the same number */
}

int qdisc_parse(const unsigned char *payload, size_t len, struct qdisc *q)
{
	struct parts parts = { 0 };
	struct tcmsg tc;
	size_t head = NLMSG_ALIGN(sizeof(tc));
	int rc;

	if (len < head)
		return -EBADMSG;
	memcpy(&tc, payload, sizeof(tc));
	*q = (struct qdisc){
		.ifindex = tc.tcm_ifindex,
		.handle = tc.tcm_handle,
		.place = place_of(tc.tcm_parent),
	};
	if (q->place == QDISC_INGRESS)
		return 0;
	rc = split_message(payload + head, len - head, &parts);
	if (rc)
		return rc;
	rc = read_basic(&parts, q);
	if (rc)
		return rc;
	rc = read_queue(&parts, q);
	if (rc)
		return rc;
	q->marks = read_marks(&parts);
	read_port(&parts, q);
	q->kind = parts.kind;
	q->options = parts.options;
	q->app = parts.app;
	return 0;
}

int qdisc_class(const struct qdisc *q, uint32_t class, struct qdisc *found)
{
	struct tc_port_class_xstats stats;

	*found = *q;
	if (!is_kind(&q->kind, "port") || !read_class(&q->app, class, &stats))
		return -ENOENT;
	found->backlog_bytes = (uint32_t)stats.backlog_bytes;
	found->backlog_packets = (uint32_t)stats.backlog_packets;
	found->drops = (uint32_t)stats.drops;
	found->requeues = 0;
	found->tx_bytes = stats.sent_bytes;
	found->tx_packets = stats.sent_packets;
	found->marks = stats.marked;
	found->ce_bytes = stats.ce_bytes;
	found->queue_byte_ns = stats.queue_byte_ns;
	found->busy_ns = stats.busy_ns;
	found->longest_bytes = stats.longest_bytes;
	found->paused_ns = stats.paused_ns;
	found->pauses = stats.pauses;
	found->charged_bytes = stats.charged_bytes;
	return 0;
}

bool qdisc_is(const struct qdisc *q, const char *kind)
{
	return is_kind(&q->kind, kind);
}

void port_sample_add(struct port_sample *s, const struct qdisc *q)
{
	if (q->place == QDISC_INGRESS)
		return;
	s->marks += q->marks;
	if (q->place != QDISC_ROOT)
		return;
	s->root = *q;
	s->root.kind = s->root.options = s->root.app = (struct nl_attr){ 0 };
	s->has_root = true;
}

static void advance32(uint64_t *total, uint64_t last, uint64_t now, bool fresh)
{
	uint32_t step = (uint32_t)(now - last);

	/* A step of more than half the range is no wrap: the counter began again. */
	*total += fresh || step > UINT32_MAX / 2 ? now : step;
}

static void advance64(uint64_t *total, uint64_t last, uint64_t now, bool fresh)
{
	*total += fresh || now < last ? now : now - last;
}

void port_counters_advance(struct port_counters *c, const struct port_sample *now)
{
	const struct qdisc *a = &c->last.root, *b = &now->root;
	bool fresh = !c->started || a->handle != b->handle;

	advance64(&c->tx_bytes, a->tx_bytes, b->tx_bytes, fresh);
	advance64(&c->tx_packets, a->tx_packets, b->tx_packets, fresh);
	advance32(&c->drops, a->drops, b->drops, fresh);
	advance32(&c->requeues, a->requeues, b->requeues, fresh);
	advance32(&c->marks, c->last.marks, now->marks, fresh);
	advance64(&c->ce_bytes, a->ce_bytes, b->ce_bytes, fresh);
	advance64(&c->busy_ns, a->busy_ns, b->busy_ns, fresh);
	advance64(&c->paused_ns, a->paused_ns, b->paused_ns, fresh);
	advance64(&c->pauses, a->pauses, b->pauses, fresh);
	c->queue_byte_ns += fresh ? b->queue_byte_ns : b->queue_byte_ns - a->queue_byte_ns; /* it wraps */
	c->last = *now;
	c->started = true;
}
