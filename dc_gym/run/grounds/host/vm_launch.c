/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm-launch: runs a program, qemu, that passes on to the machine's files what a VM's root asks for, but no
 * right of its user's.
 *
 *     vm-launch PROGRAM [ARG ...]
 *
 * It makes no file with a set-user-ID or set-group-ID bit, no device, and no extended attribute, such as a
 * capability, whoever its user is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp_filter.h"

#define EXIT_CANNOT_LAUNCH 125
#define SYS_FCHMODAT2      452 /* Linux 6.6 */
#define SYS_SETXATTRAT     463 /* Linux 6.13 */
#define X32_BIT            0x40000000u
#define BITS               (S_ISUID | S_ISGID)
#define DEVICE             S_IFCHR /* a bit of S_IFBLK, too */
#define CREATES            (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

#define NOT(call, number) COMPARE(JEQ, call, 0, 1), REFUSE(number)
/* A call whose argument has none of these bits. */
#define WITHOUT(call, argument, bits)                                                                        \
	COMPARE(JEQ, call, 0, 4), LOAD(args[argument]), COMPARE(JSET, bits, 0, 1), REFUSE(EPERM),            \
		RETURN(SECCOMP_RET_ALLOW)
/* The same where the mode counts for new files alone. */
#define OPEN_WITHOUT(call, flags, mode, bits)                                                                \
	COMPARE(JEQ, call, 0, 6), LOAD(args[flags]), COMPARE(JSET, CREATES, 0, 3), LOAD(args[mode]),         \
		COMPARE(JSET, bits, 0, 1), REFUSE(EPERM), RETURN(SECCOMP_RET_ALLOW)

static int confine(void)
{
	struct sock_filter program[] = {
		LOAD(arch),
		COMPARE(JEQ, AUDIT_ARCH_X86_64, 1, 0),
		REFUSE(ENOSYS),
		LOAD(nr),
		COMPARE(JGE, X32_BIT, 0, 1),
		REFUSE(ENOSYS),
		OPEN_WITHOUT(SYS_openat, 2, 3, BITS),
		OPEN_WITHOUT(SYS_open, 1, 2, BITS),
		WITHOUT(SYS_creat, 1, BITS),
		WITHOUT(SYS_chmod, 1, BITS),
		WITHOUT(SYS_fchmod, 1, BITS),
		WITHOUT(SYS_fchmodat, 2, BITS),
		WITHOUT(SYS_FCHMODAT2, 2, BITS),
		WITHOUT(SYS_mknod, 1, BITS | DEVICE),
		WITHOUT(SYS_mknodat, 2, BITS | DEVICE),
		NOT(SYS_setxattr, EOPNOTSUPP),
		NOT(SYS_lsetxattr, EOPNOTSUPP),
		NOT(SYS_fsetxattr, EOPNOTSUPP),
		NOT(SYS_SETXATTRAT, ENOSYS),
		NOT(SYS_openat2, ENOSYS), /* its mode lies in memory */
		NOT(SYS_io_uring_setup, ENOSYS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(program[0]), .filter = program };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: vm-launch PROGRAM [ARG ...]\n");
		return EXIT_CANNOT_LAUNCH;
	}
	if (confine())
		fprintf(stderr, "vm-launch: confine the VM's system calls (seccomp): %s\n", strerror(errno));
	else {
		execvp(argv[1], argv + 1);
		fprintf(stderr, "vm-launch: run %s: %s\n", argv[1], strerror(errno));
	}
	return EXIT_CANNOT_LAUNCH;
}
