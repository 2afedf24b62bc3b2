/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm-init: process 1 of the VM that `dcgym vm` boots; the initramfs holds it as /init.
 *
 * It loads the modules that /modules lists, in that order, and mounts the host's root (9p tag "root",
 * read-only, with an overlay in memory over it, so that all of it can be written and nothing stays) and one
 * folder of the host (9p tag "share") writable in its own place. Then it runs the command of /command as
 * root, its output on two virtio ports, waits for it, says its status on a third and powers the VM off.
 * /command has these entries, each ended by a zero byte:
 *
 *     share PATH      cwd PATH      env NAME=VALUE      arg WORD
 *
 * The third port says "ready\n" when the command starts and "exit N\n" at its end, and takes "I" for a
 * Ctrl-C.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS           256
#define STATUS_CANNOT_START 125
#define PORT_TRIES          1000
#define CONTROL_PORT        "/dev/vport0p1"
#define OUTPUT_PORT         "/dev/vport0p2"
#define ERROR_PORT          "/dev/vport0p3"
#define ROOT_9P             "trans=virtio,version=9p2000.L,msize=512000,cache=loose"
#define SHARE_9P            "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"

struct command {
	char *text;
	const char *share, *cwd;
	char *args[MAX_WORDS + 1];
	char *env[MAX_WORDS + 1];
};

static int fail(const char *what, const char *which)
{
	fprintf(stderr, "vm-init: %s %s: %s\n", what, which, strerror(errno));
	return -1;
}

/* ---- files ---- */

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

static int make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		return fail("mkdir", path);
	return 0;
}

static int mount_one(const char *source, const char *type, const char *where, unsigned long flags,
		     const char *options)
{
	if (make_dir(where))
		return -1;
	if (mount(source, where, type, flags, options))
		return fail("mount", where);
	return 0;
}

/* ---- modules ---- */

static int load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long rc;

	if (fd < 0)
		return fail("open", path);
	rc = syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	if (rc && errno != EEXIST)
		return fail("load", path);
	return 0;
}

static int load_modules(void)
{
	size_t length;
	char *list = read_file("/modules", &length), *line, *rest = list;
	int rc = 0;

	if (!list)
		return fail("read", "/modules");
	while (!rc && (line = strsep(&rest, "\n")))
		if (*line)
			rc = load_module(line);
	free(list);
	return rc;
}

/* ---- the command ---- */

static int take_entry(struct command *c, char *entry, size_t *args, size_t *env)
{
	if (strncmp(entry, "env ", 4) == 0 && *env < MAX_WORDS)
		c->env[(*env)++] = entry + 4;
	else if (strncmp(entry, "arg ", 4) == 0 && *args < MAX_WORDS)
		c->args[(*args)++] = entry + 4;
	else if (strncmp(entry, "share ", 6) == 0)
		c->share = entry + 6;
	else if (strncmp(entry, "cwd ", 4) == 0)
		c->cwd = entry + 4;
	else {
		errno = EINVAL;
		return fail("understand in /command the entry", entry);
	}
	return 0;
}

static int read_command(struct command *c)
{
	size_t args = 0, env = 0, length;
	char *entry;

	c->text = read_file("/command", &length);
	if (!c->text)
		return fail("read", "/command");
	for (entry = c->text; entry < c->text + length; entry += strlen(entry) + 1)
		if (take_entry(c, entry, &args, &env))
			return -1;
	if (args == 0 || !c->share || !c->cwd) {
		errno = EINVAL;
		return fail("find arg, share and cwd in", "/command");
	}
	return 0;
}

/* ---- mounts ---- */

/* Over the host's root lies an overlay in memory: the root itself is never written. */
static int enter_root(void)
{
	if (mount_one("root", "9p", "/lower", MS_RDONLY, ROOT_9P) ||
	    mount_one("tmpfs", "tmpfs", "/upper", 0, "mode=755") || make_dir("/upper/files") ||
	    make_dir("/upper/work") ||
	    mount_one("overlay", "overlay", "/new", 0,
		      "lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work"))
		return -1;
	if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
		return fail("enter", "/new");
	return chdir("/") ? fail("enter", "/") : 0;
}

static int mount_rest(const char *share)
{
	if (mount_one("proc", "proc", "/proc", 0, NULL) || mount_one("sysfs", "sysfs", "/sys", 0, NULL) ||
	    mount_one("devtmpfs", "devtmpfs", "/dev", 0, "mode=755") ||
	    mount_one("devpts", "devpts", "/dev/pts", 0, "mode=620,ptmxmode=666") ||
	    mount_one("tmpfs", "tmpfs", "/dev/shm", 0, "mode=1777") ||
	    mount_one("tmpfs", "tmpfs", "/run", 0, "mode=755"))
		return -1;
	return mount_one("share", "9p", share, 0, SHARE_9P);
}

/* ---- running ---- */

/* A port appears some time after its driver. */
static int open_port(const char *path, int to)
{
	int fd, tries = 0;

	while ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 && errno == ENOENT && tries++ < PORT_TRIES)
		usleep(10000);
	if (fd < 0)
		return fail("open", path);
	if (to < 0)
		return fd;
	return dup2(fd, to) < 0 ? fail("redirect to", path) : 0;
}

static int start(const struct command *c, const sigset_t *signals)
{
	pid_t pid = fork();

	if (pid)
		return pid < 0 ? fail("fork", c->args[0]) : pid;
	sigprocmask(SIG_UNBLOCK, signals, NULL);
	setsid();
	if (open_port("/dev/null", STDIN_FILENO) || open_port(OUTPUT_PORT, STDOUT_FILENO) ||
	    open_port(ERROR_PORT, STDERR_FILENO) || chdir(c->cwd))
		fail("prepare in", c->cwd);
	else {
		execve(c->args[0], c->args, c->env);
		fail("run", c->args[0]);
	}
	_exit(STATUS_CANNOT_START);
}

static int status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reaps everything (this is process 1); the status of `pid`, or -1 while it runs. */
static int reap(pid_t pid)
{
	int status, found = -1;
	pid_t ended;

	while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
		if (ended == pid)
			found = status_of(status);
	return found;
}

static int wait_for(pid_t pid, int control, int children)
{
	struct pollfd fds[] = { { .fd = control, .events = POLLIN }, { .fd = children, .events = POLLIN } };
	struct signalfd_siginfo info;
	int status;
	char word;

	while ((status = reap(pid)) < 0) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if ((fds[0].revents & POLLIN) && read(control, &word, 1) == 1 && word == 'I')
			kill(-pid, SIGINT);
		if (fds[0].revents & POLLHUP)
			fds[0].fd = -1; /* nobody listens any more */
		if ((fds[1].revents & POLLIN) && read(children, &info, sizeof(info)) < 0)
			continue;
	}
	return status;
}

static int run(const struct command *c, int control)
{
	sigset_t signals;
	int children, pid;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	children = signalfd(-1, &signals, SFD_CLOEXEC);
	if (children < 0)
		return fail("open", "a signalfd");
	pid = start(c, &signals);
	if (pid < 0)
		return -1;
	if (write(control, "ready\n", 6) != 6)
		return fail("write to", CONTROL_PORT);
	return wait_for(pid, control, children);
}

static int prepare(struct command *c)
{
	if (mount_one("devtmpfs", "devtmpfs", "/dev", 0, "mode=755"))
		return -1;
	if (read_command(c) || load_modules() || enter_root() || mount_rest(c->share))
		return -1;
	return sethostname("dcgym-vm", 8) ? fail("set", "the host's name") : 0;
}

int main(void)
{
	struct command command = { 0 };
	int control, status;
	char text[32];

	if (prepare(&command) == 0 && (control = open_port(CONTROL_PORT, -1)) >= 0) {
		status = run(&command, control);
		if (status < 0)
			status = STATUS_CANNOT_START;
		sync();
		if (write(control, text, (size_t)snprintf(text, sizeof(text), "exit %d\n", status)) < 0)
			fail("write to", CONTROL_PORT);
	}
	sync();
	reboot(RB_POWER_OFF);
	return STATUS_CANNOT_START;
}
