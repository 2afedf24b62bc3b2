/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp_filter.h"

#ifndef SYS_close_range /* Linux 5.9 */
#define SYS_close_range 436
#endif

/* linux/landlock.h of Linux 6.12: that of the machine may be older, or missing. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define SYS_LANDLOCK_ADD_RULE       445
#define SYS_LANDLOCK_RESTRICT_SELF  446
#define CREATE_RULESET_VERSION      1u
#define RULE_PATH_BENEATH           1
#define FS_WRITE_FILE               (1ull << 1)
#define FS_READ_FILE                (1ull << 2)
#define FS_REMOVE_DIR               (1ull << 4)
#define FS_REMOVE_FILE              (1ull << 5)
#define FS_MAKE_CHAR                (1ull << 6)
#define FS_MAKE_DIR                 (1ull << 7)
#define FS_MAKE_REG                 (1ull << 8)
#define FS_MAKE_SOCK                (1ull << 9)
#define FS_MAKE_FIFO                (1ull << 10)
#define FS_MAKE_BLOCK               (1ull << 11)
#define FS_MAKE_SYM                 (1ull << 12)
#define FS_REFER                    (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE                 (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV                (1ull << 15) /* ABI 5 */
#define NET_TCP                     3ull         /* ABI 4: bind and connect */
#define SCOPE_ABSTRACT_SOCKETS      1ull         /* ABI 6 */
#define SCOPE_SIGNALS               2ull

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

#define FS_ALLOWED                                                                                           \
	(FS_READ_FILE | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |         \
	 FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)

static int fail(const char *what)
{
	fprintf(stderr, "lab-launch: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct ruleset ruleset_of(long abi)
{
	struct ruleset rules = { .fs = FS_READ_FILE | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE |
				       FS_MAKE_CHAR | FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK |
				       FS_MAKE_FIFO | FS_MAKE_BLOCK | FS_MAKE_SYM };

	if (abi >= 2)
		rules.fs |= FS_REFER;
	if (abi >= 3)
		rules.fs |= FS_TRUNCATE;
	if (abi >= 4)
		rules.net = NET_TCP;
	if (abi >= 5)
		rules.fs |= FS_IOCTL_DEV;
	if (abi >= 6)
		rules.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
	return rules;
}

static int allow(int rules, int folder, uint64_t allowed)
{
	struct path_beneath beneath = { .allowed = allowed, .parent = folder };

	if (syscall(SYS_LANDLOCK_ADD_RULE, rules, RULE_PATH_BENEATH, &beneath, 0))
		return fail("let the lab use a folder (Landlock)");
	return 0;
}

static int allow_writes(int rules, const char *folders, uint64_t handled)
{
	char *end;

	for (;; folders = end + 1) {
		if (allow(rules, (int)strtol(folders, &end, 10), FS_ALLOWED & handled))
			return -1;
		if (*end != ',')
			return 0;
	}
}

/* A path that is not there, or that the lab's user cannot reach, is left out. A link leads nowhere. */
static int allow_reads_of(int rules, const char *path)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), failed;

	if (fd < 0)
		return 0;
	failed = allow(rules, fd, FS_READ_FILE);
	close(fd);
	return failed;
}

/* A lab has its own /dev, /proc, /run and /sys. */
static int is_hidden(const char *name)
{
	static const char *const hidden[] = { ".", "..", "dev", "proc", "run", "sys" };

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (!strcmp(name, hidden[i]))
			return 1;
	return 0;
}

static int allow_reads(int rules)
{
	DIR *root = opendir("/");
	struct dirent *entry;
	char path[sizeof(entry->d_name) + 1];
	int failed = 0;

	if (!root)
		return fail("read the root folder");
	while (!failed && (entry = readdir(root))) {
		if (is_hidden(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/%s", entry->d_name);
		failed = allow_reads_of(rules, path);
	}
	closedir(root);
	return failed || allow_reads_of(rules, "/proc/cpuinfo") || allow_reads_of(rules, "/proc/self/.") ? -1
													 : 0;
}

int confine_writes(const char *folders, long newest_abi)
{
	long abi = syscall(SYS_LANDLOCK_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset rules;
	int fd, failed;

	if (abi > newest_abi)
		abi = newest_abi;
	rules = ruleset_of(abi);
	if (abi < 1) /* not in this kernel, switched off, or refused by a container */
		return 0;
	fd = (int)syscall(SYS_LANDLOCK_CREATE_RULESET, &rules, sizeof(rules), 0);
	if (fd < 0)
		return fail("make rules for the lab (Landlock)");
	failed = allow_writes(fd, folders, rules.fs) || allow_reads(fd);
	if (!failed && syscall(SYS_LANDLOCK_RESTRICT_SELF, fd, 0))
		failed = fail("confine the lab (Landlock)");
	close(fd);
	return failed;
}

#define AND(mask) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask)

/* The calls whose numbers lie between these two. */
#define ALLOW(first, last)                                                                                   \
	COMPARE(JGE, SYS_##first, 0, 2), COMPARE(JGT, SYS_##last, 1, 0), RETURN(SECCOMP_RET_ALLOW)
/* A call whose argument, cut to 32 bits as the kernel does it, has this value among the bits of `mask`. */
#define ALLOW_IF(call, argument, mask, value)                                                                \
	COMPARE(JEQ, SYS_##call, 0, 5), LOAD(args[argument]), AND(mask), COMPARE(JEQ, value, 0, 1),          \
		RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)
/* Landlock before version 3 sees O_TRUNC with O_WRONLY or O_RDWR only. */
#define ALLOW_OPEN(call, flags)                                                                              \
	COMPARE(JEQ, SYS_##call, 0, 6), LOAD(args[flags]), AND(O_TRUNC | O_ACCMODE),                         \
		COMPARE(JEQ, O_TRUNC | O_RDONLY, 2, 0), COMPARE(JEQ, O_TRUNC | O_ACCMODE, 1, 0),             \
		RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)
/* Of notifications (seccomp.h), and of a lab's own channel (lab.h), which its kernel hears of by them only if
 * no filter refuses it. Not of devices, such as the user's terminal.
 */
#define ALLOW_IOCTL                                                                                          \
	COMPARE(JEQ, SYS_ioctl, 0, 7), LOAD(args[1]), COMPARE(JSET, IOC_INOUT, 0, 4),                        \
		AND(_IOC_TYPEMASK << _IOC_TYPESHIFT),                                                        \
		COMPARE(JEQ, SECCOMP_IOC_MAGIC << _IOC_TYPESHIFT, 1, 0),                                     \
		COMPARE(JEQ, 'L' << _IOC_TYPESHIFT, 0, 1), RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)
/* Pairs of datagram sockets could send to others' named ones. */
#define ALLOW_SOCKETPAIR                                                                                     \
	COMPARE(JEQ, SYS_socketpair, 0, 7), LOAD(args[0]), COMPARE(JEQ, AF_UNIX, 0, 4), LOAD(args[1]),       \
		AND(SOCKET_KIND), COMPARE(JEQ, SOCK_STREAM, 0, 1), RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)
/* Not locks, leases and the like, which others would wait for. */
#define ALLOW_FCNTL                                                                                          \
	COMPARE(JEQ, SYS_fcntl, 0, 6), LOAD(args[1]), COMPARE(JGT, F_SETFL, 0, 3),                           \
		COMPARE(JEQ, F_DUPFD_CLOEXEC, 2, 0), COMPARE(JEQ, F_ADD_SEALS, 1, 0), REFUSE(EPERM),         \
		RETURN(SECCOMP_RET_ALLOW)

#define SOCKET_KIND 0xf /* the other bits are flags */
#define NEW_NAMESPACES                                                                                       \
	((uint32_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |            \
		    CLONE_NEWPID | CLONE_NEWNET))

int confine_calls(void)
{
	/* What lab kernels call, whatever their libc, and its like that reaches no further. A lab's own
	 * programs are not affected: their calls go to the lab kernel, whose trap comes before a refusal. The
	 * first calls are the most frequent ones.
	 */
	struct sock_filter program[] = {
		LOAD(arch),
		COMPARE(JEQ, AUDIT_ARCH_X86_64, 1, 0),
		REFUSE(ENOSYS),
		LOAD(nr),
		ALLOW(tkill, futex),
		ALLOW_IOCTL,
		ALLOW(close, rt_sigreturn),
		ALLOW(sendto, shutdown), /* not socket, connect, bind */
		ALLOW(pread64, madvise),
		ALLOW(statx, statx),
		ALLOW(read, write),
		ALLOW_OPEN(open, 1),
		ALLOW_OPEN(openat, 2),
		ALLOW_SOCKETPAIR,
		ALLOW_FCNTL,
		ALLOW_IF(clone, 0, NEW_NAMESPACES, 0),
		ALLOW_IF(prlimit64, 0, UINT32_MAX, 0), /* of itself */
		ALLOW(dup, sendfile),
		ALLOW(fork, uname),
		ALLOW(fsync, fdatasync), /* not truncate, which Landlock does not see before version 3 */
		ALLOW(ftruncate, readlink),
		ALLOW(umask, times), /* before it, chmod and chown: a lab's modes and owners are its own */
		ALLOW(getuid, getuid),
		ALLOW(getgid, getgid),
		ALLOW(geteuid, getegid),
		ALLOW(getppid, setsid),
		ALLOW(rt_sigpending, rt_sigtimedwait),
		ALLOW(rt_sigsuspend, sigaltstack),
		ALLOW(mknod, mknod),
		ALLOW(personality, personality),
		ALLOW(statfs, fstatfs),
		ALLOW(prctl, arch_prctl),
		ALLOW(setrlimit, setrlimit),
		ALLOW(gettid, gettid),
		ALLOW(sched_getaffinity, sched_getaffinity),
		ALLOW(io_submit, io_submit), /* a lab's kernel makes no context for it */
		ALLOW(epoll_create, epoll_create),
		ALLOW(getdents64, restart_syscall),
		ALLOW(timer_create, timer_delete),
		ALLOW(clock_gettime, tgkill),
		ALLOW(waitid, waitid),
		ALLOW(mkdirat, mknodat),
		ALLOW(newfstatat, readlinkat),
		ALLOW(faccessat, ppoll),
		ALLOW(set_robust_list, set_robust_list),
		ALLOW(epoll_pwait, timerfd_gettime),
		ALLOW(signalfd4, pipe2),
		ALLOW(preadv, pwritev),
		ALLOW(renameat2, memfd_create),
		ALLOW(execveat, execveat),
		ALLOW(rseq, rseq),
		ALLOW(close_range, close_range),
		/* For newer calls, and those of x32, a libc has older ones. */
		COMPARE(JGE, SYS_clone3, 0, 1),
		REFUSE(ENOSYS),
		REFUSE(EPERM),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(program[0]), .filter = program };

	/* SPEC_ALLOW: without it, Linux before 5.16 would slow all of the lab down. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter))
		return fail("confine the lab's system calls (seccomp)");
	return 0;
}
