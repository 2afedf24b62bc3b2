/* SPDX-License-Identifier: Apache-2.0 */
/* Several system calls as one: see calls.h. */
#include "calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ask_lab(int fd, const struct lab_call *first, uint32_t count)
{
	struct lab_calls calls = { .calls = (uintptr_t)first, .count = count };
	int n = ioctl(fd, LAB_IOC_CALLS, &calls);

	return n < 0 ? -errno : n;
}

/* A lab kernel of other sources may not know the call. */
static int open_lab(void)
{
	int fd = open("/dev/lab", O_RDWR | O_CLOEXEC);

	if (fd >= 0 && ask_lab(fd, NULL, 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int calls_open(struct calls *c, uint32_t size)
{
	assert(size <= LAB_CALLS_MAX);
	*c = (struct calls){ .lab = open_lab(),
			     .size = size,
			     .call = calloc(size, sizeof(*c->call)),
			     .name = calloc(size, sizeof(*c->name)) };
	return c->call && c->name ? 0 : -ENOMEM;
}

void calls_close(struct calls *c)
{
	if (c->lab >= 0)
		close(c->lab);
	free(c->call);
	free(c->name);
	*c = (struct calls)CALLS_INIT;
}

const __s64 *calls_add(struct calls *c, const char *name, long number, const __u64 arguments[6])
{
	struct lab_call *call = &c->call[c->n];

	assert(c->n < c->size);
	*call = (struct lab_call){ .number = (__u32)number, .result = -ECANCELED };
	for (int i = 0; i < 6; i++)
		call->arguments[i] = arguments[i];
	c->name[c->n++] = name;
	return &call->result;
}

void calls_take_opened(struct calls *c, unsigned int at)
{
	c->call[c->n - 1].opened_at = (__u16)(at + 1);
}

void calls_want_whole(struct calls *c, unsigned int at)
{
	c->call[c->n - 1].whole_at = (__u16)(at + 1);
}

static bool has_failed(int64_t result)
{
	return result < 0 && result != -EINPROGRESS;
}

static int64_t run_one(struct lab_call *call, int64_t opened)
{
	const __u64 *a = call->arguments;
	int64_t result;

	if (call->opened_at)
		call->arguments[call->opened_at - 1] = (__u64)opened;
	result = syscall((long)call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return result < 0 ? -errno : result;
}

/* As lab_calls.c does it. */
static int run_each(struct lab_call *call, uint32_t count)
{
	int64_t opened = -1;
	bool last = false;
	uint32_t i;

	for (i = 0; i < count && !last; i++, call++) {
		call->result = run_one(call, opened);
		if ((call->number == SYS_socket || call->number == SYS_accept4) && call->result >= 0)
			opened = call->result;
		last = has_failed(call->result) ||
		       (call->whole_at && (__u64)call->result != call->arguments[call->whole_at - 1]);
	}
	return (int)i;
}

/* One call alone is made by itself, which costs less. */
int calls_run(struct calls *c)
{
	uint32_t n = c->n;

	c->n = 0;
	return c->lab >= 0 && n > 1 ? ask_lab(c->lab, c->call, n) : run_each(c->call, n);
}

int calls_failed(const struct calls *c, int made, const char **name)
{
	int64_t result;

	if (made < 1) {
		*name = "make several calls as one";
		return made;
	}
	*name = c->name[made - 1];
	result = c->call[made - 1].result;
	return has_failed(result) ? (int)result : 0;
}
