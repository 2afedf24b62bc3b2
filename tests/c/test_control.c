// SPDX-License-Identifier: Apache-2.0
/* Control packets: what is taken for one, and a controller whose packets get lost. */
#include "control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define TIMEOUT_NS 1000

static struct actuator_row row[] = { { .row = 0, .n_values = 1 }, { .row = 1, .n_values = 1 } };
static const struct port port[] = { { "h1", "-", "h1", 0, 0 }, { "h2", "-", "h2", 0, 0 } };
static const struct ports ports = { .port = port, .n = 2 };
/* A packet carries the first value of each row. */
static const uint64_t wanted[2 * SM_MAX_VALUES] = { 100, 7, 7, 7, 200, 7, 7, 7 };
static const struct actuators hosts = { .row = row, .ports = &ports, .n = 2 };

static void checks_packets(void **state)
{
	const struct control_packet good = {
		.magic = CONTROL_MAGIC, .version = 1, .kind = CONTROL_COMMAND, .host = 1
	};
	struct control_packet p = good;

	(void)state;
	assert_true(control_check(&p, sizeof(p), CONTROL_COMMAND, 2));
	assert_false(control_check(&p, sizeof(p) - 1, CONTROL_COMMAND, 2));
	assert_false(control_check(&p, sizeof(p) + 1, CONTROL_COMMAND, 2));
	assert_false(control_check(&p, 0, CONTROL_COMMAND, 2));
	assert_false(control_check(&p, sizeof(p), CONTROL_ECHO, 2));
	assert_false(control_check(&p, sizeof(p), CONTROL_COMMAND, 1));
	p.magic++;
	assert_false(control_check(&p, sizeof(p), CONTROL_COMMAND, 2));
	p = good;
	p.version = 2;
	assert_false(control_check(&p, sizeof(p), CONTROL_COMMAND, 2));
}

/* A controller and two agents that this test plays, on the loopback. */
struct scene {
	struct control c;
	int fd[2];
	struct fault f;
};

static int open_scene(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(at);

		s->fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		if (bind(s->fd[i], (struct sockaddr *)&at, len) ||
		    getsockname(s->fd[i], (struct sockaddr *)&at, &len))
			return -1;
		row[i].control_addr = at.sin_addr.s_addr;
		row[i].control_port = ntohs(at.sin_port);
	}
	*state = s;
	return control_open(&s->c, &hosts, "-", TIMEOUT_NS, &s->f);
}

static int close_scene(void **state)
{
	struct scene *s = *state;

	control_close(&s->c);
	close(s->fd[0]);
	close(s->fd[1]);
	free(s);
	return 0;
}

/* The next packet that agent i finds: its number, 0 for none; echoed if `applied_ns` is given. */
static uint64_t serve(struct scene *s, int i, uint64_t applied_ns)
{
	struct control_packet p;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(s->fd[i], &p, sizeof(p), 0, (struct sockaddr *)&from, &len);

	if (n < 0)
		return 0;
	assert_true(control_check(&p, (size_t)n, CONTROL_COMMAND, 2));
	assert_int_equal(p.host, i);
	assert_int_equal(p.value, wanted[i * SM_MAX_VALUES]);
	p.kind = CONTROL_ECHO;
	p.applied_ns = applied_ns;
	if (applied_ns)
		assert_int_equal(sendto(s->fd[i], &p, sizeof(p), 0, (struct sockaddr *)&from, len),
				 sizeof(p));
	return p.seq;
}

static void sends_again_what_is_lost(void **state)
{
	struct scene *s = *state;
	uint64_t applied_ns;

	assert_int_equal(control_send(&s->c, 2, wanted, 0, &s->f), 0);
	assert_int_equal(serve(s, 0, 50), 2);
	assert_int_equal(serve(s, 1, 0), 2); /* its echo is lost */
	assert_int_equal(control_poll(&s->c, TIMEOUT_NS - 1, &s->f), 0);
	assert_int_equal(control_acked(&s->c, 0), 2);
	assert_int_equal(control_all_acked(&s->c, &applied_ns), 0);
	assert_int_equal(s->c.timeouts, 0);
	assert_int_equal(control_poll(&s->c, TIMEOUT_NS, &s->f), 0);
	assert_int_equal(s->c.timeouts, 1);
	assert_int_equal(serve(s, 0, 0), 0);
	assert_int_equal(serve(s, 1, 60), 2);
	assert_int_equal(control_poll(&s->c, TIMEOUT_NS + 1, &s->f), 0);
	assert_int_equal(control_all_acked(&s->c, &applied_ns), 2);
	assert_int_equal(applied_ns, 60);
	assert_int_equal(control_poll(&s->c, 9 * TIMEOUT_NS, &s->f), 0);
	assert_int_equal(s->c.timeouts, 1);
}

static void a_newer_command_takes_the_place_of_an_older(void **state)
{
	struct scene *s = *state;
	uint64_t applied_ns;

	assert_int_equal(control_send(&s->c, 2, wanted, 0, &s->f), 0);
	assert_int_equal(control_send(&s->c, 4, wanted, TIMEOUT_NS / 2, &s->f), 0);
	assert_int_equal(control_poll(&s->c, TIMEOUT_NS, &s->f), 0);
	assert_int_equal(s->c.timeouts, 0); /* of the newer one: it is young */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(serve(s, i, 70), 2);
		assert_int_equal(serve(s, i, 80), 4);
	}
	assert_int_equal(control_poll(&s->c, TIMEOUT_NS + 1, &s->f), 0);
	assert_int_equal(control_all_acked(&s->c, &applied_ns), 4);
	assert_int_equal(applied_ns, 80);
}

static void forgets_an_episode(void **state)
{
	struct scene *s = *state;
	uint64_t applied_ns;

	assert_int_equal(control_send(&s->c, 2, wanted, 0, &s->f), 0);
	assert_int_equal(serve(s, 0, 50), 2);
	assert_int_equal(control_forget(&s->c, 8, &s->f), 0);
	assert_int_equal(control_poll(&s->c, 9 * TIMEOUT_NS, &s->f), 0);
	assert_int_equal(control_all_acked(&s->c, &applied_ns), 8);
	assert_int_equal(applied_ns, 0);
	assert_int_equal(s->c.timeouts, 0);
}

/* An agent that is not there makes the kernel refuse packets: they count as lost. */
static void bears_an_agent_that_is_gone(void **state)
{
	struct scene *s = *state;

	close(s->fd[1]);
	s->fd[1] = -1;
	for (uint64_t k = 1; k < 5; k++) {
		assert_int_equal(control_send(&s->c, 2 * k, wanted, k * TIMEOUT_NS, &s->f), 0);
		assert_int_equal(serve(s, 0, k), 2 * k);
		assert_int_equal(control_poll(&s->c, k * TIMEOUT_NS + 1, &s->f), 0);
		assert_int_equal(control_acked(&s->c, 0), 2 * k);
		assert_int_equal(control_acked(&s->c, 1), 0);
	}
}

/* A datagram that only begins with an echo is none. */
static void an_echo_has_its_length(void **state)
{
	struct scene *s = *state;
	struct {
		struct control_packet p;
		char more[4];
	} sent;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	assert_int_equal(control_send(&s->c, 2, wanted, 0, &s->f), 0);
	assert_int_equal(recvfrom(s->fd[0], &sent.p, sizeof(sent.p), 0, (struct sockaddr *)&from, &len),
			 sizeof(sent.p));
	memset(sent.more, 0, sizeof(sent.more));
	sent.p.kind = CONTROL_ECHO;
	assert_int_equal(
		sendto(s->fd[0], &sent, sizeof(sent.p) + sizeof(sent.more), 0, (struct sockaddr *)&from, len),
		sizeof(sent.p) + sizeof(sent.more));
	assert_int_equal(control_poll(&s->c, 1, &s->f), 0);
	assert_int_equal(control_acked(&s->c, 0), 0);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checks_packets),
		IN_SCENE(sends_again_what_is_lost),
		IN_SCENE(a_newer_command_takes_the_place_of_an_older),
		IN_SCENE(forgets_an_episode),
		IN_SCENE(an_echo_has_its_length),
		IN_SCENE(bears_an_agent_that_is_gone),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
