// SPDX-License-Identifier: Apache-2.0
/*
 * failing_calls: makes one library call of a Python process fail, as a full disk or a spent limit does
 * (LD_PRELOAD).
 *
 * A call site is the kind of the call and the stack of Python functions and lines above it; an import is one
 * site, whatever the module does. Calls count from the moment when a thread is in main() of
 * dc_gym/cli/main.py. Children of fork() do not count.
 *
 *   DCGYM_CALLS_STATE=FILE  struct calls, shared by all processes
 *   DCGYM_CALLS_LOG=FILE    append a line for each call: KIND SITE STACK
 *   DCGYM_CALLS_FAIL=RULE   fail once: "SITE ERRNO", the first call at that site (16 hex digits), or "KIND#N
 * ERRNO", the N-th call of that kind (from 1, in all processes together)
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, SYNC, RENAME, MKDIR, OPEN, CREATE, PROCESS, MAP, KINDS };
static const char *const kind_names[KINDS] = { "write", "sync",   "rename",  "mkdir",
					       "open",  "create", "process", "map" };

/* The file DCGYM_CALLS_STATE. faults.py reads it. */
struct calls {
	_Atomic uint32_t counts[KINDS];
	_Atomic uint32_t failed; /* 1: a call has failed, and `told` says which */
	char told[2000];
};

static struct {
	struct calls *calls;
	int log;
	enum kind kind; /* of the call that fails by its number; KINDS: it fails by its site */
	uint64_t which; /* number or site */
	int error;      /* 0: no call fails */
	atomic_bool armed;
	pid_t owner;
} state = { .log = -1 };

static _Thread_local bool inside;

/* Python's API, looked up in the process: the types of the objects do not matter here. */
static struct {
	int (*initialized)(void);
	void *(*thread)(void);
	int (*take)(void);
	void (*give)(int taken);
	void *(*frame)(void);
	void *(*back)(void *frame);
	void *(*code)(void *frame);
	int (*line)(void *frame);
	void *(*get)(void *object, const char *name);
	const char *(*text)(void *object);
	void (*incref)(void *object);
	void (*decref)(void *object);
	void (*fetch)(void **type, void **value, void **traceback);
	void (*restore)(void *type, void *value, void *traceback);
} py;

/* The stack of a call: its hash, and its innermost functions of the product in words. */
struct stack {
	uint64_t site;
	bool in_main;
	size_t length;
	char words[1500];
};

#define FIND(place, name) (*(void **)&(place) = dlsym(RTLD_DEFAULT, name))
#define NEXT(name)                                                                                           \
	static __typeof__(&name) next;                                                                       \
	if (!next)                                                                                           \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

static void find_python(void)
{
	FIND(py.initialized, "Py_IsInitialized");
	FIND(py.thread, "PyGILState_GetThisThreadState");
	FIND(py.take, "PyGILState_Ensure");
	FIND(py.give, "PyGILState_Release");
	FIND(py.frame, "PyEval_GetFrame");
	FIND(py.back, "PyFrame_GetBack");
	FIND(py.code, "PyFrame_GetCode");
	FIND(py.line, "PyFrame_GetLineNumber");
	FIND(py.get, "PyObject_GetAttrString");
	FIND(py.text, "PyUnicode_AsUTF8");
	FIND(py.incref, "Py_IncRef");
	FIND(py.decref, "Py_DecRef");
	FIND(py.fetch, "PyErr_Fetch");
	FIND(py.restore, "PyErr_Restore");
}

static void read_rule(const char *rule)
{
	const char *number = strchr(rule, '#');
	char *end;

	for (state.kind = 0; state.kind < KINDS; state.kind++)
		if (number && !strncmp(rule, kind_names[state.kind], (size_t)(number - rule)))
			break;
	state.which = strtoull(number ? number + 1 : rule, &end, number ? 10 : 16);
	state.error = (int)strtol(end, NULL, 10);
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("DCGYM_CALLS_STATE");
	const char *log = getenv("DCGYM_CALLS_LOG");
	const char *rule = getenv("DCGYM_CALLS_FAIL");
	int fd;
	void *found;

	if (!path)
		return;
	find_python();
	if (!py.initialized || !py.thread || !py.take || !py.give || !py.frame || !py.back || !py.code ||
	    !py.line || !py.get || !py.text || !py.incref || !py.decref || !py.fetch || !py.restore)
		return;
	if (rule)
		read_rule(rule);
	state.owner = getpid();
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	found = (void *)syscall(SYS_mmap, NULL, sizeof(struct calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				0);
	syscall(SYS_close, fd);
	if (found == MAP_FAILED)
		return;
	state.calls = found;
	if (log)
		state.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC);
}

static uint64_t hashed(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return hash;
}

static void add_words(struct stack *stack, const char *file, const char *function, int line)
{
	const char *name = strrchr(file, '/');
	size_t room = sizeof(stack->words) - stack->length;
	int length = snprintf(stack->words + stack->length, room, " %s:%d:%s", name ? name + 1 : file, line,
			      function);

	if (length > 0 && (size_t)length < room)
		stack->length += (size_t)length;
	else
		stack->words[stack->length] = 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && !strcmp(text + length - wanted, end);
}

/* Adds a frame to the stack. What an import does inside is not told apart. */
static void add_frame(struct stack *stack, void *frame, uint64_t *last)
{
	void *code = py.code(frame);
	void *file = py.get(code, "co_filename"), *function = py.get(code, "co_name");
	const char *file_text = file ? py.text(file) : NULL, *name = function ? py.text(function) : NULL;
	int line = py.line(frame);

	if (file_text && name) {
		if (strstr(file_text, "importlib")) {
			stack->site = hashed(0xcbf29ce484222325u, "import");
			stack->length = (size_t)snprintf(stack->words, sizeof(stack->words), " import");
			*last = 0;
		} else {
			uint64_t own = hashed(hashed((uint64_t)line * 31, file_text), name);

			if (own != *last) { /* a function that calls itself is one frame */
				stack->site = hashed(stack->site ^ own, name);
				add_words(stack, file_text, name, line);
			}
			*last = own;
		}
		if (ends_with(file_text, "dc_gym/cli/main.py") && !strcmp(name, "main"))
			stack->in_main = true;
	}
	if (file)
		py.decref(file);
	if (function)
		py.decref(function);
	py.decref(code);
}

/*
 * Reads the stack of this thread's Python functions. A thread without any has only its kind of call as a
 * site.
 */
static void read_stack(struct stack *stack, enum kind kind)
{
	void *frame, *type, *value, *traceback;
	uint64_t last = 0;
	int taken;

	*stack = (struct stack){ .site = hashed(0xcbf29ce484222325u, kind_names[kind]) };
	if (!py.initialized() || !py.thread())
		return;
	taken = py.take();
	py.fetch(&type, &value, &traceback);
	frame = py.frame();
	if (frame)
		py.incref(frame);
	while (frame) {
		void *above;

		add_frame(stack, frame, &last);
		above = stack->in_main ? NULL : py.back(frame);
		py.decref(frame);
		frame = above;
	}
	py.restore(type, value, traceback);
	py.give(taken);
	stack->site = hashed(stack->site, kind_names[kind]);
}

static void log_call(const struct stack *stack, enum kind kind)
{
	char line[1700];
	int length = snprintf(line, sizeof(line), "%s %016llx%s\n", kind_names[kind],
			      (unsigned long long)stack->site, stack->words);

	syscall(SYS_write, state.log, line, (size_t)length);
}

/* Returns the errno with which the call shall fail, or 0. */
static int failure(enum kind kind)
{
	struct stack stack;
	uint32_t number, none = 0;
	bool hit;
	int saved = errno;

	if (!state.calls || state.owner != getpid() || inside)
		return 0;
	inside = true;
	read_stack(&stack, kind);
	inside = false;
	errno = saved;
	if (stack.in_main)
		atomic_store(&state.armed, true);
	if (!atomic_load(&state.armed))
		return 0;
	number = atomic_fetch_add(&state.calls->counts[kind], 1) + 1;
	if (state.log >= 0)
		log_call(&stack, kind);
	errno = saved;
	hit = state.kind == KINDS ? stack.site == state.which : kind == state.kind && number == state.which;
	if (!state.error || !hit || !atomic_compare_exchange_strong(&state.calls->failed, &none, 1))
		return 0;
	snprintf(state.calls->told, sizeof(state.calls->told), "%s %016llx%s", kind_names[kind],
		 (unsigned long long)stack.site, stack.words);
	return state.error;
}

#define FAIL_AS(kind, value)                                                                                 \
	do {                                                                                                 \
		int error_ = failure(kind);                                                                  \
		if (error_) {                                                                                \
			errno = error_;                                                                      \
			return value;                                                                        \
		}                                                                                            \
	} while (0)

/* A disk can be full for files and for a redirected standard output, not for pipes and sockets. */
static bool on_disk(int fd)
{
	struct stat found;

	return fd != STDERR_FILENO &&
	       (fd == STDOUT_FILENO || (!syscall(SYS_fstat, fd, &found) && S_ISREG(found.st_mode)));
}

ssize_t write(int fd, const void *data, size_t size)
{
	NEXT(write);
	if (on_disk(fd))
		FAIL_AS(WRITE, -1);
	return next(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	NEXT(writev);
	if (on_disk(fd))
		FAIL_AS(WRITE, -1);
	return next(fd, pieces, count);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	NEXT(pwrite64);
	if (on_disk(fd))
		FAIL_AS(WRITE, -1);
	return next(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	return pwrite64(fd, data, size, at);
}

int fsync(int fd)
{
	NEXT(fsync);
	FAIL_AS(SYNC, -1);
	return next(fd);
}

int fdatasync(int fd)
{
	NEXT(fdatasync);
	FAIL_AS(SYNC, -1);
	return next(fd);
}

int rename(const char *from, const char *to)
{
	NEXT(rename);
	FAIL_AS(RENAME, -1);
	return next(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	NEXT(renameat);
	FAIL_AS(RENAME, -1);
	return next(from_folder, from, to_folder, to);
}

int mkdir(const char *path, mode_t mode)
{
	NEXT(mkdir);
	FAIL_AS(MKDIR, -1);
	return next(path, mode);
}

/* The mode is there only if the flags ask for a new file. */
#define MODE(flags, mode)                                                                                    \
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
	MODE(flags, mode);
	FAIL_AS(flags & O_CREAT ? CREATE : OPEN, -1);
	return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	mode_t mode;

	MODE(flags, mode);
	return open64(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
	mode_t mode;

	NEXT(openat64);
	MODE(flags, mode);
	FAIL_AS(flags & O_CREAT ? CREATE : OPEN, -1);
	return next(folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	mode_t mode;

	MODE(flags, mode);
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
