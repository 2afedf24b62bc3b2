// SPDX-License-Identifier: Apache-2.0
/* A program of the ground: see program.h. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILE (64L << 20)

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

int program_options(int argc, char **argv, const struct option *options, const char *usage,
		    int (*take)(int c, void *arg), void *arg)
{
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == PROGRAM_HELP) {
			fputs(usage, stdout);
			exit(0);
		}
		if (c == '?' || c == ':')
			return program_fail(EXIT_USAGE, "'%s': %s; see %s --help", argv[optind - 1],
					    c == ':' ? "its value is missing" : "no such option",
					    program_invocation_short_name);
		rc = take(c, arg);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return program_fail(EXIT_USAGE, "'%s': not an option; see %s --help", argv[optind],
				    program_invocation_short_name);
	return 0;
}

int program_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || *out < min || *out > max)
		return program_fail(EXIT_USAGE,
				    "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name,
				    text, min, max);
	return 0;
}

/* Its length, or -errno. */
static long read_file(const char *path, char **out)
{
	struct stat st;
	long n = 0, rc = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (st.st_size > MAX_FILE)
		rc = -EFBIG;
	if (rc)
		goto out;
	*out = malloc((size_t)st.st_size + 1);
	if (!*out) {
		rc = -ENOMEM;
		goto out;
	}
	while (n < st.st_size && (rc = read(fd, *out + n, (size_t)(st.st_size - n))) > 0)
		n += rc;
	rc = rc < 0 ? -errno : n;
out:
	close(fd);
	return rc;
}

long program_read_file(const char *option, const char *path, char **out, struct fault *f)
{
	long len;

	*out = NULL;
	len = read_file(path, out);
	if (len >= 0)
		return len;
	return fault_say(f, -EINVAL, "%s: read '%s': %s; name a regular, readable CSV file", option, path,
			 strerror((int)-len));
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
