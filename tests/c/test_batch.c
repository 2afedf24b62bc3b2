// SPDX-License-Identifier: Apache-2.0
/* Many reads and writes on sockets as one system call: in order, without waiting, each with its own result.
 */
#include "batch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE 40

struct pair {
	struct batch b;
	int fd[2];
};

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

#define WITH_PAIR(test)                                                                                      \
	cmocka_unit_test_setup_teardown(test, make_pair, free_pair),                                         \
		cmocka_unit_test_setup_teardown(test, make_plain_pair, free_pair)

int main(void)
{
	const struct CMUnitTest tests[] = { WITH_PAIR(goes_in_order), WITH_PAIR(does_not_wait),
					    WITH_PAIR(tells_each_failure), WITH_PAIR(fills_up) };

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
