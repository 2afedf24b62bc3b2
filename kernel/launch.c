/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lab-launch: becomes a lab kernel that cannot outlive its parent and, started by root, is not root.
 *
 *     lab-launch PARENT_PID LIFELINE_FD UID GID CPU PROGRAM [ARG ...]
 *
 * - The lab is killed when its parent dies (PR_SET_PDEATHSIG), and when the write end of the pipe
 *   behind LIFELINE_FD is closed (F_SETSIG): the first is tied to the thread that started the lab, the
 *   second to the process. Neither needs the lab's help, so a lab that hangs dies too.
 * - UID other than 0 while the caller is root: all groups and capabilities are dropped but
 *   CAP_DAC_READ_SEARCH, so that the lab reads what root could read and writes nothing of root's.
 *   In a container root may not have it; the lab then reads what UID may.
 * - The lab runs on CPU alone: its kernel and its processes take turns and never run at once, and a
 *   switch on one CPU costs a quarter of one between two.
 * - Address space randomization is off and there are no core files.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
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

/* An ambient capability survives execve(); securebits keep it over the change of uid, and let
 * access(2), which asks for the real uid's rights, see it too.
 */
static int drop_root(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { 0 } };
	unsigned int kept;

	if (syscall(SYS_capget, &header, caps))
		return fail("read capabilities");
	kept = caps[0].permitted & (1u << CAP_DAC_READ_SEARCH);
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NOROOT))
		return fail("set securebits");
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return fail("drop to an unprivileged user");
	memset(caps, 0, sizeof(caps));
	caps[0].effective = caps[0].permitted = caps[0].inheritable = kept;
	if (syscall(SYS_capset, &header, caps))
		return fail("drop capabilities");
	if (kept && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0))
		return fail("keep CAP_DAC_READ_SEARCH");
	return 0;
}

static int tie_to_parent(pid_t parent, int lifeline)
{
	if (fcntl(lifeline, F_SETOWN, getpid()) || fcntl(lifeline, F_SETSIG, SIGKILL) ||
	    fcntl(lifeline, F_SETFL, O_ASYNC))
		return fail("watch the lifeline");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return fail("set the parent-death signal");
	if (getppid() != parent) {
		errno = ESRCH;
		return fail("find the parent");
	}
	return 0;
}

static int stay_on(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? fail("stay on one CPU") : 0;
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };
	long parent, lifeline, uid, gid, cpu;

	if (argc < 7 || number(argv[1], &parent) || number(argv[2], &lifeline) || number(argv[3], &uid) ||
	    number(argv[4], &gid) || number(argv[5], &cpu)) {
		fprintf(stderr, "usage: lab-launch PARENT_PID LIFELINE_FD UID GID CPU PROGRAM [ARG ...]\n");
		return EXIT_CANNOT_LAUNCH;
	}
	setrlimit(RLIMIT_CORE, &no_core);
	if (geteuid() == 0 && uid != 0 && drop_root((uid_t)uid, (gid_t)gid))
		return EXIT_CANNOT_LAUNCH;
	if (tie_to_parent((pid_t)parent, (int)lifeline))
		return EXIT_CANNOT_LAUNCH;
	if (stay_on(cpu))
		return EXIT_CANNOT_LAUNCH;
	personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	execv(argv[6], argv + 6);
	fail(argv[6]);
	return EXIT_CANNOT_LAUNCH;
}
