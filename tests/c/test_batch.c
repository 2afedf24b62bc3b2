// SPDX-License-Identifier: Apache-2.0
/* Many reads and writes on sockets as one system call: in order, without waiting, each with its own result.
 */
#include "batch.h"

#include "program.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE 40

struct pair {
	struct batch b;
	int fd[2];
};

static void stop(int sig)
{
	(void)sig;
	program_stop = 1;
}

static int make_pair(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	if (!p || socketpair(AF_UNIX, SOCK_DGRAM, 0, p->fd) || batch_open(&p->b, SIZE))
		return -1;
	*state = p;
	return 0;
}

/* As on a machine that has no AIO. */
static int make_plain_pair(void **state)
{
	struct pair *p;

	if (make_pair(state))
		return -1;
	p = *state;
	if (p->b.context)
		syscall(SYS_io_destroy, p->b.context);
	p->b.context = 0;
	return 0;
}

static int free_pair(void **state)
{
	struct pair *p = *state;

	batch_close(&p->b);
	batch_close(&p->b);
	close(p->fd[0]);
	close(p->fd[1]);
	free(p);
	return 0;
}

static void goes_in_order(void **state)
{
	struct pair *p = *state;
	char got[2][8] = { "", "" };

	for (int round = 0; round < 300; round++) { /* the ring of results wraps */
		uint32_t first = batch_write(&p->b, p->fd[0], "one", 4);

		batch_write(&p->b, p->fd[0], "three", 6);
		batch_read(&p->b, p->fd[1], got[0], sizeof(got[0]));
		batch_read(&p->b, p->fd[1], got[1], sizeof(got[1]));
		assert_int_equal(first, 0);
		assert_int_equal(batch_run(&p->b), 0);
		assert_int_equal(p->b.n, 0);
		assert_int_equal(p->b.results[0], 4);
		assert_int_equal(p->b.results[1], 6);
		assert_int_equal(p->b.results[2], 4);
		assert_int_equal(p->b.results[3], 6);
		assert_string_equal(got[0], "one");
		assert_string_equal(got[1], "three");
	}
}

static void does_not_wait(void **state)
{
	struct pair *p = *state;
	char got[8];

	batch_read(&p->b, p->fd[1], got, sizeof(got));
	batch_write(&p->b, p->fd[0], "late", 5);
	assert_int_equal(batch_run(&p->b), 0);
	assert_int_equal(p->b.results[0], -EAGAIN);
	assert_int_equal(p->b.results[1], 5);
}

static void tells_each_failure(void **state)
{
	struct pair *p = *state;
	char got[8];

	close(p->fd[1]);
	p->fd[1] = -1;
	batch_write(&p->b, p->fd[0], "lost", 5);
	batch_read(&p->b, p->fd[0], got, sizeof(got));
	assert_int_equal(batch_run(&p->b), 0);
	assert_int_equal(p->b.results[0], -ECONNREFUSED);
	assert_true(p->b.results[1] < 0);
	batch_write(&p->b, 1000000, "nowhere", 8);
	assert_int_equal(batch_run(&p->b) ? -EBADF : p->b.results[0], -EBADF);
	assert_int_equal(p->b.n, 0);
}

static void fills_up(void **state)
{
	struct pair *p = *state;
	char got[SIZE / 2];

	for (uint32_t i = 0; i < SIZE / 2; i++) {
		assert_int_equal(batch_write(&p->b, p->fd[0], "0123456789012345678901234567890" + i % 10, 1),
				 2 * i);
		batch_read(&p->b, p->fd[1], &got[i], 1);
	}
	assert_int_equal(batch_run(&p->b), 0);
	for (uint32_t i = 0; i < SIZE / 2; i++)
		assert_int_equal(got[i], '0' + i % 10);
}

static void waits_for_its_time(void **state)
{
	struct pair *p = *state;
	struct calls c;
	uint64_t at = now_ns() + 1000000;
	char got[8];

	assert_int_equal(calls_open(&c, 3), 0);
	batch_write(&p->b, p->fd[0], "one", 4);
	batch_read(&p->b, p->fd[1], got, sizeof(got));
	assert_int_equal(batch_run_at(&p->b, NULL, &c, at), 0);
	assert_true(now_ns() >= at);
	assert_int_equal(p->b.n, 0);
	assert_int_equal(p->b.results[1], 4);
	assert_string_equal(got, "one");
	calls_close(&c);
	calls_close(&c);
}

/* What goes first is carried out before the sleep, in the call that also carries out the rest. */
static void carries_out_what_goes_first(void **state)
{
	struct pair *p = *state;
	struct batch first;
	struct calls c;
	uint64_t at = now_ns() + 1000000;
	char got[8];

	assert_int_equal(calls_open(&c, 3) | batch_open(&first, 2), 0);
	batch_write(&first, p->fd[0], "one", 4);
	batch_read(&first, p->fd[0], got, sizeof(got));
	batch_read(&p->b, p->fd[1], got, sizeof(got));
	assert_int_equal(batch_run_at(&p->b, &first, &c, at), 0);
	assert_true(now_ns() >= at);
	assert_int_equal(first.n | p->b.n, 0);
	assert_int_equal(first.results[0], 4);
	assert_int_equal(first.results[1], -EAGAIN);
	assert_int_equal(p->b.results[0], 4);
	assert_string_equal(got, "one");
	batch_read(&p->b, p->fd[1], got, sizeof(got));
	assert_int_equal(batch_run_at(&p->b, &first, &c, at), 0); /* nothing goes first */
	assert_int_equal(p->b.results[0], -EAGAIN);
	batch_close(&first);
	calls_close(&c);
}

static void stops_before_its_time(void **state)
{
	struct pair *p = *state;
	const struct itimerval soon = { .it_value.tv_usec = 1000, .it_interval.tv_usec = 1000 };
	struct calls c;
	char got[8];

	assert_int_equal(calls_open(&c, 3), 0);
	signal(SIGALRM, stop);
	setitimer(ITIMER_REAL, &soon, NULL);
	batch_write(&p->b, p->fd[0], "one", 4);
	assert_int_equal(batch_run_at(&p->b, NULL, &c, now_ns() + 3600 * NS_PER_SEC), 1);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	program_stop = 0;
	assert_int_equal(p->b.n, 0);
	assert_int_equal(recv(p->fd[1], got, sizeof(got), MSG_DONTWAIT), -1);
	calls_close(&c);
}

static void only_the_last_of_calls_fails(void **state)
{
	struct pair *p = *state;
	const struct timespec past = { 0 };
	const __s64 *slept, *failed, *left;
	struct calls c;

	assert_int_equal(calls_open(&c, 3), 0);
	slept = calls_add(&c, "clock_nanosleep", SYS_clock_nanosleep,
			  (__u64[6]){ CLOCK_MONOTONIC, TIMER_ABSTIME, (uintptr_t)&past });
	failed = calls_add(&c, "call", SYS_epoll_wait, (__u64[6]){ (__u64)p->fd[0], (uintptr_t)p, 1, 0 });
	left = calls_add(&c, "clock_nanosleep", SYS_clock_nanosleep,
			 (__u64[6]){ CLOCK_MONOTONIC, TIMER_ABSTIME, (uintptr_t)&past });
	assert_int_equal(calls_run(&c), 2);
	assert_int_equal(*slept, 0);
	assert_int_equal(*failed, -EINVAL);
	assert_int_equal(*left, -ECANCELED);
	calls_close(&c);
}

#define WITH_PAIR(test)                                                                                      \
	cmocka_unit_test_setup_teardown(test, make_pair, free_pair),                                         \
		cmocka_unit_test_setup_teardown(test, make_plain_pair, free_pair)

int main(void)
{
	const struct CMUnitTest tests[] = { WITH_PAIR(goes_in_order),
					    WITH_PAIR(does_not_wait),
					    WITH_PAIR(tells_each_failure),
					    WITH_PAIR(fills_up),
					    WITH_PAIR(waits_for_its_time),
					    WITH_PAIR(carries_out_what_goes_first),
					    WITH_PAIR(stops_before_its_time),
					    cmocka_unit_test_setup_teardown(only_the_last_of_calls_fails,
									    make_pair, free_pair) };

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
