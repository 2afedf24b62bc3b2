// SPDX-License-Identifier: Apache-2.0
/* The library calls that can fail (failing_calls.c). A call that shall not fail is the library's own. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing_calls.h"

#define NEXT(name)                                                                                           \
	static __typeof__(&name) next;                                                                       \
	if (!next)                                                                                           \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

#define FAIL_AS(kind, value)                                                                                 \
	do {                                                                                                 \
		int error_ = failure(kind);                                                                  \
		if (error_) {                                                                                \
			errno = error_;                                                                      \
			return value;                                                                        \
		}                                                                                            \
	} while (0)

/* Wraps a call that fails with `value` if the condition holds. */
#define CALL_IF(condition, kind, result, value, name, parameters, arguments)                                 \
	result name parameters                                                                               \
	{                                                                                                    \
		NEXT(name);                                                                                  \
		if (condition)                                                                               \
			FAIL_AS(kind, value);                                                                \
		return next arguments;                                                                       \
	}
#define CALL(kind, name, parameters, arguments) CALL_IF(true, kind, int, -1, name, parameters, arguments)

static bool is_file(int fd)
{
	struct stat found;

	return !syscall(SYS_fstat, fd, &found) && S_ISREG(found.st_mode);
}

/* A disk can be full for files and for a redirected standard output, not for pipes and sockets. */
static bool on_disk(int fd)
{
	return fd != STDERR_FILENO && (fd == STDOUT_FILENO || is_file(fd));
}

#define WRITES(result, name, fd, parameters, arguments)                                                      \
	CALL_IF(on_disk(fd), WRITE, result, -1, name, parameters, arguments)
WRITES(ssize_t, write, fd, (int fd, const void *data, size_t size), (fd, data, size))
WRITES(ssize_t, writev, fd, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
WRITES(ssize_t, pwrite64, fd, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITES(ssize_t, pwrite, fd, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITES(ssize_t, sendfile64, to, (int to, int from, off64_t *at, size_t size), (to, from, at, size))
WRITES(ssize_t, copy_file_range, to,
       (int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned int flags),
       (from, from_at, to, to_at, size, flags))
WRITES(int, ftruncate64, fd, (int fd, off64_t size), (fd, size))
WRITES(int, ftruncate, fd, (int fd, off_t size), (fd, size))
WRITES(int, fallocate64, fd, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))

int posix_fallocate64(int fd, off64_t at, off64_t size)
{
	int error = failure(WRITE);

	NEXT(posix_fallocate64);
	return error ? error : next(fd, at, size);
}

#define READS(name, fd, parameters, arguments)                                                               \
	CALL_IF(is_file(fd), READ, ssize_t, -1, name, parameters, arguments)
READS(read, fd, (int fd, void *data, size_t size), (fd, data, size))
READS(readv, fd, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
READS(pread64, fd, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
READS(pread, fd, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
CALL_IF(true, READ, struct dirent64 *, NULL, readdir64, (DIR * folder), (folder))

/* A file with a name, which this process may have written. */
static bool is_written(int fd)
{
	struct stat found;

	return fd > STDERR_FILENO && (syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY &&
	       !syscall(SYS_fstat, fd, &found) && S_ISREG(found.st_mode) && found.st_nlink;
}

/* A network's file system may write what it has kept back when the file is closed. The descriptor is gone
 * then. */
int close(int fd)
{
	int error = is_written(fd) ? failure(CLOSE) : 0;

	NEXT(close);
	if (!error)
		return next(fd);
	next(fd);
	errno = error;
	return -1;
}

CALL(SYNC, fsync, (int fd), (fd))
CALL(SYNC, fdatasync, (int fd), (fd))

CALL(RENAME, rename, (const char *from, const char *to), (from, to))
CALL(RENAME, renameat, (int in, const char *from, int to_in, const char *to), (in, from, to_in, to))
CALL(RENAME, link, (const char *from, const char *to), (from, to))
CALL(RENAME, linkat, (int in, const char *from, int to_in, const char *to, int flags),
     (in, from, to_in, to, flags))
CALL(RENAME, symlink, (const char *from, const char *to), (from, to))

CALL(REMOVE, unlink, (const char *path), (path))
CALL(REMOVE, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
CALL(REMOVE, rmdir, (const char *path), (path))

CALL(MKDIR, mkdir, (const char *path, mode_t mode), (path, mode))

CALL(MODE, chmod, (const char *path, mode_t mode), (path, mode))
CALL(MODE, fchmod, (int fd, mode_t mode), (fd, mode))
CALL(MODE, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags))
CALL(MODE, chown, (const char *path, uid_t user, gid_t group), (path, user, group))
CALL(MODE, lchown, (const char *path, uid_t user, gid_t group), (path, user, group))
CALL(MODE, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
CALL(MODE, fchownat, (int folder, const char *path, uid_t user, gid_t group, int flags),
     (folder, path, user, group, flags))

CALL(STATUS, stat64, (const char *path, struct stat64 *found), (path, found))
CALL(STATUS, lstat64, (const char *path, struct stat64 *found), (path, found))
CALL(STATUS, fstatat64, (int folder, const char *path, struct stat64 *found, int flags),
     (folder, path, found, flags))
CALL(STATUS, statvfs64, (const char *path, struct statvfs64 *found), (path, found))
CALL(STATUS, fstatvfs64, (int fd, struct statvfs64 *found), (fd, found))

CALL(LOCK, flock, (int fd, int operation), (fd, operation))

int fcntl64(int fd, int command, ...)
{
	void *argument;
	va_list rest;

	NEXT(fcntl64);
	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW)
		FAIL_AS(LOCK, -1);
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		FAIL_AS(DESCRIPTOR, -1);
	return next(fd, command, argument);
}

CALL(DESCRIPTOR, dup, (int fd), (fd))
CALL(DESCRIPTOR, pipe, (int ends[2]), (ends))
CALL(DESCRIPTOR, pipe2, (int ends[2], int flags), (ends, flags))
CALL(DESCRIPTOR, socket, (int family, int type, int protocol), (family, type, protocol))
CALL(DESCRIPTOR, socketpair, (int family, int type, int protocol, int ends[2]),
     (family, type, protocol, ends))
CALL(DESCRIPTOR, accept4, (int fd, struct sockaddr *restrict name, socklen_t *restrict size, int flags),
     (fd, name, size, flags))
CALL(DESCRIPTOR, memfd_create, (const char *name, unsigned int flags), (name, flags))
CALL(DESCRIPTOR, eventfd, (unsigned int value, int flags), (value, flags))
CALL(DESCRIPTOR, epoll_create1, (int flags), (flags))

#define SENDS(name, parameters, arguments) CALL_IF(true, MESSAGE, ssize_t, -1, name, parameters, arguments)
SENDS(send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
SENDS(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SENDS(recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
SENDS(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))

CALL(WAIT, poll, (struct pollfd * fds, nfds_t count, int limit_ms), (fds, count, limit_ms))
CALL(WAIT, epoll_wait, (int fd, struct epoll_event *events, int most, int limit_ms),
     (fd, events, most, limit_ms))
CALL(WAIT, select,
     (int count, fd_set *restrict to_read, fd_set *restrict to_write, fd_set *restrict failed,
      struct timeval *restrict limit),
     (count, to_read, to_write, failed, limit))
CALL(WAIT, waitpid, (pid_t process, int *status, int options), (process, status, options))
CALL(WAIT, waitid, (idtype_t type, id_t which, siginfo_t *found, int options), (type, which, found, options))

/* The mode is there only if the flags ask for a new file. */
#define MODE_OF(flags, mode)                                                                                 \
	do {                                                                                                 \
		va_list rest_;                                                                               \
		va_start(rest_, flags);                                                                      \
		mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(rest_, mode_t) : 0;                          \
		va_end(rest_);                                                                               \
	} while (0)

int open64(const char *path, int flags, ...)
{
	mode_t mode;

	NEXT(open64);
	MODE_OF(flags, mode);
	FAIL_AS(flags & O_CREAT ? CREATE : OPEN, -1);
	return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	mode_t mode;

	MODE_OF(flags, mode);
	return open64(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
	mode_t mode;

	NEXT(openat64);
	MODE_OF(flags, mode);
	FAIL_AS(flags & O_CREAT ? CREATE : OPEN, -1);
	return next(folder, path, flags, mode);
}

CALL_IF(true, OPEN, DIR *, NULL, opendir, (const char *path), (path))
CALL_IF(true, OPEN, DIR *, NULL, fdopendir, (int fd), (fd))

int openat(int folder, const char *path, int flags, ...)
{
	mode_t mode;

	MODE_OF(flags, mode);
	return openat64(folder, path, flags, mode);
}

static _Thread_local int refused; /* errno of a vfork() that failed: a caller may try fork() at once */

pid_t fork(void)
{
	int error = refused;

	NEXT(fork);
	refused = 0;
	if (!error)
		error = failure(PROCESS);
	if (!error)
		return next();
	errno = error;
	return -1;
}

/* A wrapper cannot return into a caller twice on one stack, so the child gets a copy. */
pid_t vfork(void)
{
	pid_t child = fork();

	refused = child < 0 ? errno : 0;
	return child;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
	int error = failure(PROCESS);

	NEXT(posix_spawn);
	return error ? error : next(pid, path, actions, attributes, argv, env);
}

CALL(EXEC, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env))
CALL(EXEC, execv, (const char *path, char *const argv[]), (path, argv))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
		   void *argument)
{
	int error = failure(PROCESS);

	NEXT(pthread_create);
	return error ? error : next(thread, attributes, function, argument);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
	NEXT(mmap64);
	if (!(flags & MAP_ANONYMOUS)) /* an interpreter does not survive the want of memory, and is in the
					 middle of its work here */
		FAIL_AS(MAP, MAP_FAILED);
	return next(at, size, protection, flags, fd, offset);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap64(at, size, protection, flags, fd, offset);
}
