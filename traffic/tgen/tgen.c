/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tgen: sends and sinks all traffic of a ground (docs/protocols.md).
 *
 * Exit codes: 0 done; 1 could not do it; 2 bad input; 143 or 130 given up on SIGTERM or SIGINT. One line on
 * standard error says what, where and the remedy; a signal needs none.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow_csv.h"
#include "tgen_run.h"

#define USAGE                                                                                                \
	"usage: tgen --flows FILE --out DIR --t0 NS --duration NS --sample NS [--matrix FILE "               \
	"[--publish NS]] [--seed N] [--warm [--warm-mask BITS]] [--nic SENDERS,RECEIVERS,PORTS "             \
	"[--keep-pairs]] [--stay]"
#define FILE_MAX ((off_t)1 << 30)

enum { EXIT_FAULT = 1, EXIT_INPUT = 2, SIGNALLED = 128 };

struct options {
	const char *flows, *out;
	struct run_config run;
};

/* --- options ----------------------------------------------------------------------------------------- */

static int bad_input(const char *what, const char *value, const char *remedy)
{
	fprintf(stderr, "tgen: %s: '%s': %s\n", what, value, remedy);
	return EXIT_INPUT;
}

static int parse_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value <= max ? 0 : -EINVAL;
}

/* 0: never. */
static int parse_interval(const char *option, const char *text, int64_t *ns)
{
	uint64_t v;

	if (parse_number(text, FLOW_TIME_MAX, &v))
		return bad_input(option, text,
				 "not a number of nanoseconds; write plain decimal digits, 0 for never");
	*ns = (int64_t)v;
	return 0;
}

static int parse_time(const char *option, const char *text, int64_t *ns)
{
	uint64_t v;

	if (parse_number(text, FLOW_TIME_MAX, &v) || v == 0)
		return bad_input(option, text,
				 "not a positive number of nanoseconds; write plain decimal digits");
	*ns = (int64_t)v;
	return 0;
}

static int parse_mask(const char *text, uint16_t *mask)
{
	uint64_t v;

	if (parse_number(text, UINT16_MAX, &v))
		return bad_input("--warm-mask", text, "not an integer from 0 to 65535");
	*mask = (uint16_t)v;
	return 0;
}

/* Three ids of BPF maps, as the NICs' loader prints them. */
static int parse_nic(const char *text, struct nic_ids *ids)
{
	uint32_t *const id[] = { &ids->senders, &ids->receivers, &ids->ports };
	char part[3][16] = { "", "", "" };
	uint64_t v;
	int used = 0;

	if (sscanf(text, "%15[0-9],%15[0-9],%15[0-9]%n", part[0], part[1], part[2], &used) != 3 || text[used])
		return bad_input("--nic", text, "not three ids of BPF maps such as 3,4,5");
	for (int i = 0; i < 3; i++) {
		if (parse_number(part[i], UINT32_MAX, &v) || v == 0)
			return bad_input("--nic", text, "not three ids of BPF maps such as 3,4,5");
		*id[i] = (uint32_t)v;
	}
	return 0;
}

static int parse_option(struct options *o, int option)
{
	switch (option) {
	case 'f':
		o->flows = optarg;
		return 0;
	case 'o':
		o->out = optarg;
		return 0;
	case 'm':
		o->run.matrix = optarg;
		return 0;
	case 'w':
		o->run.warm = true;
		return 0;
	case 'y':
		o->run.stay = true;
		return 0;
	case 'q':
		o->run.keep_pairs = true;
		return 0;
	case 'k':
		return parse_mask(optarg, &o->run.warm_mask);
	case '0':
		return parse_time("--t0", optarg, &o->run.t0_ns);
	case 'd':
		return parse_time("--duration", optarg, &o->run.duration_ns);
	case 's':
		return parse_interval("--sample", optarg, &o->run.sample_ns);
	case 'p':
		return parse_interval("--publish", optarg, &o->run.publish_ns);
	case 'n':
		return parse_nic(optarg, &o->run.nic);
	case 'r':
		if (parse_number(optarg, UINT64_MAX, &o->run.seed) == 0)
			return 0;
		return bad_input("--seed", optarg, "not an integer from 0 to 18446744073709551615");
	default:
		fprintf(stderr, "tgen: an unknown option or one without its value; " USAGE "\n");
		return EXIT_INPUT;
	}
}

static int parse_options(struct options *o, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "flows", required_argument, NULL, 'f' },
		{ "out", required_argument, NULL, 'o' },
		{ "t0", required_argument, NULL, '0' },
		{ "duration", required_argument, NULL, 'd' },
		{ "sample", required_argument, NULL, 's' },
		{ "matrix", required_argument, NULL, 'm' },
		{ "seed", required_argument, NULL, 'r' },
		{ "warm", no_argument, NULL, 'w' },
		{ "warm-mask", required_argument, NULL, 'k' },
		{ "publish", required_argument, NULL, 'p' },
		{ "nic", required_argument, NULL, 'n' },
		{ "keep-pairs", no_argument, NULL, 'q' },
		{ "stay", no_argument, NULL, 'y' },
		{ NULL, 0, NULL, 0 },
	};
	int option, rc;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		rc = parse_option(o, option);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return bad_input("argument", argv[optind], "not expected; " USAGE);
	if (!o->flows || !o->out || !o->run.t0_ns || !o->run.duration_ns || o->run.sample_ns < 0) {
		fprintf(stderr,
			"tgen: --flows, --out, --t0, --duration and --sample are needed; " USAGE "\n");
		return EXIT_INPUT;
	}
	if (o->run.publish_ns && !o->run.matrix) {
		fprintf(stderr, "tgen: --publish writes into the state matrix; name it with --matrix\n");
		return EXIT_INPUT;
	}
	return 0;
}

/* --- the list of flows ------------------------------------------------------------------------------- */

static int read_open_file(int fd, char **text, size_t *len)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return -ENOMEM;
	for (*len = 0; *len < (size_t)st.st_size;) {
		ssize_t n = read(fd, *text + *len, (size_t)st.st_size - *len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		*len += (size_t)n;
	}
	return 0;
}

static int read_file(const char *file, char **text, size_t *len)
{
	int fd, rc;

	*text = NULL;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = read_open_file(fd, text, len);
	close(fd);
	return rc;
}

static void print_csv_error(const char *file, const struct flow_csv_error *e)
{
	fprintf(stderr, "tgen: %s:%zu: ", file, e->line);
	if (e->column[0])
		fprintf(stderr, "column '%s': ", e->column);
	fprintf(stderr, "'%s': %s; %s\n", e->value, e->why, e->remedy);
}

static int load_flows(const struct options *o, struct flow_table *table)
{
	struct flow_csv_error error;
	size_t len = 0;
	char *text;
	int rc;

	rc = read_file(o->flows, &text, &len);
	if (rc) {
		free(text);
		return bad_input("--flows", o->flows, strerror(-rc));
	}
	rc = flow_csv_parse(text, len, table, &error);
	free(text);
	if (rc == -EINVAL)
		print_csv_error(o->flows, &error);
	else if (rc)
		fprintf(stderr, "tgen: read %s: %s\n", o->flows, strerror(-rc));
	return !rc ? 0 : rc == -EINVAL ? EXIT_INPUT : EXIT_FAULT;
}

/* --- the process ------------------------------------------------------------------------------------- */

/* Signals arrive at a descriptor: a busy loop sees them too, and none is missed between a test and a wait. */
static int prepare_process(int *signals)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	*signals = signalfd(-1, &mask, SFD_CLOEXEC);
	if (*signals < 0)
		return -errno;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_TIMERSLACK, 1) < 0)
		return -errno;
	return 0;
}

static int say_ready(void)
{
	static const char ready[] = "ready\n";

	return write(STDOUT_FILENO, ready, sizeof(ready) - 1) == (ssize_t)sizeof(ready) - 1 ? 0 : -EPIPE;
}

/* Reads one line, "go" or "end". It may take for ever; a signal ends it. */
static int wait_for(const char *word, int signals)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	size_t len = strlen(word);
	char line[sizeof("end\n")];

	for (size_t have = 0; have < len;) {
		ssize_t n;

		if (poll(fds, 2, -1) < 0)
			return -errno;
		if (fds[1].revents)
			return -EINTR;
		n = read(STDIN_FILENO, line + have, len - have);
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		have += (size_t)n;
	}
	return memcmp(line, word, len) == 0 ? 0 : -EPROTO;
}

static int fault(const char *what, int rc)
{
	fprintf(stderr, "tgen: %s: %s\n", what, strerror(-rc));
	return EXIT_FAULT;
}

/* As a shell names the end by a signal. */
static int exit_of_signal(int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return fault("read which signal came", -EIO);
	return SIGNALLED + (int)info.ssi_signo;
}

static int start(const struct run_config *config)
{
	int64_t now;
	int rc;

	rc = say_ready();
	if (rc)
		return fault("say ready on standard output", rc);
	rc = wait_for("go\n", config->signals);
	if (rc == -EINTR)
		return exit_of_signal(config->signals);
	if (rc)
		return fault("wait for the line 'go' on standard input", rc);
	now = clock_now();
	if (now <= config->t0_ns)
		return 0;
	fprintf(stderr,
		"tgen: --t0: '%" PRId64 "': already past when 'go' came at %" PRId64 "; choose a later t0\n",
		config->t0_ns, now);
	return EXIT_FAULT;
}

/* With its sockets open: whoever looks at the end's instant sees no FIN of theirs. */
static int stay(int signals)
{
	int rc = wait_for("end\n", signals);

	if (rc == -EINTR)
		return exit_of_signal(signals);
	return rc ? fault("wait for the line 'end' on standard input", rc) : 0;
}

static int loop(struct run *run)
{
	int rc, code;

	rc = run_loop(run);
	if (rc == -EINTR)
		return exit_of_signal(run->config->signals);
	if (!rc)
		rc = run_settle(run);
	code = !rc && run->config->stay ? stay(run->config->signals) : 0;
	if (!rc && !code)
		rc = run_finish(run);
	return rc ? fault(run->fault, rc) : code;
}

static int run_flows(const struct run_config *config, const struct flow_table *table)
{
	struct run run;
	int rc, code;

	rc = run_open(&run, config, table);
	code = rc ? fault(run.fault, rc) : start(config);
	if (rc && run.bad_input)
		code = EXIT_INPUT;
	if (!code)
		code = loop(&run);
	if (code > SIGNALLED)
		run_abort(&run);
	run_close(&run);
	return code;
}

int main(int argc, char **argv)
{
	struct options options = {
		.run = { .out = -1, .signals = -1, .sample_ns = -1, .warm_mask = UINT16_MAX }
	};
	struct flow_table table = { 0 };
	int rc;

	rc = parse_options(&options, argc, argv);
	if (!rc)
		rc = load_flows(&options, &table);
	if (rc)
		goto out;
	options.run.out = open(options.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (options.run.out < 0) {
		rc = bad_input("--out", options.out, strerror(errno));
		goto out;
	}
	rc = prepare_process(&options.run.signals);
	rc = rc ? fault("prepare the process", rc) : run_flows(&options.run, &table);
out:
	if (options.run.signals >= 0)
		close(options.run.signals);
	if (options.run.out >= 0)
		close(options.run.out);
	flow_table_free(&table);
	return rc;
}
