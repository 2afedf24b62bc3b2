// SPDX-License-Identifier: GPL-2.0-only
/*
 * LAB_IOC_CALLS: several system calls of a process as one.
 *
 * To enter the kernel, a process of User Mode Linux has the host switch to the kernel's process and back: ten
 * times what a short call itself takes. The daemons of a lab know beforehand which calls follow each other.
 * Here they are carried out in their order, as if each had been made by itself: in virtual time, too, where a
 * call that fails takes a microsecond.
 */
#include "lab_calls.h"

#include <asm/delay.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/sched/signal.h>
#include <linux/seccomp.h>
#include <linux/uaccess.h>

#define ARGUMENTS 6

/* Calls that need nothing of the process but their arguments: not its registers, not a restart. */
static bool is_allowed(u32 number)
{
	switch (number) {
	case __NR_accept4:
	case __NR_bind:
	case __NR_clock_gettime:
	case __NR_clock_nanosleep:
	case __NR_close:
	case __NR_connect:
	case __NR_epoll_ctl:
	case __NR_epoll_wait:
	case __NR_getsockopt:
	case __NR_io_submit:
	case __NR_recvfrom:
	case __NR_sendfile:
	case __NR_sendto:
	case __NR_setns:
	case __NR_setsockopt:
	case __NR_shutdown:
	case __NR_socket:
	case __NR_timerfd_settime:
		return true;
	default:
		return false;
	}
}

static bool is_opener(u32 number)
{
	return number == __NR_socket || number == __NR_accept4;
}

/* As handle_syscall() has it: a connect() under way is no error. */
static bool has_failed(long result)
{
	return IS_ERR_VALUE(result) && result != -EINPROGRESS;
}

/* -ERESTARTSYS and its like: the signal is handled when the process goes on, and it starts the call again. */
static bool is_interrupted(long result)
{
	return result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
	       result == -ERESTART_RESTARTBLOCK;
}

static long carry_out(const struct lab_call *call)
{
	const __u64 *a = call->arguments;
	long result = -ENOSYS;

	if (is_allowed(call->number))
		result = sys_call_table[call->number](a[0], a[1], a[2], a[3], a[4], a[5]);
	if (has_failed(result)) { /* as handle_syscall() has it */
		um_udelay(1);
		schedule();
	}
	return is_interrupted(result) ? -EINTR : result;
}

/* `opened` is a descriptor, or -EBADF if the list has opened none so far. */
static int fill_in(struct lab_call *call, long opened)
{
	if (call->opened_at > ARGUMENTS || call->whole_at > ARGUMENTS)
		return -EINVAL;
	if (call->opened_at && opened < 0)
		return opened;
	if (call->opened_at)
		call->arguments[call->opened_at - 1] = opened;
	return 0;
}

static bool is_last(const struct lab_call *call, long result)
{
	return has_failed(result) || (call->whole_at && (u64)result != call->arguments[call->whole_at - 1]);
}

long lab_calls(struct lab_calls __user *argument)
{
	struct lab_call __user *at;
	struct lab_calls calls;
	struct lab_call call;
	long result, opened = -EBADF;
	bool last = false;
	u32 i;

	if (seccomp_mode(&current->seccomp))
		return -EPERM; /* no filter would see the calls */
	if (copy_from_user(&calls, argument, sizeof(calls)))
		return -EFAULT;
	if (calls.count > LAB_CALLS_MAX)
		return -E2BIG;
	at = u64_to_user_ptr(calls.calls);
	for (i = 0; i < calls.count && !last && !fatal_signal_pending(current); i++, at++) {
		if (copy_from_user(&call, at, sizeof(call)))
			return -EFAULT;
		result = fill_in(&call, opened);
		if (!result)
			result = carry_out(&call);
		if (is_opener(call.number) && !has_failed(result))
			opened = result;
		last = is_last(&call, result);
		if (put_user(result, &at->result))
			return -EFAULT;
	}
	return i;
}
