/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h of Linux 6.12: that of the machine may be older, or missing. */
#define SYS_LANDLOCK_CREATE_RULESET 444
#define SYS_LANDLOCK_ADD_RULE       445
#define SYS_LANDLOCK_RESTRICT_SELF  446
#define CREATE_RULESET_VERSION      1u
#define RULE_PATH_BENEATH           1
#define FS_WRITE_FILE               (1ull << 1)
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
	(FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK |         \
	 FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)

static int fail(const char *what)
{
	fprintf(stderr, "lab-launch: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct ruleset ruleset_of(long abi)
{
	struct ruleset rules = { .fs = FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_CHAR |
				       FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO |
				       FS_MAKE_BLOCK | FS_MAKE_SYM };

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

static int allow(int rules, const char *folders, uint64_t handled)
{
	struct path_beneath beneath = { .allowed = FS_ALLOWED & handled };
	char *end;

	for (;; folders = end + 1) {
		beneath.parent = (int32_t)strtol(folders, &end, 10);
		if (syscall(SYS_LANDLOCK_ADD_RULE, rules, RULE_PATH_BENEATH, &beneath, 0))
			return fail("let the lab write to its folder (Landlock)");
		if (*end != ',')
			return 0;
	}
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
	failed = allow(fd, folders, rules.fs);
	if (!failed && syscall(SYS_LANDLOCK_RESTRICT_SELF, fd, 0))
		failed = fail("confine the lab (Landlock)");
	close(fd);
	return failed;
}

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(value)  BPF_STMT(BPF_RET | BPF_K, value)
#define REFUSE(number) RETURN(SECCOMP_RET_ERRNO | (number))
/* Refuses one system call. */
#define NOT(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), REFUSE(EPERM)

#define X32_BIT 0x40000000u
#define NEW_NAMESPACES                                                                                       \
	((uint32_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |            \
		    CLONE_NEWPID | CLONE_NEWNET))

int confine_calls(void)
{
	/* A lab's own programs are not affected: their calls go to the lab kernel. */
	struct sock_filter program[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		REFUSE(ENOSYS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
		REFUSE(ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1), /* its flags lie in memory */
		REFUSE(ENOSYS),
		NOT(ioctl), /* of a device, such as the user's terminal; a lab kernel needs none */
		NOT(socket),
		NOT(ptrace),
		NOT(process_vm_readv),
		NOT(process_vm_writev),
		NOT(pidfd_getfd),
		NOT(unshare),
		NOT(setns),
		NOT(bpf),
		NOT(perf_event_open),
		NOT(io_uring_setup),
		NOT(userfaultfd),
		NOT(keyctl),
		NOT(add_key),
		NOT(request_key),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1),
		REFUSE(EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(program[0]), .filter = program };

	/* SPEC_ALLOW: without it, Linux before 5.16 would slow all of the lab down. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter))
		return fail("confine the lab's system calls (seccomp)");
	return 0;
}
