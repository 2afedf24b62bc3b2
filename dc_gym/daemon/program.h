/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, time and last words of the ground's programs that keep a schedule. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "fault.h"

#include <signal.h>
#include <stdint.h>

#define NS_PER_SEC 1000000000ULL

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Set by SIGTERM and SIGINT. */
extern volatile sig_atomic_t program_stop;

/* One line on standard error; returns the exit code, for the caller to pass on. */
__attribute__((format(printf, 2, 3))) int program_fail(int code, const char *fmt, ...);

/* 0 for 0; else the line of a fault that a function with this result left behind, and the exit code. */
int program_end(int rc, const struct fault *f);

/* Die with the parent, sleep exactly, stop in order. */
int program_prepare(void);

/*
 * From here on a signal that stops us waits to be let in: by a ppoll() or its like with *before, so nowhere
 * between a look at `program_stop` and the wait; or by sigprocmask(SIG_SETMASK, before, NULL).
 */
void program_hold_stop(sigset_t *before);

/* 'ready', as one line to the program that started this one: 0; or EXIT_USAGE and a line if t0_ns is past. */
int program_ready(uint64_t t0_ns);

/* One line to the program that started this one: 0 or EXIT_FAILED and a line. */
__attribute__((format(printf, 1, 2))) int program_say(const char *fmt, ...);

uint64_t now_ns(void);

/* Sleep until t_ns: 0 or -errno. A signal ends it early: the caller looks at `program_stop`. */
int sleep_until(uint64_t t_ns);

#endif
