// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab channel: what a lab and the process that started it say to each other.
 *
 * lab_channel=FD names an inherited SOCK_SEQPACKET socket. The driver shares one page (clock and
 * running task) and one region of memory with the host, carries log lines, and offers one call that
 * stops the whole lab, virtual time included, until the host answers. Messages: <linux/lab.h>.
 *
 * There is no interrupt for the socket: the host speaks only when it is asked, so nothing that the
 * host does at a time of its own can change a run. The lab learns of its parent's death by signal.
 */
#include "lab_calls.h"

#include <lab_page.h>
#include <linux/console.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/lab.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/panic_notifier.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <mem.h>
#include <os.h>

#define REGION_ORDER 10 /* 4 MiB, the largest block that the page allocator hands out */

static int channel_fd = -1;
static u64 lab_seed; /* of boot, then of the next t0 */
static void *region;
static u64 t0_ns;
static struct hrtimer t0_timer;

static int __init lab_channel_setup(char *arg)
{
	return kstrtoint(arg, 10, &channel_fd) == 0;
}
__setup("lab_channel=", lab_channel_setup);

/* os_getrandom() reads the same parameter, long before this code runs. */
static int __init lab_seed_setup(char *arg)
{
	return kstrtou64(arg, 10, &lab_seed) == 0;
}
__setup("lab_seed=", lab_seed_setup);

/* The clock, free of charge: a process pays for a read only where interrupts may come. */
static u64 lab_now(void)
{
	u64 now;

	local_bh_disable();
	now = ktime_get_ns();
	local_bh_enable();
	return now;
}

/* Sends one message; returns 0 or a negative errno. */
static int lab_send(u32 type, const void *payload, u32 length)
{
	u8 buf[sizeof(struct lab_msg) + 512];
	struct lab_msg msg = { .type = type, .length = length };
	int ret;

	if (channel_fd < 0)
		return -ENOTCONN;
	if (WARN_ON_ONCE(length > sizeof(buf) - sizeof(msg)))
		return -EMSGSIZE;
	memcpy(buf, &msg, sizeof(msg));
	memcpy(buf + sizeof(msg), payload, length);
	do {
		ret = os_write_file(channel_fd, buf, sizeof(msg) + length);
	} while (ret == -EINTR);
	return ret < 0 ? ret : 0;
}

static int lab_send_text(u32 type, const char *text, size_t length)
{
	int err = 0;

	while (length && !err) {
		u32 part = min_t(size_t, length, 480);

		err = lab_send(type, text, part);
		text += part;
		length -= part;
	}
	return err;
}

static void lab_key(u64 label, u8 key[32])
{
	u64 state = lab_seed ^ label, word;
	int i;

	/* splitmix64 (Steele, Lea, Flood 2014): the key need not be secret, only a function of the seed */
	for (i = 0; i < 4; i++) {
		state += 0x9e3779b97f4a7c15ull;
		word = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
		word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
		word ^= word >> 31;
		memcpy(key + 8 * i, &word, 8);
	}
}

static enum hrtimer_restart lab_t0(struct hrtimer *timer)
{
	struct lab_seed seed = { .seed = lab_seed, .virtual_ns = ktime_get_ns() };
	u8 key[32];

	lab_key(0x7430ull, key); /* "t0" */
	lab_random_fix(key);
	lab_send(LAB_MSG_SEED, &seed, sizeof(seed));
	return HRTIMER_NORESTART;
}

static int lab_at_t0(u64 when)
{
	if (when <= lab_now())
		return -ETIME;
	t0_ns = when;
	hrtimer_start(&t0_timer, ns_to_ktime(t0_ns), HRTIMER_MODE_ABS_HARD);
	return 0;
}

/* Stops the lab until the host has answered. Nothing in the lab can run meanwhile, and no virtual time
 * passes. */
static int lab_step(u64 number)
{
	struct lab_step step = { .step = number, .virtual_ns = lab_now() };
	struct {
		struct lab_msg msg;
		struct lab_step_reply reply;
	} answer;
	int ret = lab_send(LAB_MSG_STEP, &step, sizeof(step));

	if (ret)
		return ret;
	do {
		ret = os_read_file(channel_fd, &answer, sizeof(answer));
	} while (ret == -EINTR || ret == -EAGAIN);
	if (ret <= 0) {
		panic("lab: the host closed the channel during a step");
	}
	if (ret != sizeof(answer) || answer.msg.type != LAB_MSG_STEP ||
	    answer.msg.length != sizeof(answer.reply) || answer.reply.step != number)
		return -EPROTO;
	return answer.reply.code;
}

static int lab_bye(s32 status)
{
	struct lab_bye bye = { .status = status, .virtual_ns = lab_now() };

	return lab_send(LAB_MSG_BYE, &bye, sizeof(bye));
}

static long lab_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	u64 value;
	s32 status;
	long result;

	switch (cmd) {
	case LAB_IOC_STEP:
	case LAB_IOC_AT_T0:
		if (copy_from_user(&value, (void __user *)arg, sizeof(value)))
			return -EFAULT;
		return cmd == LAB_IOC_STEP ? lab_step(value) : lab_at_t0(value);
	case LAB_IOC_SEED:
		if (copy_from_user(&value, (void __user *)arg, sizeof(value)))
			return -EFAULT;
		lab_seed = value;
		return 0;
	case LAB_IOC_BYE:
		if (copy_from_user(&status, (void __user *)arg, sizeof(status)))
			return -EFAULT;
		return lab_bye(status);
	case LAB_IOC_LENGTH:
		value = PAGE_SIZE << REGION_ORDER;
		return copy_to_user((void __user *)arg, &value, sizeof(value)) ? -EFAULT : 0;
	case LAB_IOC_CALLS:
		get_file(file); /* a call may close its descriptor */
		result = lab_calls((struct lab_calls __user *)arg);
		fput(file);
		return result;
	default:
		return -ENOTTY;
	}
}

static ssize_t lab_write(struct file *file, const char __user *data, size_t length, loff_t *pos)
{
	char buf[480];
	size_t part = min(length, sizeof(buf));
	int err;

	if (copy_from_user(buf, data, part))
		return -EFAULT;
	err = lab_send(LAB_MSG_LOG, buf, part);
	return err ? err : part;
}

static int lab_mmap(struct file *file, struct vm_area_struct *vma)
{
	return vm_iomap_memory(vma, __pa(region), PAGE_SIZE << REGION_ORDER);
}

static const struct file_operations lab_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = lab_ioctl,
	.write = lab_write,
	.mmap = lab_mmap,
};

static struct miscdevice lab_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lab",
	.mode = 0666,
	.fops = &lab_fops,
};

static void lab_console_write(struct console *console, const char *text, unsigned int length)
{
	lab_send_text(LAB_MSG_LOG, text, length);
}

static struct console lab_console = {
	.name = "lab",
	.write = lab_console_write,
	.flags = CON_PRINTBUFFER | CON_ANYTIME,
	.index = -1,
};

static int lab_panic(struct notifier_block *self, unsigned long event, void *message)
{
	lab_send(LAB_MSG_DEATH, message, strnlen(message, 480));
	return NOTIFY_DONE;
}

/* First in line: UML's own notifier ends the process. */
static struct notifier_block lab_panic_block = { .notifier_call = lab_panic, .priority = INT_MAX };

static int __init lab_hello(void)
{
	struct {
		struct lab_msg msg;
		struct lab_hello hello;
	} out = {
		.msg = { .type = LAB_MSG_HELLO, .length = sizeof(out.hello) },
		.hello = {
			.version = LAB_PROTOCOL_VERSION,
			.page_size = PAGE_SIZE,
			.region_length = PAGE_SIZE << REGION_ORDER,
		},
	};
	unsigned long long offset;
	int fd = phys_mapping(__pa(lab_page), &offset);

	out.hello.page_offset = offset;
	phys_mapping(__pa(region), &offset);
	out.hello.region_offset = offset;
	fd = os_sendmsg_fds(channel_fd, &out, sizeof(out), &fd, 1);
	return fd < 0 ? fd : 0;
}

static int __init lab_channel_init(void)
{
	struct lab_page *page;
	u8 key[32];
	int err;

	if (channel_fd < 0)
		return 0;
	region = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, REGION_ORDER);
	page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!region || !page)
		return -ENOMEM;
	*page = *lab_page;
	lab_page = page;

	lab_key(0x626f6f74ull, key); /* "boot" */
	lab_random_fix(key);
	hrtimer_setup(&t0_timer, lab_t0, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	err = lab_hello();
	if (err) {
		pr_err("lab: hello on descriptor %d failed: %d\n", channel_fd, err);
		return err;
	}
	atomic_notifier_chain_register(&panic_notifier_list, &lab_panic_block);
	register_console(&lab_console);
	return misc_register(&lab_device);
}
device_initcall(lab_channel_init);
