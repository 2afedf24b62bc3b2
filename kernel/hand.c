/* SPDX-License-Identifier: Apache-2.0 */
#include "hand.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/lab.h"

extern char **environ;

static int fail(const char *what)
{
	fprintf(stderr, "ground: lab-hand: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

/* Returns the process id, or -1 with errno. */
static long start(const char *path, char *const argv[], int input, int output, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	volatile int error = 0; /* the child shares this memory until it executes its program */
	pid_t pid = vfork();

	if (pid < 0)
		return -1;
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
		    (priority && sched_setscheduler(0, SCHED_FIFO, &param)))
			error = errno;
		else if (execve(path, argv, environ))
			error = errno;
		_exit(127);
	}
	if (!error)
		return pid;
	waitpid(pid, NULL, 0);
	errno = error;
	return -1;
}

static int64_t make(const struct hand_call *call, const int64_t a[6])
{
	long result;

	if (call->number == HAND_START)
		result = start((const char *)a[0], (char *const *)a[1], (int)a[2], (int)a[3], (int)a[4]);
	else
		result = syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return result < 0 ? -errno : result;
}

/* Carries out a list that has room for `room` calls. */
static void carry_out(struct hand_list *list, uint32_t room)
{
	uint32_t count = list->count < room ? list->count : room;

	for (uint32_t at = 0; at < count; at++) {
		struct hand_call *call = &list->call[at];
		int64_t arguments[6];

		for (int each = 0; each < 6; each++) {
			uint32_t back = call->back[each];

			arguments[each] =
				back && back <= at ? list->call[at - back].result : call->arguments[each];
		}
		call->result = make(call, arguments);
		if (call->result < 0 && !call->may_fail)
			return;
	}
}

int main(void)
{
	int device = open("/dev/lab", O_RDWR | O_CLOEXEC);
	struct hand_list *list;
	uint64_t length;
	uint32_t room;
	char *region;

	if (device < 0 || ioctl(device, LAB_IOC_LENGTH, &length))
		return fail("/dev/lab");
	region = mmap((void *)HAND_BASE, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		      device, 0);
	if (region == MAP_FAILED)
		return fail("map the region");
	signal(SIGPIPE, SIG_IGN); /* who writes to a program that has ended gets an error */
	list = (void *)(region + HAND_AT);
	room = (length - HAND_AT - sizeof(*list)) / sizeof(list->call[0]);
	for (;;) {
		uint64_t step = HAND_STEP;
		int code = ioctl(device, LAB_IOC_STEP, &step);

		if (code < 0 && errno == EINTR)
			continue;
		if (code < 0)
			return fail("ask the host");
		if (code != HAND_GO_ON)
			return code;
		carry_out(list, room < HAND_CALLS_MAX ? room : HAND_CALLS_MAX);
	}
}
