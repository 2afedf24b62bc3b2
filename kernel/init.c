/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lab-init: process 1 of a lab.
 *
 *     rootflags=PROGRAMS init=/lab-init -- BOOT_FOLDER
 *
 * Mounts the host's root, read-only, what a user program expects over it, and the folders that the lab
 * may write to. Then it seals hostfs, so that no program can mount more of the host or make more of it
 * writable, runs the program that BOOT_FOLDER/boot names (boot_file.h), waits for it, says BYE through
 * the lab channel and powers the lab off.
 *
 * All that it and the program print goes to the host through /dev/lab, line by line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_file.h"
#include "drivers/lab.h"

#define STATUS_CANNOT_START 125

static int fail(const char *what, const char *which)
{
	fprintf(stderr, "lab-init: %s %s: %s\n", what, which, strerror(errno));
	return -1;
}

static int mount_one(const char *type, const char *where, unsigned long flags, const char *options)
{
	if (mount(type, where, type, flags, options))
		return fail("mount", where);
	return 0;
}

static int make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		return fail("mkdir", path);
	return 0;
}

static int open_lab(void)
{
	int null = open("/dev/null", O_RDWR);
	int fd = open("/dev/lab", O_RDWR);

	if (fd < 0 || null < 0)
		return fail("open", "/dev/lab");
	/* No descriptor of the three may be free: a program would take it for something else. */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
	    dup2(fd, STDERR_FILENO) < 0)
		return fail("redirect output to", "/dev/lab");
	return fd;
}

/* The host's root lies over the one from which this program came. */
static int enter_root(void)
{
	if (mount("hostfs", "/", "hostfs", MS_RDONLY, "/") || chdir("/..") || chroot("."))
		return fail("enter", "the host's root");
	return 0;
}

static int mount_usual(void)
{
	static const char *const dirs[] = { "/dev/pts",       "/dev/shm",        "/run/netns",
					    "/run/tmp-upper", "/run/tmp-work",   "/run/etc-upper",
					    "/run/etc-work",  "/run/openvswitch" };
	size_t i;

	if (mount_one("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755"))
		return -1;
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (make_dir(dirs[i]))
			return -1;
	if (mount_one("proc", "/proc", 0, NULL) || mount_one("sysfs", "/sys", 0, NULL) ||
	    mount_one("devpts", "/dev/pts", 0, "mode=620,ptmxmode=666") ||
	    mount_one("tmpfs", "/dev/shm", 0, "mode=1777"))
		return -1;
	/* The host's files in /tmp stay visible; what is written there stays in the lab's memory. */
	if (mount_one("overlay", "/tmp", 0, "lowerdir=/tmp,upperdir=/run/tmp-upper,workdir=/run/tmp-work"))
		return -1;
	/* So do those in /etc, where a network has names of its own. */
	return mount_one("overlay", "/etc", 0, "lowerdir=/etc,upperdir=/run/etc-upper,workdir=/run/etc-work");
}

/* Makes the folders on the way to `path` and itself, where a cover lies over the host's. */
static int make_way(char *path)
{
	char *end;

	for (end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
		*end = '\0';
		if (mkdir(path, 0755) && errno != EEXIST && errno != EROFS)
			return fail("mkdir", path);
		*end = '/';
	}
	return mkdir(path, 0755) && errno != EEXIST && errno != EROFS ? fail("mkdir", path) : 0;
}

static int mount_folder(const struct boot_mount *mount)
{
	unsigned long flags = mount->kind == BOOT_WRITE ? 0 : MS_RDONLY;
	char source[64];

	if (mount->kind == BOOT_COVER)
		return mount_one("tmpfs", mount->path, MS_NOSUID | MS_NODEV, "mode=755");
	/* the host's /proc, and the lab's process there */
	snprintf(source, sizeof(source), "/proc/self/fd/%d/.", mount->fd);
	return make_way(mount->path) || mount_one("hostfs", mount->path, flags, source) ? -1 : 0;
}

static int mount_folders(const struct boot_file *boot)
{
	size_t i;

	for (i = 0; i < boot->mount_count; i++)
		if (mount_folder(&boot->mounts[i]))
			return -1;
	return 0;
}

static int write_sysctl(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	ssize_t written;

	if (fd < 0)
		return fail("open", path);
	written = write(fd, value, strlen(value));
	close(fd);
	return written < 0 ? fail("write", path) : 0;
}

/*
 * A lab that runs out of memory, descriptors or process numbers, or loses a process, must say so, not limp.
 * Not more descriptors than that: programs that close all that they might have (mnexec) pay for each.
 */
static int set_limits(void)
{
	const struct rlimit files = { .rlim_cur = 65536, .rlim_max = 65536 };

	if (setrlimit(RLIMIT_NOFILE, &files))
		return fail("raise the limit of", "open files");
	/* Shows messages without a level, too: one of them says that a process was killed from outside. */
	if (write_sysctl("/proc/sys/kernel/printk", "3 2") ||
	    write_sysctl("/proc/sys/kernel/pid_max", "1048576") ||
	    write_sysctl("/proc/sys/vm/panic_on_oom", "1") ||
	    write_sysctl("/proc/sys/net/core/netdev_max_backlog", "1000000"))
		return -1;
	return 0;
}

/* The whole file, followed by a zero byte; NULL with errno set. */
static char *read_file(const char *path, size_t *length)
{
	char *text = NULL;
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && (text = calloc(1, (size_t)st.st_size + 1)) &&
	    read(fd, text, (size_t)st.st_size) != st.st_size) {
		free(text);
		text = NULL;
	}
	*length = text ? (size_t)st.st_size : 0;
	close(fd);
	return text;
}

static int read_boot(struct boot_file *boot, const char *boot_folder)
{
	const char *refused;
	size_t length;
	char *text;

	if (mount_one("hostfs", "/run", MS_RDONLY, boot_folder))
		return -1;
	text = read_file("/run/boot", &length);
	if (!text)
		return fail("read", "the boot file");
	if (umount("/run"))
		return fail("unmount", "/run");
	refused = boot_file_parse(boot, text, length);
	errno = EINVAL; /* of both failures */
	if (refused)
		return fail("understand in the boot file the entry", refused);
	return boot->arg_count ? 0 : fail("find a program in", "the boot file");
}

static int run(const struct boot_file *boot)
{
	int status;
	pid_t pid = fork(), ended;

	if (pid < 0)
		return fail("fork", boot->args[0]);
	if (pid == 0) {
		setsid();
		execve(boot->args[0], boot->args, boot->env);
		fail("run", boot->args[0]);
		_exit(STATUS_CANNOT_START);
	}
	do {
		ended = wait(&status); /* orphans too: this is process 1 */
	} while (ended != pid && (ended > 0 || errno == EINTR));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int boot_and_run(const char *boot_folder)
{
	struct boot_file boot = { 0 };

	if (read_boot(&boot, boot_folder) || mount_usual() || mount_folders(&boot) ||
	    write_sysctl("/sys/module/hostfs/parameters/sealed", "1") || set_limits())
		return STATUS_CANNOT_START;
	return run(&boot);
}

int main(int argc, char **argv)
{
	int status = STATUS_CANNOT_START, lab;

	if (enter_root() || mount_one("devtmpfs", "/dev", 0, "mode=755"))
		return STATUS_CANNOT_START;
	lab = open_lab();
	if (lab < 0)
		return STATUS_CANNOT_START;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2)
		status = boot_and_run(argv[1]);
	else
		fprintf(stderr, "lab-init: no boot folder after -- on the kernel's command line\n");
	sync();
	if (ioctl(lab, LAB_IOC_BYE, &status))
		fail("say BYE on", "/dev/lab");
	reboot(RB_POWER_OFF);
	return status;
}
