// SPDX-License-Identifier: Apache-2.0
/*
 * failing_calls: makes one library call of a Python process fail, as a full disk or a spent limit does
 * (LD_PRELOAD). This file decides which one; wrapped_calls.c has the calls.
 *
 * A call site is the kind of the call and the stack of the product's own Python functions and lines above it;
 * an import is one site, whatever the module does. Calls count from the moment when a thread is in main() of
 * dc_gym/cli/main.py. Children of fork() do not count, but for their exec.
 *
 *   DCGYM_CALLS_STATE=FILE  struct calls, shared by all processes
 *   DCGYM_CALLS_OWN=FOLDER  the product's own Python files are below it
 *   DCGYM_CALLS_LOG=FILE    append a line for each call: KIND SITE STACK
 *   DCGYM_CALLS_FAIL=RULE   fail once: "SITE ERRNO", the first call at that site (16 hex digits), or "KIND#N
 * ERRNO", the N-th call of that kind (from 1, in all processes together)
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "failing_calls.h"

static const char *const kind_names[KINDS] = {
	[WRITE] = "write",     [READ] = "read",     [CLOSE] = "close",
	[SYNC] = "sync",       [RENAME] = "rename", [REMOVE] = "remove",
	[MKDIR] = "mkdir",     [MODE] = "mode",     [LOCK] = "lock",
	[OPEN] = "open",       [CREATE] = "create", [STATUS] = "status",
	[PROCESS] = "process", [EXEC] = "exec",     [MAP] = "map",
	[MESSAGE] = "message", [WAIT] = "wait",     [DESCRIPTOR] = "descriptor",
};

/* The file DCGYM_CALLS_STATE. failing.py reads it. */
struct calls {
	_Atomic uint32_t counts[KINDS];
	_Atomic uint32_t failed; /* 1: a call has failed, and `told` says which */
	char told[2000];
};

static struct {
	struct calls *calls;
	const char *own, *log;
	enum kind kind; /* of the call that fails by its number; KINDS: it fails by its site */
	uint64_t which; /* number or site */
	int error;      /* 0: no call fails */
	atomic_bool armed;
	pid_t owner;
} state;

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
	bool in_main, in_import;
	size_t length;
	char words[1500];
};

#define FIND(place, name) (*(void **)&(place) = dlsym(RTLD_DEFAULT, name))

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
	const char *rule = getenv("DCGYM_CALLS_FAIL");
	int fd;
	void *found;

	state.own = getenv("DCGYM_CALLS_OWN");
	state.log = getenv("DCGYM_CALLS_LOG");
	if (!path || !state.own)
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

static bool is_own(const char *file)
{
	return !strncmp(file, state.own, strlen(state.own));
}

/* What an import or another library does inside is not told apart. A function that calls itself is one frame.
 */
static void add_line(struct stack *stack, const char *file, const char *function, int line, uint64_t *last)
{
	uint64_t own =
		hashed(hashed((uint64_t)line * 31, is_own(file) ? file + strlen(state.own) : file), function);

	if (strstr(file, "importlib")) {
		stack->site = hashed(0xcbf29ce484222325u, "import");
		stack->length = (size_t)snprintf(stack->words, sizeof(stack->words), " import");
		stack->in_import = true;
	} else if (own != *last) {
		if (is_own(file))
			stack->site = hashed(stack->site ^ own, function);
		add_words(stack, file, function, line);
	}
	*last = own;
	if (is_own(file) && !strcmp(file + strlen(state.own), "/cli/main.py") && !strcmp(function, "main"))
		stack->in_main = true;
}

static void add_frame(struct stack *stack, void *frame, uint64_t *last)
{
	void *code = py.code(frame);
	void *file = py.get(code, "co_filename"), *function = py.get(code, "co_name");
	const char *file_text = file ? py.text(file) : NULL, *name = function ? py.text(function) : NULL;

	if (file_text && name)
		add_line(stack, file_text, name, py.line(frame), last);
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

/* The file is opened each time: a child of fork() closes what it has inherited before its exec. */
static void log_call(const struct stack *stack, enum kind kind)
{
	char line[1700];
	int length = snprintf(line, sizeof(line), "%s %016llx%s\n", kind_names[kind],
			      (unsigned long long)stack->site, stack->words);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, state.log, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	syscall(SYS_write, fd, line, (size_t)length);
	syscall(SYS_close, fd);
}

int failure(enum kind kind)
{
	pid_t process = kind == EXEC ? getppid() : getpid();
	struct stack stack;
	uint32_t number, none = 0;
	bool hit;
	int saved = errno;

	if (!state.calls || state.owner != process || inside)
		return 0;
	inside = true;
	read_stack(&stack, kind);
	inside = false;
	errno = saved;
	if (stack.in_main)
		atomic_store(&state.armed, true);
	if (!atomic_load(&state.armed))
		return 0;
	if (kind == STATUS && stack.in_import) /* Python takes the file for one that is not there */
		return 0;
	number = atomic_fetch_add(&state.calls->counts[kind], 1) + 1;
	if (state.log)
		log_call(&stack, kind);
	errno = saved;
	hit = state.kind == KINDS ? stack.site == state.which : kind == state.kind && number == state.which;
	if (!state.error || !hit || !atomic_compare_exchange_strong(&state.calls->failed, &none, 1))
		return 0;
	snprintf(state.calls->told, sizeof(state.calls->told), "%s %016llx%s", kind_names[kind],
		 (unsigned long long)stack.site, stack.words);
	return state.error;
}
