// SPDX-License-Identifier: Apache-2.0
/* Enforcement: the requests that it sends, and what it reads back, with a sweeper that this test plays. */
#include "actuators_file.h"
#include "enforce.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PORTS 3
#define HANDLE  0x80010000
#define KERNEL  1 /* of a pair of sockets, the end that this test reads */

/* The options of a port's root qdisc, as the kernel would send them. */
struct options {
	const char *kind;
	unsigned char buf[256];
	size_t len;
};

struct scene {
	struct actuators_file made;
	struct bytes file;
	struct actuators actuators;
	struct port_sample samples[N_PORTS];
	struct sweeper sweeper;
	struct enforcer enforcer;
	struct options roots[N_PORTS];
	struct nl_sock socks[N_PORTS];
	int fds[N_PORTS][2];
	struct fault f;
};

static struct scene *now;

/* ---- the sweeper ---- */

struct nl_sock *sweeper_socket(const struct sweeper *s, uint32_t row)
{
	assert_ptr_equal(s, &now->sweeper);
	return &now->socks[row];
}

int sweeper_ifindex(const struct sweeper *s, uint32_t row)
{
	assert_ptr_equal(s, &now->sweeper);
	return 10 + (int)row;
}

/* From a block of exactly its size, so that a read past the end of the options is seen. */
static int show(struct sweeper *s, uint32_t row)
{
	const struct options *o = &now->roots[row];
	unsigned char *exact = malloc(o->len ? o->len : 1);
	struct qdisc q = {
		.handle = HANDLE + row,
		.kind = { .data = (const unsigned char *)o->kind, .len = strlen(o->kind) + 1 },
		.options = { .data = exact, .len = o->len },
	};
	int rc;

	assert_non_null(exact);
	memcpy(exact, o->buf, o->len);
	s->samples[row].root.handle = q.handle;
	rc = s->on_root(s->on_root_arg, row, &q);
	free(exact);
	return rc;
}

int sweeper_sample(struct sweeper *s, struct fault *f)
{
	int rc = 0;

	(void)f;
	for (uint32_t row = 0; row < s->ports.n && !rc; row++)
		rc = show(s, row);
	return rc;
}

/* ---- the scene ---- */

static void put_attr(struct options *o, uint16_t type, const void *data, size_t len)
{
	const struct nlattr a = { .nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type };

	assert_true(o->len + NLA_ALIGN(a.nla_len) <= sizeof(o->buf));
	memcpy(o->buf + o->len, &a, sizeof(a));
	memcpy(o->buf + o->len + NLA_HDRLEN, data, len);
	o->len += NLA_ALIGN(a.nla_len);
}

static void put_tbf(struct options *o, uint32_t rate, uint64_t rate64)
{
	const struct tc_tbf_qopt parms = { .rate.rate = rate, .limit = 99 };

	*o = (struct options){ .kind = "tbf" };
	put_attr(o, TCA_TBF_PARMS, &parms, sizeof(parms));
	if (rate64)
		put_attr(o, TCA_TBF_RATE64, &rate64, sizeof(rate64));
}

static void put_red(struct options *o, uint32_t kmin, uint32_t kmax, uint32_t max_p)
{
	const struct tc_red_qopt parms = { .limit = 400000, .qth_min = kmin, .qth_max = kmax };

	*o = (struct options){ .kind = "red" };
	put_attr(o, TCA_RED_PARMS, &parms, sizeof(parms));
	put_attr(o, TCA_RED_MAX_P, &max_p, sizeof(max_p));
}

static int make_scene(void **state)
{
	struct scene *s = now = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	for (int row = 0; row < N_PORTS; row++) {
		if (socketpair(AF_UNIX, SOCK_DGRAM, 0, s->fds[row]))
			return -1;
		s->socks[row] = (struct nl_sock){ .fd = s->fds[row][0], .seq = 100 };
	}
	put_red(&s->roots[0], 30000, 30000, UINT32_MAX);
	put_tbf(&s->roots[1], UINT32_MAX, 50000000000);
	s->roots[2] = (struct options){ .kind = "bfifo", .buf = { 1, 2, 3, 4 }, .len = 4 };
	s->sweeper = (struct sweeper){ .ports = some_ports, .samples = s->samples };
	s->made = good_actuators;
	*state = s;
	return 0;
}

static int remove_scene(void **state)
{
	struct scene *s = *state;

	enforcer_close(&s->enforcer);
	for (int row = 0; row < N_PORTS; row++) {
		close(s->fds[row][0]);
		close(s->fds[row][KERNEL]);
	}
	free(s->file.at);
	free(s);
	return 0;
}

static int open_enforcer(struct scene *s)
{
	s->file = actuators_bytes(&s->made);
	s->actuators = (struct actuators){ .file = file_of(s->file) };
	assert_int_equal(actuators_take(&s->actuators, &some_ports, false, &s->f), 0);
	return enforcer_open(&s->enforcer, &s->actuators, &s->sweeper, &s->f);
}

static int sample(struct scene *s)
{
	return sweeper_sample(&s->sweeper, &s->f);
}

/* A request that was sent to a port: its length, 0 if there is none. */
struct sent {
	unsigned char buf[2 * REQUEST_LEN];
	size_t len;
	struct nlmsghdr head;
	struct tcmsg tc;
};

static struct sent sent_to(struct scene *s, int row)
{
	struct sent got = { .len = 0 };
	ssize_t n = recv(s->fds[row][KERNEL], got.buf, sizeof(got.buf), MSG_DONTWAIT);

	if (n < 0) {
		assert_int_equal(errno, EAGAIN);
		return got;
	}
	got.len = (size_t)n;
	memcpy(&got.head, got.buf, sizeof(got.head));
	memcpy(&got.tc, got.buf + NLMSG_HDRLEN, sizeof(got.tc));
	return got;
}

static uint64_t number(const struct sent *sent, size_t offset, size_t width)
{
	uint64_t found = 0;

	memcpy(&found, sent->buf + offset, width);
	return found;
}

static void is_marking(const struct sent *sent, uint32_t kmin, uint32_t kmax, uint32_t max_p)
{
	assert_int_equal(sent->len, REQUEST_LEN);
	assert_int_equal(number(sent, 56, 4), kmin);
	assert_int_equal(number(sent, 60, 4), kmax);
	assert_int_equal(number(sent, 92, 4), max_p);
}

#define ROWS(...)                                                                                            \
	(const uint64_t[2 * SM_MAX_VALUES])                                                                  \
	{                                                                                                    \
		__VA_ARGS__                                                                                  \
	}

/* ---- requests ---- */

static int apply(struct enforcer *e, const uint64_t *wanted, struct fault *f)
{
	int rc = enforcer_plan(e, wanted, f);

	return rc ? rc : enforcer_flush(e, f);
}

/* The request is that of the file, but for device, handle and values. */
static void sends_the_start(void **state)
{
	struct scene *s = *state;
	struct sent rate, marking;

	assert_int_equal(open_enforcer(s), 0);
	assert_int_equal(sent_to(s, 0).len | sent_to(s, 1).len, 0); /* nothing yet */
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), 0);
	rate = sent_to(s, 1);
	assert_int_equal(rate.len, REQUEST_LEN);
	assert_int_equal(rate.head.nlmsg_len, REQUEST_LEN);
	assert_int_equal(rate.head.nlmsg_type, RTM_NEWQDISC);
	assert_int_equal(rate.head.nlmsg_flags, 0);
	assert_int_equal(rate.head.nlmsg_seq, 101);
	assert_int_equal(rate.tc.tcm_ifindex, 11);
	assert_int_equal(rate.tc.tcm_handle, HANDLE + 1);
	assert_int_equal(rate.tc.tcm_parent, TC_H_ROOT);
	assert_int_equal(rate.buf[40], 0xa0);
	assert_int_equal(number(&rate, 60, 4), UINT32_MAX); /* more than 32 bits hold */
	assert_int_equal(number(&rate, 88, 8), 50000000000);
	marking = sent_to(s, 0);
	assert_int_equal(marking.tc.tcm_ifindex, 10);
	assert_int_equal(marking.tc.tcm_handle, HANDLE);
	assert_int_equal(marking.buf[40], 0xb0);
	is_marking(&marking, 30000, 30000, UINT32_MAX);
	assert_int_equal(sent_to(s, 0).len | sent_to(s, 1).len | sent_to(s, 2).len, 0);
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), 0); /* whatever is in force */
	assert_int_equal(sent_to(s, 0).len, REQUEST_LEN);
	assert_int_equal(sent_to(s, 1).len, REQUEST_LEN);
}

/* What is planned twice before anything is sent is told in that order. */
static void sends_what_is_planned_later(void **state)
{
	struct scene *s = *state;
	struct sent got;

	assert_int_equal(open_enforcer(s), 0);
	assert_int_equal(enforcer_plan(&s->enforcer, ROWS(8000000, 0, 0, 0, 2000, 4000, 250000), &s->f), 0);
	assert_int_equal(sent_to(s, 0).len | sent_to(s, 1).len, 0);
	assert_int_equal(enforcer_plan(&s->enforcer, ROWS(16000000, 0, 0, 0, 2000, 4000, 250000), &s->f), 0);
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 60, 4), 1000000);
	assert_int_equal(sent_to(s, 1).len, 0);
	assert_int_equal(enforcer_flush(&s->enforcer, &s->f), 0);
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 60, 4), 2000000);
	assert_int_equal(enforcer_plan(&s->enforcer, ROWS(8000000, 0, 0, 0, 2000, 4000, 250000), &s->f), 0);
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), 0); /* an episode ends before it is told */
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 60, 4), UINT32_MAX);
	assert_int_equal(sent_to(s, 1).len, 0);
}

static void sends_what_differs(void **state)
{
	struct scene *s = *state;
	const uint64_t *same = ROWS(8000000, 0, 0, 0, 2000, 4000, 250000);
	struct sent got;

	assert_int_equal(open_enforcer(s), 0);
	assert_int_equal(apply(&s->enforcer, same, &s->f), 0);
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 60, 4), 1000000);
	assert_int_equal(number(&got, 88, 8), 1000000);
	got = sent_to(s, 0);
	is_marking(&got, 2000, 4000, UINT32_C(1) << 30);
	assert_int_equal(apply(&s->enforcer, same, &s->f), 0);
	/* 7 bit/s more are no byte, and a fourth value is none of marking's */
	assert_int_equal(apply(&s->enforcer, ROWS(8000007, 9, 9, 9, 2000, 4000, 250000, 9), &s->f), 0);
	assert_int_equal(sent_to(s, 0).len | sent_to(s, 1).len, 0);
	assert_int_equal(apply(&s->enforcer, ROWS(8000000, 0, 0, 0, 2000, 4001, 250000), &s->f), 0);
	got = sent_to(s, 0);
	is_marking(&got, 2000, 4001, UINT32_C(1) << 30);
	assert_int_equal(sent_to(s, 1).len, 0);
}

static void sends_nothing_outside_the_bounds(void **state)
{
	struct scene *s = *state;
	struct sent got;

	s->made.row[0].low[0] = 10000;
	assert_int_equal(open_enforcer(s), 0);
	assert_int_equal(apply(&s->enforcer, ROWS(0), &s->f), 0);
	got = sent_to(s, 0);
	is_marking(&got, 1514, 1514, 42949672); /* 1 % of 2^32, rounded down */
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 88, 8), 1250);
	assert_int_equal(apply(&s->enforcer, ROWS(UINT64_MAX, 0, 0, 0, 400001, UINT64_MAX, 1000001), &s->f),
			 0);
	got = sent_to(s, 0);
	is_marking(&got, 400000, 400000, UINT32_MAX);
	got = sent_to(s, 1);
	assert_int_equal(number(&got, 88, 8), 50000000000);
}

/* A flow's value goes into the state matrix, and its setter is woken if it is another than before. */
static void tells_the_setter_of_flows(void **state)
{
	struct scene *s = *state;
	const struct row_names names = { three_ports[0].name, sizeof(three_ports[0]) };
	struct matrix *m = &s->sweeper.matrix;
	const struct sm_command *told;
	struct sm_commands *head;
	struct sm_header layout;
	sigset_t usr1;

	s->made.row[1] = (struct actuator_row){ .actuator = "cwnd",
						.qdisc = OF_FLOW,
						.low = { 2 },
						.high = { 50 },
						.start = { 10 },
						.row = 7,
						.n_values = 1 };
	assert_int_equal(open_enforcer(s), 0);
	matrix_layout(&layout, (struct matrix_shape){ N_PORTS, 8, N_ROWS }, 1, 1);
	assert_int_equal(matrix_open(m, NULL, &layout, names), 0);
	head = (struct sm_commands *)((char *)m->header + layout.off_commands);
	told = (struct sm_command *)(head + 1) + 1;
	head->setter = (uint64_t)getpid();
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), 0);
	assert_int_equal(told->in_force[SM_TOLD], 10);
	assert_int_equal(apply(&s->enforcer, ROWS(8000000, 0, 0, 0, 10), &s->f), 0);
	assert_int_equal(sigtimedwait(&usr1, NULL, &(struct timespec){ 0 }), -1);
	assert_int_equal(apply(&s->enforcer, ROWS(8000000, 0, 0, 0, 99), &s->f), 0);
	assert_int_equal(told->in_force[SM_TOLD], 50);
	assert_int_equal(sigtimedwait(&usr1, NULL, &(struct timespec){ 0 }), SIGUSR1);
	matrix_close(m);
}

/* Two actuators may set one port. */
static void sends_each_row_of_a_port(void **state)
{
	struct scene *s = *state;
	struct sent first, second;

	s->made.row[1].row = 1;
	strcpy(s->made.row[1].qdisc, "tbf");
	assert_int_equal(open_enforcer(s), 0);
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), 0);
	first = sent_to(s, 1);
	second = sent_to(s, 1);
	assert_int_equal(first.buf[40], 0xa0);
	assert_int_equal(second.buf[40], 0xb0);
	assert_int_equal(second.tc.tcm_ifindex, 11);
	assert_int_equal(second.head.nlmsg_seq, first.head.nlmsg_seq + 1);
	assert_int_equal(enforcer_in_force(&s->enforcer, 0)[0], 400000000000);
	assert_int_equal(enforcer_in_force(&s->enforcer, 1)[0], 0); /* at its place the kernel says 0 */
	assert_int_equal(sent_to(s, 0).len, 0);
}

static void tells_what_cannot_be_sent(void **state)
{
	struct scene *s = *state;

	assert_int_equal(open_enforcer(s), 0);
	shutdown(s->fds[0][0], SHUT_WR);
	assert_int_equal(enforcer_reset(&s->enforcer, &s->f), -EIO);
	assert_string_equal(s->f.text, "change the marking of port 's1-eth1': Broken pipe");
}

/* ---- one row at a time ---- */

static void answer(struct scene *s, int row, uint32_t seq, int error)
{
	const struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
	} said = {
		.h = { .nlmsg_len = sizeof(said), .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = seq },
		.e.error = error,
	};

	assert_int_equal(send(s->fds[row][KERNEL], &said, sizeof(said), 0), sizeof(said));
}

static void waits_for_the_answer(void **state)
{
	struct scene *s = *state;
	struct sent got;

	assert_int_equal(open_enforcer(s), 0);
	answer(s, 0, 101, 0);
	answer(s, 0, 102, 0);
	answer(s, 0, 103, -EINVAL);
	assert_int_equal(enforcer_set(&s->enforcer, 1, ROWS(1514, 2000, 10000), &s->f), 0);
	got = sent_to(s, 0);
	assert_int_equal(got.head.nlmsg_flags, NLM_F_ACK);
	is_marking(&got, 1514, 2000, 42949672);
	assert_int_equal(enforcer_set(&s->enforcer, 1, ROWS(1514, 2000, 10000), &s->f), 0);
	assert_int_equal(sent_to(s, 0).head.nlmsg_seq, 102); /* whatever they were */
	assert_int_equal(enforcer_set(&s->enforcer, 1, ROWS(0, UINT64_MAX, 20000, 9), &s->f), -EIO);
	assert_string_equal(s->f.text, "change the marking (red) of port 's1-eth1' to 1514 400000 20000: "
				       "Invalid argument");
}

/* ---- what is in force ---- */

static void in_force(struct scene *s, uint32_t i, const uint64_t *values)
{
	assert_memory_equal(enforcer_in_force(&s->enforcer, i), values, SM_MAX_VALUES * sizeof(*values));
}

static void reads_what_is_in_force(void **state)
{
	struct scene *s = *state;

	assert_int_equal(open_enforcer(s), 0);
	in_force(s, 0, ROWS(400000000000)); /* the 64 bits replace the 32 */
	in_force(s, 1, ROWS(30000, 30000, 1000000));
	put_tbf(&s->roots[1], 1250, 0);
	put_red(&s->roots[0], 1514, 400000, 42949672);
	assert_int_equal(sample(s), 0);
	in_force(s, 0, ROWS(10000));
	in_force(s, 1, ROWS(1514, 400000, 10000));
}

/* An attribute that is not there, or too short, says nothing; the next sweep begins anew. */
static void reads_no_more_than_there_is(void **state)
{
	struct scene *s = *state;
	struct options *red = &s->roots[0];
	const uint32_t parms[3] = { 400000, 1514, 2000 }, max_p = UINT32_MAX;

	assert_int_equal(open_enforcer(s), 0);
	*red = (struct options){ .kind = "red" };
	put_attr(red, TCA_RED_PARMS, parms, 11);
	assert_int_equal(sample(s), 0);
	in_force(s, 1, ROWS(1514, 0, 0));
	*red = (struct options){ .kind = "red" };
	put_attr(red, TCA_RED_STAB, parms, sizeof(parms));
	put_attr(red, TCA_RED_MAX_P | NLA_F_NESTED, &max_p, sizeof(max_p));
	assert_int_equal(sample(s), 0);
	in_force(s, 1, ROWS(0, 0, 1000000));
	red->len = 0;
	assert_int_equal(sample(s), 0);
	in_force(s, 1, ROWS(0, 0, 0));
	red->len = 3;
	assert_int_equal(sample(s), -EBADMSG);
}

/* Options of another qdisc are not read, whatever they say. */
static void reads_nothing_of_another_qdisc(void **state)
{
	struct scene *s = *state;

	assert_int_equal(open_enforcer(s), 0);
	s->roots[0].kind = "redd";
	s->roots[1].kind = "tb";
	assert_int_equal(sample(s), 0);
	in_force(s, 0, ROWS(0));
	in_force(s, 1, ROWS(0));
	s->roots[0].kind = "red";
	assert_int_equal(sample(s), 0);
	in_force(s, 1, ROWS(30000, 30000, 1000000));
}

/* A qdisc like bfifo has no attributes: its options are the value. */
static void reads_options_without_attributes(void **state)
{
	struct scene *s = *state;
	const uint32_t limit = 400000;

	s->made.row[0].row = 2;
	strcpy(s->made.row[0].qdisc, "bfifo");
	s->made.field[2] = (struct actuator_field){ .multiplier = 1, .divisor = 1, .width = 4 };
	s->made.field[3] = (struct actuator_field){ .multiplier = 1, .divisor = 1, .width = 2, .offset = 4 };
	memcpy(s->roots[2].buf, &limit, sizeof(limit));
	assert_int_equal(open_enforcer(s), 0);
	in_force(s, 0, ROWS(400000));
	s->roots[2].len = 3;
	assert_int_equal(sample(s), 0);
	in_force(s, 0, ROWS(0));
}

/* A value may lie in one of several nests of a type, beside equal attributes of the others and of the
 * options. */
static void reads_the_nest_that_a_row_names(void **state)
{
	struct scene *s = *state;
	struct options *red = &s->roots[0], nest;
	const uint32_t max_p = UINT32_MAX;

	for (uint32_t k = 8; k < 11; k++) {
		s->made.field[k].nest = 6;
		s->made.field[k].index = 1;
	}
	assert_int_equal(open_enforcer(s), 0);
	in_force(s, 1, ROWS(0, 0, 0)); /* there is no nest */
	for (uint32_t k = 0; k < 3; k++) {
		const struct tc_red_qopt parms = { .qth_min = 2000 + k, .qth_max = 3000 + k };

		nest = (struct options){ .kind = "red" };
		put_attr(&nest, TCA_RED_PARMS, &parms, sizeof(parms));
		put_attr(&nest, TCA_RED_MAX_P, &max_p, k ? sizeof(max_p) : 0);
		put_attr(red, 6 | NLA_F_NESTED, nest.buf, nest.len);
		assert_int_equal(sample(s), 0);
		if (k)
			in_force(s, 1, ROWS(2001, 3001, 1000000));
		else
			in_force(s, 1, ROWS(0, 0, 0));
	}
	s->made.field[8].index = 0;
	*red = (struct options){ .kind = "red" };
	put_attr(red, 6 | NLA_F_NESTED, &max_p, 3);
	put_attr(red, 6 | NLA_F_NESTED, &max_p, 3);
	assert_int_equal(sample(s), -EBADMSG);
}

static void refuses_another_qdisc(void **state)
{
	struct scene *s = *state;

	s->roots[1] = s->roots[2];
	assert_int_equal(open_enforcer(s), -EINVAL);
	assert_string_equal(s->f.text, "actuators: the root qdisc of port 'h1-eth0' (row 1) is no tbf, which "
				       "rate sets; make it one first");
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, make_scene, remove_scene)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SCENE(sends_the_start),
		IN_SCENE(sends_what_is_planned_later),
		IN_SCENE(sends_what_differs),
		IN_SCENE(sends_nothing_outside_the_bounds),
		IN_SCENE(sends_each_row_of_a_port),
		IN_SCENE(tells_the_setter_of_flows),
		IN_SCENE(tells_what_cannot_be_sent),
		IN_SCENE(waits_for_the_answer),
		IN_SCENE(reads_what_is_in_force),
		IN_SCENE(reads_no_more_than_there_is),
		IN_SCENE(reads_nothing_of_another_qdisc),
		IN_SCENE(reads_options_without_attributes),
		IN_SCENE(reads_the_nest_that_a_row_names),
		IN_SCENE(refuses_another_qdisc),
	};

	return cmocka_run_group_tests_name("enforce", tests, NULL, NULL);
}
