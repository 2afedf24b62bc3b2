// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * nicd: loads the NIC shim's data path (shim.bpf.c), attaches it to the NICs of a ground, and takes it away
 * when it is told to stop. Meanwhile it copies the algorithm's decisions to a file, if asked.
 */
#include "data_path.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_NS 5000000 /* between looks at the decisions: 4 MiB of them must not come meanwhile */

static const char usage[] =
	"usage: nicd --object FILE --nics FILE --flows FILE --settings FILE [--table FILE] [--trace FILE]\n"
	"            [--capped FILE]\n"
	"  --object FILE    the algorithm's data path, nic-NAME.bpf.o\n"
	"  --nics FILE      CSV, header nic,netns,wire,ring,tail,line_bps\n"
	"  --flows FILE     CSV, header flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,\n"
	"                   payload_bytes,message_bytes,total_bytes,base_rtt_ns,hops\n"
	"  --settings FILE  lines name=value (ctrl/nic/shim.h), and parameter.INDEX=value\n"
	"  --table FILE     words of a policy\n"
	"  --trace FILE     where decisions go: struct nic_decision, one after the other\n"
	"  --capped FILE    CSV, header flow,src_port,dst_port: the flows that are the host's TCP, whose "
	"segments\n"
	"                   the NIC gives departure times; the wire's root qdisc must be fq\n"
	"Prints `ready SENDERS RECEIVERS PORTS`, the ids of its maps, and runs until its standard input ends "
	"or "
	"SIGTERM.\n";

struct options {
	const char *object, *nics, *flows, *settings, *table, *trace, *capped;
};

struct nicd {
	struct nics nics;
	struct nic_flows flows;
	struct nic_capped capped;
	struct nic_settings settings;
	struct data_path path;
	struct ring_buffer *decisions;
	FILE *trace;
};

static int take_option(int c, void *arg)
{
	*((const char **)arg + c) = optarg;
	return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const char *const required[] = { "object", "nics", "flows", "settings" };
	static const struct option longs[] = {
		{ "object", required_argument, NULL, 0 },
		{ "nics", required_argument, NULL, 1 },
		{ "flows", required_argument, NULL, 2 },
		{ "settings", required_argument, NULL, 3 },
		{ "table", required_argument, NULL, 4 },
		{ "trace", required_argument, NULL, 5 },
		{ "capped", required_argument, NULL, 6 },
		{ "help", no_argument, NULL, PROGRAM_HELP },
		{ 0 },
	};
	int rc = program_options(argc, argv, longs, usage, take_option, o);

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]) && !rc; i++)
		if (!((const char **)o)[i])
			rc = program_fail(EXIT_USAGE, "--%s is missing; see nicd --help", required[i]);
	return rc;
}

/* ---- set-up ---- */

static int read_nics(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nics_parse(buf, len, &d->nics, f);
}

static int read_flows(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_flows_parse(buf, len, &d->nics, &d->flows, f);
}

static int read_capped(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_capped_parse(buf, len, &d->flows, &d->capped, f);
}

static int read_settings(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return nic_settings_parse(buf, len, &d->settings, f);
}

static int read_table(struct nicd *d, const char *buf, size_t len, struct fault *f)
{
	return data_path_table(&d->path, buf, len, f);
}

static int read_with(struct nicd *d, const char *option, const char *path,
		     int (*parse)(struct nicd *d, const char *buf, size_t len, struct fault *f),
		     struct fault *f)
{
	struct fault inner = { 0 };
	char *buf = NULL;
	long len = program_read_file(option, path, &buf, f);
	int rc = len < 0 ? (int)len : parse(d, buf, (size_t)len, &inner);

	free(buf);
	if (len >= 0 && rc)
		fault_say(f, rc, "%s: '%.120s': %.300s", option, path, inner.text);
	return rc;
}

static int on_decision(void *trace, void *record, size_t len)
{
	return fwrite(record, len, 1, trace) == 1 ? 0 : -EIO;
}

static int open_trace(struct nicd *d, const char *path, struct fault *f)
{
	d->trace = fopen(path, "we");
	if (!d->trace)
		return fault_say(f, -EINVAL, "--trace: open '%s': %s", path, strerror(errno));
	d->decisions = ring_buffer__new(data_path_map(&d->path, "decisions"), on_decision, d->trace, NULL);
	if (!d->decisions)
		return fault_say(f, -errno, "--trace: read the ring of decisions: %s", strerror(errno));
	return 0;
}

static int prepare(struct nicd *d, const struct options *o, struct fault *f)
{
	int rc = read_with(d, "--nics", o->nics, read_nics, f);

	if (!rc)
		rc = read_with(d, "--flows", o->flows, read_flows, f);
	if (!rc && o->capped)
		rc = read_with(d, "--capped", o->capped, read_capped, f);
	if (!rc)
		rc = read_with(d, "--settings", o->settings, read_settings, f);
	if (rc)
		return rc;
	if (!o->trace)
		d->settings.trace = NIC_TRACE_NONE;
	else if (!d->settings.trace)
		d->settings.trace = NIC_TRACE_CHANGES;
	d->settings.caps = d->capped.n > 0;
	rc = data_path_open(&d->path, o->object, &d->nics, &d->flows, &d->capped, &d->settings, f);
	if (!rc && o->table)
		rc = read_with(d, "--table", o->table, read_table, f);
	if (!rc && o->trace)
		rc = open_trace(d, o->trace, f);
	if (!rc)
		rc = data_path_attach(&d->path, f);
	return rc;
}

/* ---- while it runs ---- */

static int copy_decisions(struct nicd *d, struct fault *f)
{
	int rc = d->decisions ? ring_buffer__consume(d->decisions) : 0;

	return rc < 0 ? fault_say(f, rc, "--trace: write decisions: %s", strerror(-rc)) : 0;
}

/* Until the end of standard input. A signal is let in while we wait, and nowhere between a look at it and the
 * wait. */
static int wait_for_end(struct nicd *d, const sigset_t *waiting, struct fault *f)
{
	const struct timespec pause = { .tv_nsec = TRACE_NS };
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	int rc = 0;

	while (!program_stop && !rc) {
		char scrap[64];
		int n = ppoll(&in, 1, d->decisions ? &pause : NULL, waiting);

		if (n > 0 && read(STDIN_FILENO, scrap, sizeof(scrap)) <= 0)
			break;
		rc = copy_decisions(d, f);
	}
	return rc ? rc : copy_decisions(d, f);
}

static int run(struct nicd *d, struct fault *f)
{
	sigset_t before;
	int rc;

	program_hold_stop(&before);
	if (program_say("ready %" PRId64 " %" PRId64 " %" PRId64 "\n", data_path_map_id(&d->path, "senders"),
			data_path_map_id(&d->path, "receivers"), data_path_map_id(&d->path, "ports")))
		rc = fault_say(f, -EIO, "nobody hears that it is ready");
	else
		rc = wait_for_end(d, &before, f);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int close_trace(struct nicd *d, struct fault *f)
{
	int rc = 0;

	ring_buffer__free(d->decisions);
	if (d->trace && fclose(d->trace))
		rc = fault_say(f, -errno, "--trace: write decisions: %s", strerror(errno));
	return rc;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct nicd d = { 0 };
	struct fault f = { 0 };
	int rc = parse_options(argc, argv, &o), closed;

	if (rc || (rc = program_prepare()))
		return rc;
	rc = prepare(&d, &o, &f);
	if (!rc)
		rc = run(&d, &f);
	closed = close_trace(&d, &f);
	data_path_close(&d.path);
	free(d.capped.flow);
	free(d.flows.flow);
	free(d.nics.nic);
	return program_end(rc ? rc : closed, &f);
}
