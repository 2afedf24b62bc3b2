// SPDX-License-Identifier: Apache-2.0
/* A program of the ground: see program.h. */
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t program_stop;

static void on_stop(int sig)
{
	(void)sig;
	program_stop = 1;
}

int program_fail(int code, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

int program_end(int rc, const struct fault *f)
{
	if (!rc)
		return 0;
	return program_fail(rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED, "%s", f->text);
}

int program_prepare(void)
{
	const struct sigaction on_term = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_TIMERSLACK, 1))
		return program_fail(EXIT_FAILED, "prctl: %s", strerror(errno));
	if (sigaction(SIGTERM, &on_term, NULL) || sigaction(SIGINT, &on_term, NULL) ||
	    sigaction(SIGPIPE, &ignore, NULL))
		return program_fail(EXIT_FAILED, "sigaction: %s", strerror(errno));
	return 0;
}

void program_hold_stop(sigset_t *before)
{
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGTERM);
	sigaddset(&stops, SIGINT);
	sigprocmask(SIG_BLOCK, &stops, before);
}

int program_say(const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vdprintf(STDOUT_FILENO, fmt, ap);
	va_end(ap);
	if (len < 0)
		return program_fail(EXIT_FAILED, "write to standard output: %s", strerror(errno));
	return 0;
}

int program_ready(uint64_t t0_ns)
{
	uint64_t now = now_ns();

	if (now >= t0_ns)
		return program_fail(EXIT_USAGE,
				    "--t0: %" PRIu64 " is past, it is %" PRIu64 " already; give a later time",
				    t0_ns, now);
	return program_say("ready\n");
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

int sleep_until(uint64_t t_ns)
{
	const struct timespec ts = { (time_t)(t_ns / NS_PER_SEC), (long)(t_ns % NS_PER_SEC) };
	int rc;

	do {
		rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	} while (rc == EINTR && !program_stop);
	return rc == 0 || rc == EINTR ? 0 : -rc;
}
