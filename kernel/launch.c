/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lab-launch: becomes a lab kernel that cannot outlive its parent, is confined and, started by root, is not
 * root.
 *
 *     lab-launch [--landlock VERSION] PARENT_PID LIFELINE_FD UID GID CPU WRITABLE PROGRAM [ARG ...]
 *
 * - The lab is killed when the write end of the pipe behind LIFELINE_FD is closed (F_SETSIG), as it is when
 *   the parent dies. That needs no help of the lab, so a lab that hangs dies too. A parent-death signal would
 *   come as soon as the thread ends that started the lab.
 * - The lab has a session of its own, and so no terminal, from which it could read or into which it could
 *   type. Ctrl-C and Ctrl-Z reach its parent alone.
 * - UID other than 0 while the caller is root: all groups and capabilities are dropped. PROGRAM may lie
 *   where UID may not go.
 * - The lab writes only below the folders behind the descriptors of WRITABLE (comma-separated), and gets
 *   nothing else that it does not need (confine.c).
 * - With --landlock it is confined as on a machine whose kernel has that version of Landlock, or none (0),
 *   for tests.
 * - The lab runs on CPU alone: its kernel and its processes take turns and never run at once, and a
 *   switch on one CPU costs a quarter of one between two.
 * - Address space randomization is off and there are no core files.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"

#define EXIT_CANNOT_LAUNCH 125

static int fail(const char *what)
{
	fprintf(stderr, "lab-launch: %s: %s\n", what, strerror(errno));
	return -1;
}

static int number(const char *text, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	return errno || *end || end == text || *value < 0 ? -1 : 0;
}

/* The change of uid clears the capabilities in force; clearing the bounding set is beyond what some
 * containers allow. */
static int drop_root(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return fail("drop to an unprivileged user");
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, none))
		return fail("drop capabilities");
	return 0;
}

static int tie_to_parent(pid_t parent, int lifeline)
{
	if (fcntl(lifeline, F_SETOWN, getpid()) || fcntl(lifeline, F_SETSIG, SIGKILL) ||
	    fcntl(lifeline, F_SETFL, O_ASYNC))
		return fail("watch the lifeline");
	if (getppid() != parent) {
		errno = ESRCH;
		return fail("find the parent");
	}
	return 0;
}

static int leave_terminal(void)
{
	return setsid() < 0 ? fail("leave the terminal") : 0;
}

static int stay_on(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? fail("stay on one CPU") : 0;
}

static int confine(const char *writable, long newest_abi)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return fail("give up new privileges");
	return confine_writes(writable, newest_abi) || confine_calls() ? -1 : 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: lab-launch [--landlock VERSION] PARENT_PID LIFELINE_FD UID GID CPU WRITABLE "
			"PROGRAM [ARG ...]\n");
	return EXIT_CANNOT_LAUNCH;
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };
	struct rlimit files;
	long parent, lifeline, uid, gid, cpu, newest_abi = LONG_MAX;
	int program;

	if (argc > 2 && !strcmp(argv[1], "--landlock")) {
		if (number(argv[2], &newest_abi))
			return usage();
		argc -= 2;
		argv += 2;
	}
	if (argc < 8 || number(argv[1], &parent) || number(argv[2], &lifeline) || number(argv[3], &uid) ||
	    number(argv[4], &gid) || number(argv[5], &cpu))
		return usage();
	setrlimit(RLIMIT_CORE, &no_core);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max; /* a lab's programs open what they like */
		setrlimit(RLIMIT_NOFILE, &files);
	}
	program = open(argv[7], O_PATH | O_CLOEXEC);
	if (program < 0) {
		fail(argv[7]);
		return EXIT_CANNOT_LAUNCH;
	}
	if (geteuid() == 0 && uid != 0 && drop_root((uid_t)uid, (gid_t)gid))
		return EXIT_CANNOT_LAUNCH;
	if (tie_to_parent((pid_t)parent, (int)lifeline) || leave_terminal())
		return EXIT_CANNOT_LAUNCH;
	if (stay_on(cpu) || confine(argv[6], newest_abi))
		return EXIT_CANNOT_LAUNCH;
	personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	execveat(program, "", argv + 7, environ, AT_EMPTY_PATH);
	fail(argv[7]);
	return EXIT_CANNOT_LAUNCH;
}
