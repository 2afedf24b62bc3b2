// SPDX-License-Identifier: Apache-2.0
/* Sweeps of queues: see sweeper.h. */
#include "sweeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 16 /* of a dump that changes interrupt */

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
	const struct sweeper *sweeper;
};

/* ---- set-up ---- */

static int load_ports(struct sweeper *s, const char *file, struct fault *f)
{
	int rc = record_file_open(&s->ports.file, "--ports", file, f);

	return rc ? rc : ports_take(&s->ports, f);
}

static int allocate(struct sweeper *s, struct fault *f)
{
	uint32_t n = s->ports.n;

	s->sources = calloc(n, sizeof(*s->sources));
	s->samples = calloc(n, sizeof(*s->samples));
	s->counters = calloc(n, sizeof(*s->counters));
	s->cells = calloc((size_t)n * SM_NR_COLUMNS, sizeof(*s->cells));
	if (!s->sources || !s->samples || !s->counters || !s->cells)
		return fault_say(f, -ENOMEM, "ports: out of memory for %u ports", n);
	return 0;
}

static struct source *find_source(const struct sweeper *s, const char *netns)
{
	for (uint32_t i = 0; i < s->n_sources; i++)
		if (!strcmp(s->sources[i].netns, netns))
			return &s->sources[i];
	return NULL;
}

static int open_source(struct source *s, const char *netns, struct fault *f)
{
	int rc = nl_open(&s->sock, netns);

	s->netns = netns;
	if (!rc)
		return 0;
	return fault_say(
		f, rc == -ENOENT ? -EINVAL : rc,
		"netns: open a netlink socket in '%s': %s; give the path of a network namespace, or -, and "
		"run as root",
		netns, strerror(-rc));
}

static int add_port(struct sweeper *s, struct source *source, uint32_t row, struct fault *f)
{
	const struct port *p = &s->ports.port[row];
	struct place *more;
	int ifindex = nl_ifindex(&source->sock, p->ifname);

	if (ifindex < 0)
		return fault_say(f, -EINVAL,
				 "ifname: interface '%s' of port '%s' in netns '%s': %s; create it first",
				 p->ifname, p->name, p->netns, strerror(-ifindex));
	more = realloc(source->places, (source->n + 1) * sizeof(*more));
	if (!more)
		return fault_say(f, -ENOMEM, "ports: out of memory");
	more[source->n++] = (struct place){ ifindex, row };
	source->places = more;
	return 0;
}

static int by_ifindex(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

static int open_sources(struct sweeper *s, struct fault *f)
{
	int rc;

	for (uint32_t row = 0; row < s->ports.n; row++) {
		const char *netns = s->ports.port[row].netns;
		struct source *source = find_source(s, netns);

		if (!source) {
			source = &s->sources[s->n_sources];
			rc = open_source(source, netns, f);
			if (rc)
				return rc;
			source->sweeper = s;
			s->n_sources++;
		}
		rc = add_port(s, source, row, f);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < s->n_sources; i++)
		qsort(s->sources[i].places, s->sources[i].n, sizeof(struct place), by_ifindex);
	return 0;
}

int sweeper_open(struct sweeper *s, const char *ports_file, struct fault *f)
{
	int rc = load_ports(s, ports_file, f);

	if (!rc)
		rc = allocate(s, f);
	if (!rc)
		rc = open_sources(s, f);
	if (!rc)
		rc = batch_open(&s->batch, s->n_sources * NL_MAX_OPS) || calls_open(&s->calls, 3)
			     ? fault_say(f, -ENOMEM, "ports: out of memory for %u namespaces", s->n_sources)
			     : 0;
	if (!rc)
		rc = sweeper_sample(s, f); /* also lets the kernel see our buffers */
	return rc;
}

void sweeper_close(struct sweeper *s)
{
	trace_close(&s->trace);
	matrix_close(&s->matrix);
	batch_close(&s->batch);
	calls_close(&s->calls);
	for (uint32_t i = 0; i < s->n_sources; i++) {
		nl_close(&s->sources[i].sock);
		free(s->sources[i].places);
	}
	free(s->cells);
	free(s->counters);
	free(s->samples);
	free(s->sources);
	record_file_close(&s->ports.file);
	*s = (struct sweeper)SWEEPER_INIT;
}

/* ---- outputs ---- */

static struct row_names names(const struct sweeper *s)
{
	return (struct row_names){ s->ports.port[0].name, sizeof(struct port) };
}

int sweeper_open_matrix(struct sweeper *s, const char *file, uint32_t flow_rows, uint32_t command_rows,
			uint64_t interval_ns, uint64_t t0_ns, struct fault *f)
{
	const struct matrix_shape shape = { s->ports.n, flow_rows, command_rows };
	struct sm_header layout;
	int rc;

	matrix_layout(&layout, shape, interval_ns, t0_ns);
	rc = matrix_open(&s->matrix, file, &layout, names(s));
	if (rc == -EFBIG)
		return fault_say(f, -EINVAL,
				 "--matrix: '%s' has no room for the %" PRIu64
				 " bytes of %u ports, %u flows and %u "
				 "rows of actuators; have fewer flows in one episode",
				 file, layout.total_len, shape.rows, flow_rows, command_rows);
	if (rc)
		return fault_say(f, -EIO,
				 "--matrix: map %" PRIu64
				 " bytes of '%s': %s; make room, or name another file",
				 layout.total_len, file ? file : "memory", strerror(-rc));
	return 0;
}

int sweeper_open_trace(struct sweeper *s, const char *file, uint64_t interval_ns, uint64_t t0_ns,
		       struct fault *f)
{
	struct sm_header layout;
	int rc;

	matrix_layout(&layout, (struct matrix_shape){ .rows = s->ports.n }, interval_ns, t0_ns);
	rc = trace_open(&s->trace, file, &layout, names(s));
	if (rc)
		return fault_say(
			f, -EIO,
			"--trace: create '%s.partial': %s; name a file in a folder that can be written", file,
			strerror(-rc));
	return 0;
}

int sweeper_finish_trace(struct sweeper *s, struct fault *f)
{
	int rc = s->trace.fd >= 0 ? trace_finish(&s->trace) : 0;

	if (rc)
		return fault_say(f, -EIO, "--trace: finish '%s': %s; make room, or name another file",
				 s->trace.path, strerror(-rc));
	return 0;
}

/* ---- sweeps ---- */

/* The first of the places with that ifindex, or NULL. */
static struct place *first_place(const struct source *s, int ifindex)
{
	struct place key = { .ifindex = ifindex };
	struct place *p = bsearch(&key, s->places, s->n, sizeof(key), by_ifindex);

	while (p && p > s->places && p[-1].ifindex == ifindex)
		p--;
	return p;
}

/* A class is counted as a port that has no other queue. */
static void sample_row(const struct sweeper *sweeper, uint32_t row, const struct qdisc *qdisc)
{
	uint32_t class = sweeper->ports.port[row].class;
	struct qdisc own;

	if (!class)
		port_sample_add(&sweeper->samples[row], qdisc);
	else if (qdisc->place == QDISC_ROOT && !qdisc_class(qdisc, class - 1, &own))
		port_sample_add(&sweeper->samples[row], &own);
}

static int on_qdisc(const unsigned char *payload, size_t len, void *arg)
{
	struct source *s = arg;
	struct qdisc qdisc;
	struct place *p;
	int rc = qdisc_parse(payload, len, &qdisc);

	if (rc)
		return rc;
	for (p = first_place(s, qdisc.ifindex); p && p < s->places + s->n && p->ifindex == qdisc.ifindex;
	     p++) {
		sample_row(s->sweeper, p->row, &qdisc);
		if (s->sweeper->on_root && qdisc.place == QDISC_ROOT)
			rc = s->sweeper->on_root(s->sweeper->on_root_arg, p->row, &qdisc);
		if (rc)
			return rc;
	}
	return 0;
}

static void forget(struct source *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		s->sweeper->samples[s->places[i].row] = (struct port_sample){ 0 };
}

/* After a first dump that had holes or not: repeat while it has, and say what went wrong. */
static int settle_source(struct source *s, int rc, struct fault *f)
{
	int tries = 1;

	for (; rc == -EAGAIN && tries < MAX_REPEATS; tries++) {
		forget(s);
		rc = nl_dump_qdiscs(&s->sock, on_qdisc, s);
	}
	if (rc == -EAGAIN)
		return fault_say(f, -EIO,
				 "dump of qdiscs in netns '%s': interrupted by changes %d times in a row; "
				 "stop changing interfaces during the run",
				 s->netns, tries);
	if (rc && s->sock.refused)
		return fault_say(f, -EIO,
				 "change of a qdisc in netns '%s': %s; is it still the one that was set up?",
				 s->netns, strerror(-rc));
	if (rc)
		return fault_say(f, -EIO, "dump of qdiscs in netns '%s': %s", s->netns, strerror(-rc));
	return 0;
}

static void plan_dumps(struct sweeper *s)
{
	for (uint32_t i = 0; i < s->n_sources; i++)
		nl_plan_dump(&s->sources[i].sock, &s->batch);
}

/* After the batch, which left `rc`. */
static int take_dumps(struct sweeper *s, int rc, struct fault *f)
{
	if (rc)
		return fault_say(f, -EIO, "dump of qdiscs of %u namespaces: sleep, io_submit: %s",
				 s->n_sources, strerror(-rc));
	for (uint32_t i = 0; i < s->n_sources && !rc; i++) {
		struct source *source = &s->sources[i];

		forget(source);
		rc = settle_source(source, nl_finish_dump(&source->sock, &s->batch, on_qdisc, source), f);
	}
	return rc;
}

static int check_roots(const struct sweeper *s, struct fault *f)
{
	for (uint32_t row = 0; row < s->ports.n; row++)
		if (!s->samples[row].has_root)
			return fault_say(
				f, -EIO,
				"port '%s' (%s in netns '%s') has no root qdisc, or not that class; is the "
				"interface gone, or not yet up?",
				s->ports.port[row].name, s->ports.port[row].ifname, s->ports.port[row].netns);
	return 0;
}

int sweeper_sample(struct sweeper *s, struct fault *f)
{
	int rc;

	plan_dumps(s);
	rc = take_dumps(s, batch_run(&s->batch), f);
	return rc ? rc : check_roots(s, f);
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
	cells[SM_CE_BYTES] = c->ce_bytes;
	cells[SM_QUEUE_BYTE_NS] = c->queue_byte_ns;
	cells[SM_BUSY_NS] = c->busy_ns;
	cells[SM_LONGEST_BYTES] = c->last.root.longest_bytes;
	cells[SM_PAUSED_NS] = c->paused_ns;
	cells[SM_CHARGED_BYTES] = c->last.root.charged_bytes;
	cells[SM_PAUSES] = c->pauses;
}

int sweeper_sweep(struct sweeper *s, uint64_t t_ns, struct fault *f)
{
	int rc;

	plan_dumps(s);
	rc = batch_run_at(&s->batch, s->first, &s->calls, t_ns);
	if (rc == 1)
		return 0;
	rc = take_dumps(s, rc, f);
	if (!rc)
		rc = check_roots(s, f);
	if (rc)
		return rc;
	for (uint32_t row = 0; row < s->ports.n; row++) {
		port_counters_advance(&s->counters[row], &s->samples[row]);
		fill_row(&s->cells[row * SM_NR_COLUMNS], &s->counters[row]);
	}
	matrix_copy_activity(&s->matrix, s->cells);
	matrix_publish(&s->matrix, t_ns, s->cells);
	if (s->trace.fd < 0)
		return 0;
	rc = trace_append(&s->trace, t_ns, s->cells, (size_t)s->ports.n * SM_NR_COLUMNS);
	if (rc)
		return fault_say(f, -EIO, "--trace: write '%s.partial': %s; make room, or name another file",
				 s->trace.path, strerror(-rc));
	return 0;
}

/* ---- places ---- */

struct nl_sock *sweeper_socket(const struct sweeper *s, uint32_t row)
{
	return &find_source(s, s->ports.port[row].netns)->sock;
}

int sweeper_ifindex(const struct sweeper *s, uint32_t row)
{
	const struct source *source = find_source(s, s->ports.port[row].netns);

	for (uint32_t i = 0; i < source->n; i++)
		if (source->places[i].row == row)
			return source->places[i].ifindex;
	return -ENODEV;
}
