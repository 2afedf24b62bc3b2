// SPDX-License-Identifier: Apache-2.0
/*
 * System calls of a program in a lab, where the way into the lab's kernel matters: calls between page faults,
 * registers that a call must keep, threads, signals that interrupt or restart a call, tracers and vfork. It
 * prints "passed" and the virtual time that all of it took.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                   \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			printf("line %d: %s, errno %d\n", __LINE__, #condition, errno);                      \
			fflush(stdout);                                                                      \
			_exit(1);                                                                            \
		}                                                                                            \
	} while (0)

static int there[2], back[2]; /* pipes */
static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

static void wait_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void put(char byte)
{
	REQUIRE(write(there[1], &byte, 1) == 1);
}

static char take(void)
{
	char byte = 0;

	REQUIRE(read(there[0], &byte, 1) == 1);
	return byte;
}

static int status_of(pid_t child)
{
	int status;

	REQUIRE(waitpid(child, &status, 0) == child);
	return status;
}

/* ---- calls ---- */

static void call_between_faults(void)
{
	for (int i = 0; i < 200; i++) {
		char *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		REQUIRE(page != MAP_FAILED);
		page[i * 16] = (char)i;
		REQUIRE(write(there[1], page + i * 16, 1) == 1);
		REQUIRE(read(there[0], page + 40000, 1) == 1);
		REQUIRE(page[40000] == (char)i);
		REQUIRE(!munmap(page, 65536));
	}
}

/* Those that a call keeps, and one of the floating-point unit. */
static void keep_registers(void)
{
	double given = 3.25, kept;
	long result, same;
	char byte;

	put('x');
	__asm__ volatile("movq %[given], %%xmm9\n"
			 "mov $0x1111, %%r12\n"
			 "mov $0x2222, %%r13\n"
			 "mov $0x3333, %%r14\n"
			 "mov $0x4444, %%r15\n"
			 "xor %%eax, %%eax\n" /* read */
			 "syscall\n"
			 "lea -0x1111(%%r12), %[same]\n"
			 "sub $0x2222, %%r13\n"
			 "or %%r13, %[same]\n"
			 "sub $0x3333, %%r14\n"
			 "or %%r14, %[same]\n"
			 "sub $0x4444, %%r15\n"
			 "or %%r15, %[same]\n"
			 "movq %%xmm9, %[kept]\n"
			 : "=&a"(result), [same] "=&r"(same), [kept] "=&x"(kept)
			 : "D"(there[0]), "S"(&byte), "d"(1), [given] "x"(given)
			 : "rcx", "r11", "r12", "r13", "r14", "r15", "xmm9", "memory");
	REQUIRE(result == 1 && byte == 'x' && same == 0 && kept == given);
}

static void *echo(void *unused)
{
	char byte;

	(void)unused;
	while (read(there[0], &byte, 1) == 1 && byte != 'q') {
		byte++;
		REQUIRE(write(back[1], &byte, 1) == 1);
	}
	return NULL;
}

static void call_from_two_threads(void)
{
	pthread_t thread;
	char byte;

	REQUIRE(!pthread_create(&thread, NULL, echo, NULL));
	for (int i = 0; i < 300; i++) {
		put('a');
		REQUIRE(read(back[0], &byte, 1) == 1 && byte == 'b');
	}
	put('q');
	REQUIRE(!pthread_join(thread, NULL));
}

/* ---- signals ---- */

static void be_interrupted(void)
{
	const struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
	struct sigaction action = { .sa_handler = on_alarm };
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	timer_t timer;
	pid_t child;
	char byte;

	REQUIRE(!sigaction(SIGALRM, &action, NULL) && !timer_create(CLOCK_MONOTONIC, NULL, &timer));
	REQUIRE(!timer_settime(timer, 0, &soon, NULL));
	REQUIRE(read(there[0], &byte, 1) == -1 && errno == EINTR && alarms == 1);
	REQUIRE(!epoll_ctl(epoll, EPOLL_CTL_ADD, there[0], &event) && !timer_settime(timer, 0, &soon, NULL));
	REQUIRE(epoll_wait(epoll, &event, 1, 50) == -1 && errno == EINTR && alarms == 2);
	close(epoll);
	action.sa_flags = SA_RESTART;
	REQUIRE(!sigaction(SIGALRM, &action, NULL));
	child = fork();
	if (!child) {
		wait_ms(5);
		put('z');
		_exit(0);
	}
	REQUIRE(!timer_settime(timer, 0, &soon, NULL));
	REQUIRE(take() == 'z' && alarms == 3 && status_of(child) == 0);
}

static void die_in_a_call(void)
{
	pthread_t thread;
	pid_t child = fork();

	if (!child) {
		REQUIRE(!pthread_create(&thread, NULL, echo, NULL));
		wait_ms(1);
		_exit(7);
	}
	REQUIRE(WEXITSTATUS(status_of(child)) == 7);
	child = fork();
	if (!child)
		take();
	wait_ms(1);
	REQUIRE(!kill(child, SIGKILL) && WTERMSIG(status_of(child)) == SIGKILL);
}

/* ---- other processes ---- */

static void trace_a_call(void)
{
	struct user_regs_struct registers;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(take());
	}
	REQUIRE(WIFSTOPPED(status_of(child)));
	do {
		REQUIRE(!ptrace(PTRACE_SYSCALL, child, 0, 0) && WIFSTOPPED(status_of(child)));
		REQUIRE(!ptrace(PTRACE_GETREGS, child, 0, &registers));
	} while (registers.orig_rax != SYS_read);
	REQUIRE((int)registers.rdi == there[0] && registers.rdx == 1);
	put('k');
	REQUIRE(!ptrace(PTRACE_SYSCALL, child, 0, 0) && WIFSTOPPED(status_of(child)));
	REQUIRE(!ptrace(PTRACE_GETREGS, child, 0, &registers) && registers.rax == 1);
	REQUIRE(!ptrace(PTRACE_DETACH, child, 0, 0) && WEXITSTATUS(status_of(child)) == 'k');
}

static void lend_the_memory(void)
{
	pid_t child = vfork();

	if (!child) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	REQUIRE(status_of(child) == 0);
}

int main(void)
{
	struct timespec now;

	REQUIRE(!pipe(there) && !pipe(back));
	call_between_faults();
	keep_registers();
	call_from_two_threads();
	be_interrupted();
	die_in_a_call();
	trace_a_call();
	lend_the_memory();
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("passed at %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	return 0;
}
