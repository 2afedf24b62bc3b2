// SPDX-License-Identifier: Apache-2.0
/*
 * qmon: sweep the queues of many network namespaces on an absolute schedule.
 *
 * Each sweep dumps the qdiscs of every namespace once over a netlink socket that stays open, and
 * publishes a row a port in the state matrix and in a trace (docs/protocols.md). Sweep k belongs to
 * t0 + k * interval, and that is the time written with it. On a virtual clock it is also the time at
 * which it happens; on a real one a sweep can begin later, which --check-late counts.
 *
 * The loop makes two system calls a namespace (up to about 700 qdiscs in it) and one to sleep, and reads
 * no clock: in a lab kernel a system call is most of what a sweep costs, and reading the clock moves it.
 */
#include "matrix.h"
#include "nl.h"
#include "ports_csv.h"
#include "qdisc.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC      1000000000ULL
#define MIN_INTERVAL_NS 10000ULL
#define MAX_INTERVAL_NS (3600 * NS_PER_SEC)
#define MAX_PORTS_FILE  (64L << 20)
#define MAX_REPEATS     16 /* of a dump that changes interrupt */

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
	"usage: qmon --ports FILE --interval NS --t0 NS --count N [--matrix FILE] [--trace FILE] "
	"[--check-late]\n"
	"  --ports FILE    CSV, header row,name,netns,ifname\n"
	"  --interval NS   between sweeps, at least 10000\n"
	"  --t0 NS         CLOCK_MONOTONIC of the first sweep\n"
	"  --count N       sweeps\n"
	"  --matrix FILE   file or device that holds the state matrix\n"
	"  --trace FILE    every sweep, one after the other\n"
	"  --check-late    count sweeps that began after the next was due (costs a clock read a sweep),\n"
	"                  and end with the line 'late COUNT'\n";

struct options {
	const char *ports, *matrix, *trace;
	uint64_t interval_ns, t0_ns, count;
	bool check_late;
};

/* An interface and the row it is. */
struct place {
	int ifindex;
	uint32_t row;
};

/* One namespace: its socket, and its ports in order of ifindex. */
struct source {
	const char *netns;
	struct nl_sock sock;
	struct place *places;
	uint32_t n;
	struct port_sample *samples; /* of all rows; shared by the sources */
};

struct qmon {
	struct options opt;
	struct ports ports;
	struct source *sources;
	uint32_t n_sources;
	struct port_sample *samples;
	struct port_counters *counters;
	uint64_t *cells;
	struct matrix matrix;
	struct trace trace;
	uint64_t late;
};

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	(void)sig;
	stop = 1;
}

/* One line on standard error; returns the exit code, for the caller to pass on. */
__attribute__((format(printf, 2, 3))) static int fail(int code, const char *fmt, ...)
{
	va_list ap;

	fputs("qmon: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

/* ---- options ---- */

static int parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || *out < min || *out > max)
		return fail(EXIT_USAGE, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name,
			    text, min, max);
	return 0;
}

static int check_options(const struct options *o)
{
	uint64_t span;

	if (!o->ports)
		return fail(EXIT_USAGE,
			    "--ports is missing; name a CSV file with the header row,name,netns,ifname");
	if (!o->interval_ns)
		return fail(EXIT_USAGE, "--interval is missing; give the nanoseconds between two sweeps");
	if (!o->t0_ns)
		return fail(EXIT_USAGE,
			    "--t0 is missing; give the CLOCK_MONOTONIC of the first sweep in nanoseconds");
	if (!o->count)
		return fail(EXIT_USAGE, "--count is missing; give the number of sweeps");
	if (__builtin_mul_overflow(o->interval_ns, o->count, &span) || span > INT64_MAX - o->t0_ns)
		return fail(EXIT_USAGE, "--count: %" PRIu64 " sweeps end after the year 2262; give fewer",
			    o->count);
	return 0;
}

static int take_option(int c, struct options *o)
{
	switch (c) {
	case 'p':
		o->ports = optarg;
		return 0;
	case 'm':
		o->matrix = optarg;
		return 0;
	case 't':
		o->trace = optarg;
		return 0;
	case 'l':
		o->check_late = true;
		return 0;
	case 'i':
		return parse_number("interval", optarg, MIN_INTERVAL_NS, MAX_INTERVAL_NS, &o->interval_ns);
	case '0':
		return parse_number("t0", optarg, 1, INT64_MAX, &o->t0_ns);
	case 'n':
		return parse_number("count", optarg, 1, INT64_MAX, &o->count);
	default:
		return fail(EXIT_USAGE, "option %d is not handled", c);
	}
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "ports", required_argument, NULL, 'p' },
		{ "interval", required_argument, NULL, 'i' },
		{ "t0", required_argument, NULL, '0' },
		{ "count", required_argument, NULL, 'n' },
		{ "matrix", required_argument, NULL, 'm' },
		{ "trace", required_argument, NULL, 't' },
		{ "check-late", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (c == '?' || c == ':')
			return fail(EXIT_USAGE, "'%s': %s; see qmon --help", argv[optind - 1],
				    c == ':' ? "its value is missing" : "no such option");
		rc = take_option(c, o);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return fail(EXIT_USAGE, "'%s': not an option; see qmon --help", argv[optind]);
	return check_options(o);
}

/* ---- set-up ---- */

/* The whole of a file in memory; its length, or -errno. */
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
	else if (st.st_size > MAX_PORTS_FILE)
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

static int load_ports(struct qmon *q)
{
	struct ports_csv_error err;
	char *text = NULL;
	long len = read_file(q->opt.ports, &text);
	int rc = 0;

	if (len < 0)
		rc = fail(EXIT_USAGE, "--ports: read '%s': %s; name a regular, readable CSV file",
			  q->opt.ports, strerror((int)-len));
	else if ((rc = ports_csv_parse(text, (size_t)len, &q->ports, &err)) == -EINVAL)
		rc = fail(EXIT_USAGE, "--ports: %s: %s", q->opt.ports, err.text);
	else if (rc)
		rc = fail(EXIT_FAILED, "--ports: %s: %s", q->opt.ports, strerror(-rc));
	free(text);
	return rc;
}

static struct source *find_source(struct qmon *q, const char *netns)
{
	for (uint32_t i = 0; i < q->n_sources; i++)
		if (!strcmp(q->sources[i].netns, netns))
			return &q->sources[i];
	return NULL;
}

static int open_source(struct source *s, const char *netns)
{
	int rc = nl_open(&s->sock, netns);

	s->netns = netns;
	if (!rc)
		return 0;
	return fail(
		rc == -ENOENT || rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED,
		"netns: open a netlink socket in '%s': %s; give the path of a network namespace, or -, and "
		"run as root",
		netns, strerror(-rc));
}

static int add_port(struct qmon *q, struct source *s, uint32_t row)
{
	const struct port *p = &q->ports.port[row];
	struct place *more;
	int ifindex = nl_ifindex(&s->sock, p->ifname);

	if (ifindex < 0)
		return fail(EXIT_USAGE,
			    "ifname: interface '%s' of port '%s' in netns '%s': %s; create it first",
			    p->ifname, p->name, p->netns, strerror(-ifindex));
	more = realloc(s->places, (s->n + 1) * sizeof(*more));
	if (!more)
		return fail(EXIT_FAILED, "ports: out of memory");
	more[s->n++] = (struct place){ ifindex, row };
	s->places = more;
	return 0;
}

static int by_ifindex(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

static int open_sources(struct qmon *q)
{
	int rc;

	for (uint32_t row = 0; row < q->ports.n; row++) {
		const char *netns = q->ports.port[row].netns;
		struct source *s = find_source(q, netns);

		if (!s) {
			s = &q->sources[q->n_sources];
			rc = open_source(s, netns);
			if (rc)
				return rc;
			s->samples = q->samples;
			q->n_sources++;
		}
		rc = add_port(q, s, row);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < q->n_sources; i++)
		qsort(q->sources[i].places, q->sources[i].n, sizeof(struct place), by_ifindex);
	return 0;
}

static int allocate(struct qmon *q)
{
	q->sources = calloc(q->ports.n, sizeof(*q->sources));
	q->samples = calloc(q->ports.n, sizeof(*q->samples));
	q->counters = calloc(q->ports.n, sizeof(*q->counters));
	q->cells = calloc((size_t)q->ports.n * SM_NR_COLUMNS, sizeof(*q->cells));
	if (!q->sources || !q->samples || !q->counters || !q->cells)
		return fail(EXIT_FAILED, "ports: out of memory for %u ports", q->ports.n);
	return 0;
}

static int open_outputs(struct qmon *q)
{
	const struct row_names names = { q->ports.port[0].name, sizeof(struct port) };
	struct sm_header layout;
	int rc;

	matrix_layout(&layout, q->ports.n, q->opt.interval_ns, q->opt.t0_ns);
	rc = matrix_open(&q->matrix, q->opt.matrix, &layout, names);
	if (rc)
		return fail(EXIT_FAILED,
			    "--matrix: map %" PRIu64 " bytes of '%s': %s; make room, or name another file",
			    layout.total_len, q->opt.matrix ? q->opt.matrix : "memory", strerror(-rc));
	if (!q->opt.trace)
		return 0;
	rc = trace_open(&q->trace, q->opt.trace, &layout, names);
	if (rc)
		return fail(EXIT_FAILED,
			    "--trace: create '%s.partial': %s; name a file in a folder that can be written",
			    q->opt.trace, strerror(-rc));
	return 0;
}

/* ---- sweeps ---- */

static int on_qdisc(const unsigned char *payload, size_t len, void *arg)
{
	struct source *s = arg;
	struct place *p, key = { 0 };
	struct qdisc qdisc;
	int rc = qdisc_parse(payload, len, &qdisc);

	if (rc)
		return rc;
	key.ifindex = qdisc.ifindex;
	p = bsearch(&key, s->places, s->n, sizeof(key), by_ifindex);
	if (p)
		port_sample_add(&s->samples[p->row], &qdisc);
	return 0;
}

static int dump_source(struct source *s)
{
	int rc, tries = 0;

	do {
		for (uint32_t i = 0; i < s->n; i++)
			s->samples[s->places[i].row] = (struct port_sample){ 0 };
		rc = nl_dump_qdiscs(&s->sock, on_qdisc, s);
	} while (rc == -EAGAIN && ++tries < MAX_REPEATS);
	if (rc == -EAGAIN)
		return fail(EXIT_FAILED,
			    "dump of qdiscs in netns '%s': interrupted by changes %d times in a row; "
			    "stop changing interfaces during the run",
			    s->netns, tries);
	if (rc)
		return fail(EXIT_FAILED, "dump of qdiscs in netns '%s': %s", s->netns, strerror(-rc));
	return 0;
}

/* The samples of all ports, as of now. */
static int sample(struct qmon *q)
{
	for (uint32_t i = 0; i < q->n_sources; i++) {
		int rc = dump_source(&q->sources[i]);

		if (rc)
			return rc;
	}
	for (uint32_t row = 0; row < q->ports.n; row++)
		if (!q->samples[row].has_root)
			return fail(EXIT_FAILED,
				    "port '%s' (%s in netns '%s') has no root qdisc; is the interface gone, "
				    "or not "
				    "yet up?",
				    q->ports.port[row].name, q->ports.port[row].ifname,
				    q->ports.port[row].netns);
	return 0;
}

static void fill_row(uint64_t *cells, const struct port_counters *c)
{
	cells[SM_BACKLOG_BYTES] = c->last.root.backlog_bytes;
	cells[SM_BACKLOG_PACKETS] = c->last.root.backlog_packets;
	cells[SM_TX_BYTES] = c->tx_bytes;
	cells[SM_TX_PACKETS] = c->tx_packets;
	cells[SM_DROPS] = c->drops;
	cells[SM_MARKS] = c->marks;
	cells[SM_REQUEUES] = c->requeues;
}

static int sweep(struct qmon *q, uint64_t t_ns)
{
	int rc = sample(q);

	if (rc)
		return rc;
	for (uint32_t row = 0; row < q->ports.n; row++) {
		port_counters_advance(&q->counters[row], &q->samples[row]);
		fill_row(&q->cells[row * SM_NR_COLUMNS], &q->counters[row]);
	}
	matrix_copy_activity(&q->matrix, q->cells);
	matrix_publish(&q->matrix, t_ns, q->cells);
	if (!q->opt.trace)
		return 0;
	rc = trace_append(&q->trace, t_ns, q->cells, (size_t)q->ports.n * SM_NR_COLUMNS);
	if (rc)
		return fail(EXIT_FAILED, "--trace: write '%s.partial': %s; make room, or name another file",
			    q->opt.trace, strerror(-rc));
	return 0;
}

/* ---- time ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Sleep until t_ns. A signal ends it early: the caller looks at `stop`. */
static int sleep_until(uint64_t t_ns)
{
	const struct timespec ts = { (time_t)(t_ns / NS_PER_SEC), (long)(t_ns % NS_PER_SEC) };
	int rc;

	do {
		rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	} while (rc == EINTR && !stop);
	return rc == 0 || rc == EINTR ? 0 : -rc;
}

/* A stop that arrives between the test and the sleep is seen one interval later. */
static int run(struct qmon *q)
{
	for (uint64_t k = 0; k < q->opt.count && !stop; k++) {
		uint64_t t_ns = q->opt.t0_ns + k * q->opt.interval_ns;
		int rc = sleep_until(t_ns);

		if (rc)
			return fail(EXIT_FAILED, "sleep until %" PRIu64 ": %s", t_ns, strerror(-rc));
		if (stop)
			break;
		if (q->opt.check_late && now_ns() >= t_ns + q->opt.interval_ns)
			q->late++;
		rc = sweep(q, t_ns);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- main ---- */

static int prepare_process(void)
{
	const struct sigaction on_term = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_TIMERSLACK, 1))
		return fail(EXIT_FAILED, "prctl: %s", strerror(errno));
	if (sigaction(SIGTERM, &on_term, NULL) || sigaction(SIGINT, &on_term, NULL) ||
	    sigaction(SIGPIPE, &ignore, NULL))
		return fail(EXIT_FAILED, "sigaction: %s", strerror(errno));
	return 0;
}

static int prepare(struct qmon *q)
{
	int rc = load_ports(q);

	if (!rc)
		rc = allocate(q);
	if (!rc)
		rc = open_sources(q);
	if (!rc)
		rc = sample(q); /* proves that each port has a qdisc, and lets the kernel see our buffers */
	if (!rc)
		rc = open_outputs(q);
	return rc;
}

static int say_ready(const struct qmon *q)
{
	static const char ready[] = "ready\n";
	uint64_t now = now_ns();

	if (now >= q->opt.t0_ns)
		return fail(EXIT_USAGE,
			    "--t0: %" PRIu64 " is past, it is %" PRIu64 " already; give a later time",
			    q->opt.t0_ns, now);
	if (write(STDOUT_FILENO, ready, sizeof(ready) - 1) != (ssize_t)sizeof(ready) - 1)
		return fail(EXIT_FAILED, "write ready to standard output: %s", strerror(errno));
	return 0;
}

static int finish(struct qmon *q)
{
	int rc = q->opt.trace ? trace_finish(&q->trace) : 0;

	if (rc)
		return fail(EXIT_FAILED, "--trace: finish '%s': %s; make room, or name another file",
			    q->opt.trace, strerror(-rc));
	if (q->opt.check_late)
		printf("late %" PRIu64 "\n", q->late);
	return 0;
}

static void release(struct qmon *q)
{
	trace_close(&q->trace);
	matrix_close(&q->matrix);
	for (uint32_t i = 0; i < q->n_sources; i++) {
		nl_close(&q->sources[i].sock);
		free(q->sources[i].places);
	}
	free(q->cells);
	free(q->counters);
	free(q->samples);
	free(q->sources);
	ports_free(&q->ports);
}

int main(int argc, char **argv)
{
	struct qmon q = { .trace = TRACE_INIT };
	int rc = parse_options(argc, argv, &q.opt);

	if (rc)
		return rc;
	rc = prepare_process();
	if (!rc)
		rc = prepare(&q);
	if (!rc)
		rc = say_ready(&q);
	if (!rc)
		rc = run(&q);
	if (!rc)
		rc = finish(&q);
	release(&q);
	return rc;
}
