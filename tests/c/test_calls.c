// SPDX-License-Identifier: Apache-2.0
/* Several system calls in a row, made singly: in order, with the descriptor that one opens, up to the first
 * that fails or does less than it should.
 */
#include "calls.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS = 4 };
static const int one = 1;
static const struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_addr.s_addr = 0x01020304 };

/* Opens a socket, sets an option, binds it, closes it; the option's length and the address are as given. */
static int open_and_bind(struct calls *c, const __s64 *result[CALLS], size_t length,
			 const struct sockaddr_in *at)
{
	result[0] = calls_add(c, "socket", SYS_socket, (__u64[6]){ AF_INET, SOCK_DGRAM });
	result[1] = calls_add(c, "SO_REUSEADDR", SYS_setsockopt,
			      (__u64[6]){ 0, SOL_SOCKET, SO_REUSEADDR, (uintptr_t)&one, length });
	calls_take_opened(c, 0);
	result[2] = calls_add(c, "bind", SYS_bind, (__u64[6]){ 0, (uintptr_t)at, sizeof(*at) });
	calls_take_opened(c, 0);
	result[3] = calls_add(c, "close", SYS_close, (__u64[6]){ 0 });
	calls_take_opened(c, 0);
	return calls_run(c);
}

static void takes_what_was_opened(void **state)
{
	const struct sockaddr_in any = { .sin_family = AF_INET };
	const __s64 *result[CALLS];
	const char *name;
	struct calls c;
	int made;

	(void)state;
	assert_int_equal(calls_open(&c, CALLS), 0);
	made = open_and_bind(&c, result, sizeof(one), &any);
	assert_int_equal(made, CALLS);
	assert_int_equal(calls_failed(&c, made, &name), 0);
	assert_true(*result[0] >= 0);
	assert_int_equal(close((int)*result[0]), -1); /* it was closed */
	calls_close(&c);
}

static void names_the_call_that_failed(void **state)
{
	const __s64 *result[CALLS];
	const char *name;
	struct calls c;
	int made;

	(void)state;
	assert_int_equal(calls_open(&c, CALLS), 0);
	made = open_and_bind(&c, result, 1, &nobody);
	assert_int_equal(made, 2);
	assert_int_equal(calls_failed(&c, made, &name), -EINVAL);
	assert_string_equal(name, "SO_REUSEADDR");
	assert_int_equal(*result[2], -ECANCELED);
	close((int)*result[0]);
	made = open_and_bind(&c, result, sizeof(one), &nobody);
	assert_int_equal(made, 3);
	assert_int_equal(calls_failed(&c, made, &name), -EADDRNOTAVAIL);
	assert_string_equal(name, "bind");
	assert_int_equal(*result[3], -ECANCELED);
	close((int)*result[0]);
	calls_close(&c);
}

static void a_part_is_the_last(void **state)
{
	const __s64 *sent, *shut;
	const char *name;
	struct calls c;
	char got[8];
	int fd[2];

	(void)state;
	assert_int_equal(calls_open(&c, CALLS), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(write(fd[1], "abc", 3), 3);
	for (int want = 4; want >= 3; want--) {
		sent = calls_add(&c, "recv", SYS_recvfrom,
				 (__u64[6]){ (__u64)fd[0], (uintptr_t)got, (__u64)want, MSG_PEEK });
		calls_want_whole(&c, 2);
		shut = calls_add(&c, "shutdown", SYS_shutdown, (__u64[6]){ (__u64)fd[0], SHUT_WR });
		assert_int_equal(calls_run(&c), want == 3 ? 2 : 1);
		assert_int_equal(*sent, 3);
		assert_int_equal(*shut, want == 3 ? 0 : -ECANCELED);
		assert_int_equal(calls_failed(&c, 1, &name), 0);
	}
	close(fd[0]);
	close(fd[1]);
	calls_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_was_opened),
		cmocka_unit_test(names_the_call_that_failed),
		cmocka_unit_test(a_part_is_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
