// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says, when the kernel panics, which places of a TCP of one's own were being run. It is linked into each
 * object (kernel/objects.py); the kernel's own call trace leaves the object's functions out.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/printk.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/thread_info.h>

#define MOST 8

extern u8 lab_object_region[];

static bool inside(unsigned long at)
{
	return at - (unsigned long)lab_object_region < SZ_512K;
}

static int say_places(struct notifier_block *block, unsigned long event, void *message)
{
	struct pt_regs *fault = current->thread.segv_regs;
	unsigned long at = fault ? PT_REGS_SP(fault) : (unsigned long)__builtin_frame_address(0);
	unsigned long end = round_up(at + 1, THREAD_SIZE);
	int left = MOST;

	if (fault && inside(PT_REGS_IP(fault)))
		pr_emerg("lab_object: at %lx\n", PT_REGS_IP(fault));
	for (; at < end && left; at += sizeof(at))
		if (inside(*(unsigned long *)at)) {
			pr_emerg("lab_object: at %lx\n", *(unsigned long *)at - 1);
			left--;
		}
	return NOTIFY_DONE;
}

/* Before UML's own notifier, which ends the process. */
static struct notifier_block at_panic = { .notifier_call = say_places, .priority = INT_MAX };

static int __init register_at_panic(void)
{
	return atomic_notifier_chain_register(&panic_notifier_list, &at_panic);
}

late_initcall(register_at_panic);
