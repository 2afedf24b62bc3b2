// SPDX-License-Identifier: Apache-2.0
/* Netlink messages by hand: the walk, the attributes, and what becomes of a port's qdiscs. */
#include "lab.h"
#include "nl.h"
#include "qdisc.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQ    7
#define PORTID 1234

/* A datagram under construction. */
struct out {
	unsigned char buf[4096];
	size_t len;
};

static const struct nl_sock sock = { .fd = -1, .seq = SEQ, .portid = PORTID };

static void put(struct out *o, const void *from, size_t len)
{
	assert_true(o->len + NLMSG_ALIGN(len) <= sizeof(o->buf));
	if (len)
		memcpy(o->buf + o->len, from, len);
	memset(o->buf + o->len + len, 0, NLMSG_ALIGN(len) - len);
	o->len += NLMSG_ALIGN(len);
}

static size_t begin_message(struct out *o, uint16_t type, uint16_t flags)
{
	size_t at = o->len;
	const struct nlmsghdr h = {
		.nlmsg_len = NLMSG_HDRLEN,
		.nlmsg_type = type,
		.nlmsg_flags = flags,
		.nlmsg_seq = SEQ,
		.nlmsg_pid = PORTID,
	};

	put(o, &h, sizeof(h));
	return at;
}

static void end_message(struct out *o, size_t at)
{
	uint32_t len = (uint32_t)(o->len - at);

	memcpy(o->buf + at, &len, sizeof(len));
}

static size_t begin_attr(struct out *o, uint16_t type)
{
	size_t at = o->len;
	const struct nlattr a = { .nla_len = NLA_HDRLEN, .nla_type = type };

	put(o, &a, sizeof(a));
	return at;
}

static void end_attr(struct out *o, size_t at)
{
	uint16_t len = (uint16_t)(o->len - at);

	memcpy(o->buf + at, &len, sizeof(len));
}

static void put_attr(struct out *o, uint16_t type, const void *data, size_t data_len)
{
	size_t at = o->len;
	const struct nlattr a = { .nla_len = (uint16_t)(NLA_HDRLEN + data_len), .nla_type = type };

	put(o, &a, sizeof(a));
	put(o, data, data_len);
	assert_true(o->len > at);
}

/* One qdisc, as a test has it. */
struct given {
	const char *kind;
	int ifindex;
	uint32_t handle, parent;
	uint64_t bytes, pkt64;
	uint32_t packets;
	struct gnet_stats_queue queue;
	const void *xstats, *options;
	size_t xstats_len, options_len;
};

static void put_payload(struct out *o, const struct given *g)
{
	const struct tcmsg tc = {
		.tcm_ifindex = g->ifindex ? g->ifindex : 3,
		.tcm_handle = g->handle,
		.tcm_parent = g->parent,
	};
	const struct gnet_stats_basic basic = { .bytes = g->bytes, .packets = g->packets };
	size_t nest;

	put(o, &tc, sizeof(tc));
	put_attr(o, TCA_KIND, g->kind, strlen(g->kind) + 1);
	put_attr(o, TCA_OPTIONS, g->options ? g->options : "1234", g->options ? g->options_len : 4);
	nest = begin_attr(o, TCA_STATS2 | NLA_F_NESTED);
	put_attr(o, TCA_STATS_BASIC, &basic, sizeof(basic));
	if (g->pkt64)
		put_attr(o, TCA_STATS_PKT64, &g->pkt64, sizeof(g->pkt64));
	put_attr(o, TCA_STATS_QUEUE, &g->queue, sizeof(g->queue));
	if (g->xstats)
		put_attr(o, TCA_STATS_APP, g->xstats, g->xstats_len);
	end_attr(o, nest);
}

/* Parse from a block of exactly `len` bytes, so that a read past its end is seen. */
static int parse_bytes(const unsigned char *buf, size_t len, struct qdisc *q)
{
	unsigned char *exact = malloc(len ? len : 1);
	int rc;

	assert_non_null(exact);
	memcpy(exact, buf, len);
	rc = qdisc_parse(exact, len, q);
	free(exact);
	return rc;
}

static struct qdisc parse(const struct given *g)
{
	struct out o = { .len = 0 };
	struct qdisc q;

	put_payload(&o, g);
	assert_int_equal(parse_bytes(o.buf, o.len, &q), 0);
	return q;
}

static void parses_root(void **state)
{
	const struct given g = {
		.kind = "bfifo",
		.ifindex = 42,
		.handle = 0x80010000,
		.parent = TC_H_ROOT,
		.bytes = 1ULL << 40,
		.packets = 99,
		.queue = { .qlen = 3, .backlog = 4542, .drops = 5, .requeues = 6 },
	};
	struct qdisc q = parse(&g);

	(void)state;
	assert_int_equal(q.ifindex, 42);
	assert_int_equal(q.handle, 0x80010000);
	assert_int_equal(q.place, QDISC_ROOT);
	assert_int_equal(q.tx_bytes, 1ULL << 40);
	assert_int_equal(q.tx_packets, 99);
	assert_int_equal(q.backlog_bytes, 4542);
	assert_int_equal(q.backlog_packets, 3);
	assert_int_equal(q.drops, 5);
	assert_int_equal(q.requeues, 6);
	assert_int_equal(q.marks, 0);
}

static void prefers_64_bit_packets(void **state)
{
	const struct given g = {
		.kind = "bfifo", .parent = TC_H_ROOT, .packets = 1, .pkt64 = (1ULL << 32) + 1
	};

	(void)state;
	assert_int_equal(parse(&g).tx_packets, (1ULL << 32) + 1);
}

static uint64_t marks_of(const char *kind, const void *xstats, size_t len)
{
	const struct given g = { .kind = kind, .parent = TC_H_ROOT, .xstats = xstats, .xstats_len = len };

	return parse(&g).marks;
}

static void reads_marks_by_kind(void **state)
{
	const struct tc_red_xstats red = { .early = 1, .pdrop = 2, .other = 3, .marked = 4 };
	const struct tc_fq_qd_stats fq = { .gc_flows = 1, .ce_mark = 1ULL << 33 };
	const struct tc_fq_codel_xstats fq_codel = {
		.type = TCA_FQ_CODEL_XSTATS_QDISC,
		.qdisc_stats = { .drop_overlimit = 1, .ecn_mark = 10, .ce_mark = 20 },
	};
	const struct tc_codel_xstats codel = { .ecn_mark = 3, .dropping = 1, .ce_mark = 4 };
	const struct tc_choke_xstats choke = { .marked = 5, .matched = 1 };
	const struct tc_pie_xstats pie = { .dropped = 1, .ecn_mark = 6 };
	const uint32_t dualpi2[12] = { 1, 2, 3, 4, 5, 6, 70, 8 };
	/* cake: a nest of type 10 with two tins, each with a number of type 7 and the marks, of type 8 */
	const uint16_t cake[] = { 8, 4, 9, 0,  44, 10, 20, 1, 8, 7, 1, 0, 8,
				  8, 5, 0, 20, 2,  8,  7,  1, 0, 8, 8, 6, 0 };

	(void)state;
	assert_int_equal(marks_of("dualpi2", dualpi2, sizeof(dualpi2)), 70);
	assert_int_equal(marks_of("cake", cake, sizeof(cake)), 11);
	assert_int_equal(marks_of("cake", cake, sizeof(cake) - 4), 0); /* cut off */
	assert_int_equal(marks_of("red", &red, sizeof(red)), 4);
	assert_int_equal(marks_of("fq", &fq, sizeof(fq)), 1ULL << 33);
	assert_int_equal(marks_of("fq_codel", &fq_codel, sizeof(fq_codel)), 30);
	assert_int_equal(marks_of("codel", &codel, sizeof(codel)), 7);
	assert_int_equal(marks_of("choke", &choke, sizeof(choke)), 5);
	assert_int_equal(marks_of("pie", &pie, sizeof(pie)), 6);
	assert_int_equal(marks_of("sfq", &red, sizeof(red)), 0);
	/* the statistics of an older kernel end before the field */
	assert_int_equal(marks_of("fq", &fq, offsetof(struct tc_fq_qd_stats, ce_mark)), 0);
	assert_int_equal(marks_of("red", &red, 0), 0);
	/* those of a newer one may go on after what we know */
	assert_int_equal(marks_of("red", &fq_codel, sizeof(fq_codel)), 10);
}

/* A `port` with two classes puts this into TCA_STATS_APP. */
struct port_told {
	struct tc_port_xstats port;
	struct tc_port_class_xstats classes[2];
};

static const struct port_told port_told = {
	.port = { .marked = 9, .ce_bytes = 8, .busy_ns = 7, .paused_ns = 6, .pauses_sent = 99, .charged_bytes = 5,
		  .classes = 2 },
	.classes = {
		{ .backlog_bytes = 1514, .backlog_packets = 1, .drops = 4, .marked = 2, .queue_byte_ns = 1ULL << 63,
		  .pauses = 19 },
		{ .backlog_bytes = 3028, .backlog_packets = 2, .sent_bytes = 1ULL << 40, .sent_packets = 1ULL << 33,
		  .drops = 5, .marked = 7, .ce_packets = 11, .ce_bytes = 12, .queue_byte_ns = 13, .busy_ns = 14,
		  .longest_bytes = 15, .paused_ns = 16, .charged_bytes = 17, .pauses = 18 },
	},
};

/* `count` bytes of these statistics, in a message that ends with them; the caller frees it. */
static unsigned char *told_by(const char *kind, size_t count, struct qdisc *q)
{
	const struct given g = {
		.kind = kind,
		.parent = TC_H_ROOT,
		.handle = 1,
		.bytes = 99,
		.queue = { .requeues = 3 },
		.xstats = &port_told,
		.xstats_len = count,
	};
	struct out o = { .len = 0 };
	unsigned char *exact;

	put_payload(&o, &g);
	exact = malloc(o.len);
	assert_non_null(exact);
	memcpy(exact, o.buf, o.len);
	assert_int_equal(qdisc_parse(exact, o.len, q), 0);
	return exact;
}

static void reads_classes_of_port(void **state)
{
	unsigned char *message;
	struct qdisc q, own;

	(void)state;
	message = told_by("port", sizeof(port_told), &q);
	assert_int_equal(q.marks, 9);
	assert_int_equal(q.paused_ns, 6);
	assert_int_equal(q.charged_bytes, 5);
	assert_int_equal(q.pauses, 18 + 19);
	assert_int_equal(qdisc_class(&q, 0, &own), 0);
	assert_int_equal(own.backlog_bytes, 1514);
	assert_int_equal(own.drops, 4);
	assert_int_equal(own.queue_byte_ns, 1ULL << 63);
	assert_int_equal(own.pauses, 19);
	assert_int_equal(own.paused_ns + own.charged_bytes + own.tx_bytes + own.requeues, 0);
	assert_int_equal(qdisc_class(&q, 1, &own), 0);
	assert_int_equal(own.ifindex, q.ifindex);
	assert_int_equal(own.handle, 1);
	assert_int_equal(own.place, QDISC_ROOT);
	assert_int_equal(own.backlog_bytes, 3028);
	assert_int_equal(own.backlog_packets, 2);
	assert_int_equal(own.tx_bytes, 1ULL << 40);
	assert_int_equal(own.tx_packets, 1ULL << 33);
	assert_int_equal(own.drops, 5);
	assert_int_equal(own.marks, 7);
	assert_int_equal(own.ce_bytes, 12);
	assert_int_equal(own.queue_byte_ns, 13);
	assert_int_equal(own.busy_ns, 14);
	assert_int_equal(own.longest_bytes, 15);
	assert_int_equal(own.paused_ns, 16);
	assert_int_equal(own.charged_bytes, 17);
	assert_int_equal(own.pauses, 18);
	assert_int_equal(qdisc_class(&q, 2, &own), -ENOENT);
	assert_int_equal(qdisc_class(&q, UINT32_MAX, &own), -ENOENT);
	free(message);
}

static void refuses_classes_that_are_not_told(void **state)
{
	unsigned char *message;
	struct qdisc q, own;

	(void)state;
	message = told_by("port", sizeof(port_told) - 1, &q); /* cut within the second class */
	assert_int_equal(qdisc_class(&q, 0, &own), 0);
	assert_int_equal(qdisc_class(&q, 1, &own), -ENOENT);
	assert_int_equal(q.pauses, 19);
	free(message);
	message = told_by("port", sizeof(port_told.port), &q); /* no classes were given */
	assert_int_equal(qdisc_class(&q, 0, &own), -ENOENT);
	free(message);
	message = told_by("port", 0, &q);
	assert_int_equal(qdisc_class(&q, 0, &own), -ENOENT);
	assert_int_equal(q.marks + q.paused_ns + q.pauses, 0);
	free(message);
	message = told_by("fq", sizeof(port_told), &q); /* another kind, of whatever length */
	assert_int_equal(qdisc_class(&q, 0, &own), -ENOENT);
	assert_int_equal(q.paused_ns, 0);
	free(message);
}

/* A class is a row of its own: what it counts is summed like a port's. */
static void counts_pauses_over_time(void **state)
{
	struct port_counters c = { 0 };
	struct port_sample s = { .has_root = true, .root = { .handle = 1, .paused_ns = 100, .pauses = 2 } };

	(void)state;
	port_counters_advance(&c, &s);
	s.root.paused_ns = 250;
	s.root.pauses = 3;
	s.root.charged_bytes = 4096;
	port_counters_advance(&c, &s);
	assert_int_equal(c.paused_ns, 250);
	assert_int_equal(c.pauses, 3);
	assert_int_equal(c.last.root.charged_bytes, 4096);
	s.root.handle = 2; /* another qdisc, which has paused once already */
	s.root.paused_ns = 30;
	s.root.pauses = 1;
	s.root.charged_bytes = 0;
	port_counters_advance(&c, &s);
	assert_int_equal(c.paused_ns, 280);
	assert_int_equal(c.pauses, 4);
	assert_int_equal(c.last.root.charged_bytes, 0);
}

/* Kind and options are those of the message, and are not kept beyond it. */
static void shows_kind_and_options(void **state)
{
	const struct given g = {
		.kind = "red", .parent = TC_H_ROOT, .options = "12345678", .options_len = 8
	};
	struct port_sample s = { 0 };
	struct out o = { .len = 0 };
	struct qdisc q;

	(void)state;
	put_payload(&o, &g);
	assert_int_equal(qdisc_parse(o.buf, o.len, &q), 0);
	assert_true(qdisc_is(&q, "red"));
	assert_false(qdisc_is(&q, "re"));
	assert_false(qdisc_is(&q, "redd"));
	assert_int_equal(q.options.len, 8);
	assert_memory_equal(q.options.data, "12345678", 8);
	assert_true(q.options.data > o.buf && q.options.data + 8 <= o.buf + o.len);
	port_sample_add(&s, &q);
	assert_null(s.root.kind.data);
	assert_null(s.root.options.data);
	assert_int_equal(s.root.options.len, 0);
}

static void takes_ingress_as_it_is(void **state)
{
	/* clsact has no queue and need not report one */
	const struct tcmsg tc = { .tcm_ifindex = 3, .tcm_parent = TC_H_CLSACT };
	struct qdisc q;

	(void)state;
	assert_int_equal(parse_bytes((const unsigned char *)&tc, sizeof(tc), &q), 0);
	assert_int_equal(q.place, QDISC_INGRESS);
	assert_false(qdisc_is(&q, "port"));
	assert_int_equal(qdisc_class(&q, 0, &q), -ENOENT);
}

static void refuses_cut_messages(void **state)
{
	const struct given g = { .kind = "bfifo", .parent = TC_H_ROOT };
	struct out o = { .len = 0 };
	struct qdisc q;

	(void)state;
	put_payload(&o, &g);
	for (size_t len = 0; len < o.len; len++)
		assert_int_equal(parse_bytes(o.buf, len, &q), -EBADMSG);
	assert_int_equal(parse_bytes(o.buf, o.len, &q), 0);
}

static void refuses_short_attributes(void **state)
{
	struct out o = { .len = 0 };
	const struct tcmsg tc = { .tcm_ifindex = 3, .tcm_parent = TC_H_ROOT };
	struct qdisc q;
	size_t nest;

	(void)state;
	put(&o, &tc, sizeof(tc));
	put_attr(&o, TCA_KIND, "red", 4);
	nest = begin_attr(&o, TCA_STATS2);
	put_attr(&o, TCA_STATS_BASIC, "12345678", 8);
	put_attr(&o, TCA_STATS_QUEUE, "1234", 4);
	end_attr(&o, nest);
	assert_int_equal(parse_bytes(o.buf, o.len, &q), -EBADMSG);
}

/* ---- the walk ---- */

static int count(const unsigned char *payload, size_t len, void *arg)
{
	(void)payload;
	(void)len;
	(*(int *)arg)++;
	return 0;
}

static int refuse(const unsigned char *payload, size_t len, void *arg)
{
	(void)payload;
	(void)len;
	(void)arg;
	return -EXDEV;
}

static int walk(const struct out *o, nl_visit visit, int *visited, unsigned int *seen)
{
	unsigned char *exact = malloc(o->len ? o->len : 1);
	int rc;

	assert_non_null(exact);
	memcpy(exact, o->buf, o->len);
	*visited = 0;
	*seen = 0;
	rc = nl_walk(exact, o->len, &sock, visit, visited, seen);
	free(exact);
	return rc;
}

static void put_result(struct out *o, uint16_t type, int32_t code)
{
	size_t at = begin_message(o, type, NLM_F_MULTI);

	put(o, &code, sizeof(code));
	end_message(o, at);
}

static void put_qdisc(struct out *o, uint16_t flags)
{
	const struct given g = { .kind = "bfifo", .parent = TC_H_ROOT };
	size_t at = begin_message(o, RTM_NEWQDISC, NLM_F_MULTI | flags);

	put_payload(o, &g);
	end_message(o, at);
}

static void walks_a_dump(void **state)
{
	struct out o = { .len = 0 };
	unsigned int seen;
	int visited;

	(void)state;
	end_message(&o, begin_message(&o, NLMSG_NOOP, 0));
	put_qdisc(&o, 0);
	put_qdisc(&o, 0);
	assert_int_equal(walk(&o, count, &visited, &seen), 0);
	assert_int_equal(visited, 2);
	assert_int_equal(seen, 0);
	put_result(&o, NLMSG_DONE, 0);
	assert_int_equal(walk(&o, count, &visited, &seen), 0);
	assert_int_equal(seen, NL_DONE);
	assert_int_equal(walk(&o, refuse, &visited, &seen), -EXDEV);
}

static void tells_interruptions(void **state)
{
	struct out o = { .len = 0 };
	unsigned int seen;
	int visited;

	(void)state;
	put_qdisc(&o, NLM_F_DUMP_INTR);
	put_result(&o, NLMSG_DONE, 0);
	assert_int_equal(walk(&o, count, &visited, &seen), 0);
	assert_int_equal(seen, NL_DONE | NL_INTR);
	o.len = 0;
	end_message(&o, begin_message(&o, NLMSG_OVERRUN, 0));
	assert_int_equal(walk(&o, count, &visited, &seen), 0);
	assert_int_equal(seen, NL_INTR);
}

static int walk_result(uint16_t type, int32_t code)
{
	struct out o = { .len = 0 };
	unsigned int seen;
	int visited;

	put_result(&o, type, code);
	return walk(&o, count, &visited, &seen);
}

static void passes_errors_on(void **state)
{
	(void)state;
	assert_int_equal(walk_result(NLMSG_ERROR, -EPERM), -EPERM);
	assert_int_equal(walk_result(NLMSG_ERROR, 0), -EPROTO);
	assert_int_equal(walk_result(NLMSG_ERROR, 17), -EBADMSG);
	assert_int_equal(walk_result(NLMSG_ERROR, INT32_MIN), -EBADMSG);
	assert_int_equal(walk_result(NLMSG_DONE, -ENOMEM), -ENOMEM);
	assert_int_equal(walk_result(RTM_NEWLINK, 0), -EPROTO);
}

static void tells_refused_changes(void **state)
{
	struct nl_sock s = sock;
	struct out o = { .len = 0 };
	unsigned int seen = 0;
	int visited = 0;

	(void)state;
	put_result(&o, NLMSG_ERROR, -EPERM);
	s.seq = SEQ + 1; /* the error is of the request before the dump */
	s.dumped = SEQ - 1;
	assert_int_equal(nl_walk(o.buf, o.len, &s, count, &visited, &seen), -EPERM);
	assert_int_equal(seen, NL_REFUSED);
	seen = 0;
	s.seq = SEQ; /* of the dump itself */
	assert_int_equal(nl_walk(o.buf, o.len, &s, count, &visited, &seen), -EPERM);
	assert_int_equal(seen, 0);
	s.seq = SEQ + 2; /* of a dump that is long over */
	s.dumped = SEQ;
	assert_int_equal(nl_walk(o.buf, o.len, &s, count, &visited, &seen), -EPROTO);
	s.seq = 2; /* numbers begin again */
	s.dumped = SEQ - 8;
	assert_int_equal(nl_walk(o.buf, o.len, &s, count, &visited, &seen), -EPROTO);
}

static void refuses_foreign_messages(void **state)
{
	struct out o = { .len = 0 };
	struct nl_sock other = sock;
	unsigned int seen = 0;
	int visited = 0;

	(void)state;
	put_qdisc(&o, 0);
	other.seq++;
	assert_int_equal(nl_walk(o.buf, o.len, &other, count, &visited, &seen), -EPROTO);
	other = sock;
	other.portid++;
	assert_int_equal(nl_walk(o.buf, o.len, &other, count, &visited, &seen), -EPROTO);
	/* nothing may follow the end */
	o.len = 0;
	put_result(&o, NLMSG_DONE, 0);
	put_qdisc(&o, 0);
	assert_int_equal(walk(&o, count, &visited, &seen), -EPROTO);
	assert_int_equal(visited, 0);
}

static void refuses_cut_datagrams(void **state)
{
	struct out o = { .len = 0 };
	unsigned int seen;
	int visited;

	(void)state;
	put_qdisc(&o, 0);
	for (size_t whole = o.len; --o.len > 0;) {
		assert_true(o.len < whole);
		assert_int_equal(walk(&o, count, &visited, &seen), -EBADMSG);
		assert_int_equal(visited, 0);
	}
	o.len = 0;
	begin_message(&o, RTM_NEWQDISC, 0);
	for (uint32_t len = 0; len < NLMSG_HDRLEN; len++) { /* a length of 0 must not loop */
		memcpy(o.buf, &len, sizeof(len));
		assert_int_equal(walk(&o, count, &visited, &seen), -EBADMSG);
	}
}

/* ---- ports over time ---- */

static void adds_up_a_port(void **state)
{
	const struct qdisc root = {
		.place = QDISC_ROOT, .handle = 1, .drops = 5, .backlog_bytes = 100, .marks = 1
	};
	const struct qdisc child = {
		.place = QDISC_CHILD, .handle = 2, .drops = 5, .backlog_bytes = 90, .marks = 7
	};
	const struct qdisc ingress = { .place = QDISC_INGRESS, .drops = 9, .marks = 9 };
	struct port_sample s = { 0 };

	(void)state;
	port_sample_add(&s, &child);
	assert_false(s.has_root);
	port_sample_add(&s, &root);
	port_sample_add(&s, &ingress);
	assert_true(s.has_root);
	assert_int_equal(s.root.drops, 5);
	assert_int_equal(s.root.backlog_bytes, 100);
	assert_int_equal(s.marks, 8);
}

static void widens_counters(void **state)
{
	struct port_counters c = { 0 };
	struct port_sample s = { .has_root = true,
				 .root = { .handle = 1, .drops = UINT32_MAX - 1, .requeues = 3 } };

	(void)state;
	s.marks = UINT32_MAX;
	port_counters_advance(&c, &s);
	assert_int_equal(c.drops, UINT32_MAX - 1);
	s.root.drops = 8; /* ten more */
	s.marks = 0;      /* one more */
	port_counters_advance(&c, &s);
	assert_int_equal(c.drops, (uint64_t)UINT32_MAX + 9);
	assert_int_equal(c.marks, 1ULL << 32);
	assert_int_equal(c.requeues, 3);
	port_counters_advance(&c, &s);
	assert_int_equal(c.drops, (uint64_t)UINT32_MAX + 9);
}

static void survives_replacement(void **state)
{
	struct port_counters c = { 0 };
	struct port_sample s = { .has_root = true,
				 .root = { .handle = 1, .tx_bytes = 1000, .tx_packets = 10, .drops = 4 } };

	(void)state;
	port_counters_advance(&c, &s);
	s.root.handle = 2; /* another qdisc, which has sent more already */
	s.root.tx_bytes = 2000;
	s.root.drops = 5;
	port_counters_advance(&c, &s);
	assert_int_equal(c.tx_bytes, 3000);
	assert_int_equal(c.drops, 9);
	s.root.tx_bytes = 10; /* the same handle again, but from the beginning */
	s.root.drops = 1;
	port_counters_advance(&c, &s);
	assert_int_equal(c.tx_bytes, 3010);
	assert_int_equal(c.drops, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_root),
		cmocka_unit_test(prefers_64_bit_packets),
		cmocka_unit_test(reads_marks_by_kind),
		cmocka_unit_test(reads_classes_of_port),
		cmocka_unit_test(refuses_classes_that_are_not_told),
		cmocka_unit_test(counts_pauses_over_time),
		cmocka_unit_test(takes_ingress_as_it_is),
		cmocka_unit_test(refuses_cut_messages),
		cmocka_unit_test(refuses_short_attributes),
		cmocka_unit_test(walks_a_dump),
		cmocka_unit_test(tells_interruptions),
		cmocka_unit_test(passes_errors_on),
		cmocka_unit_test(tells_refused_changes),
		cmocka_unit_test(shows_kind_and_options),
		cmocka_unit_test(refuses_foreign_messages),
		cmocka_unit_test(refuses_cut_datagrams),
		cmocka_unit_test(adds_up_a_port),
		cmocka_unit_test(widens_counters),
		cmocka_unit_test(survives_replacement),
	};

	return cmocka_run_group_tests_name("nl", tests, NULL, NULL);
}
