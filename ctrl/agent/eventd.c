// SPDX-License-Identifier: Apache-2.0
/*
 * eventd: change links and queues at fixed times while traffic runs (docs/events.md).
 *
 * A change takes effect at t0 + its time, exactly on a virtual clock: eventd sleeps until then, sends the
 * request, and reads back what is in force. It reads the clock only after all changes of one time, since that
 * moves it. At one instant, eventd comes before all that measures and decides.
 *
 * It stays until SIGTERM, so that nothing happens at a time that does not depend on t0, and writes what it
 * has done until then.
 */
#include "events_file.h"
#include "nl.h"
#include "options.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_INDEX 0

struct options {
	const char *ports, *events, *out;
	uint64_t t0_ns;
};

/* One change at work. */
struct work {
	struct nl_sock *sock;
	struct nlmsghdr *set, *get; /* its own copies */
};

struct eventd {
	struct options opt;
	struct ports ports;
	struct events events;
	struct nl_sock *socks; /* one a row of the ports file; most are closed */
	struct nl_sock generic;
	struct work *work;
	struct event_done *done;
	unsigned char *answers;
	uint32_t n_done, n_answers; /* n_answers: bytes */
	uint64_t read_ns;           /* what reading the clock costs */
};

/* ---- set-up ---- */

static int parse_options(int argc, char **argv, struct options *o)
{
	const struct program_option options[] = {
		{ "ports", "FILE", "record file of the ports", .text = &o->ports, .required = true },
		{ "events", "FILE", "record file of the changes", .text = &o->events, .required = true },
		{ "t0", "NS", "CLOCK_MONOTONIC from which their times count", .number = &o->t0_ns,
		  .required = true, .min = 1, .max = INT64_MAX },
		{ "out", "FILE", "record file of what was done", .text = &o->out, .required = true },
		{ 0 },
	};

	return options_read(argc, argv, options, "");
}

static int take_files(struct eventd *e, struct fault *f)
{
	int rc = record_file_open(&e->ports.file, "--ports", e->opt.ports, f);

	if (!rc)
		rc = ports_take(&e->ports, f);
	if (!rc)
		rc = record_file_open(&e->events.file, "--events", e->opt.events, f);
	return rc ? rc : events_take(&e->events, &e->ports, f);
}

static int make_room(struct eventd *e, struct fault *f)
{
	size_t n_answers = 0;

	for (uint32_t i = 0; i < e->events.n; i++)
		n_answers += e->events.change[i].get_len != 0;
	e->socks = calloc(e->ports.n, sizeof(*e->socks));
	e->work = calloc(e->events.n, sizeof(*e->work));
	e->done = calloc(e->events.n, sizeof(*e->done));
	e->answers = calloc(n_answers + 1, EVENT_MAX_SIZE);
	if (!e->socks || !e->work || !e->done || !e->answers)
		return fault_say(f, -ENOMEM, "events: out of memory for %u changes", e->events.n);
	for (uint32_t row = 0; row < e->ports.n; row++)
		e->socks[row] = (struct nl_sock)NL_SOCK_INIT;
	return 0;
}

/* The socket in a port's namespace. Ports of one namespace share that of the first of them. */
static int find_socket(struct eventd *e, uint32_t row, struct nl_sock **sock, struct fault *f)
{
	const char *netns = e->ports.port[row].netns;
	uint32_t first = 0;
	int rc;

	while (strcmp(e->ports.port[first].netns, netns))
		first++;
	*sock = &e->socks[first];
	if ((*sock)->fd >= 0)
		return 0;
	rc = nl_open(*sock, netns);
	return rc ? fault_say(f, -EIO, "open a netlink socket in '%s': %s", netns, strerror(-rc)) : 0;
}

static struct nlmsghdr *copy_request(const struct eventd *e, uint32_t start, uint32_t len, int ifindex)
{
	struct nlmsghdr *request = malloc(len);

	if (!request)
		return NULL;
	memcpy(request, e->events.bytes + start, len);
	if (ifindex != NO_INDEX)
		memcpy((unsigned char *)NLMSG_DATA(request) + offsetof(struct ifinfomsg, ifi_index), &ifindex,
		       sizeof(ifindex));
	return request;
}

static int prepare_generic(struct eventd *e, uint32_t i, struct fault *f)
{
	const struct event_change *c = &e->events.change[i];
	struct work *w = &e->work[i];
	int rc = e->generic.fd < 0 ? nl_open_generic(&e->generic) : 0;

	if (rc)
		return fault_say(f, -EIO, "open a generic netlink socket: %s", strerror(-rc));
	w->sock = &e->generic;
	w->set = copy_request(e, c->set_start, c->set_len, NO_INDEX);
	return w->set ? 0 : fault_say(f, -ENOMEM, "events: out of memory for a request");
}

static int prepare_change(struct eventd *e, uint32_t i, struct fault *f)
{
	const struct event_change *c = &e->events.change[i];
	const struct port *port = &e->ports.port[c->row];
	struct work *w = &e->work[i];
	int ifindex, rc = find_socket(e, c->row, &w->sock, f);

	if (rc)
		return rc;
	ifindex = nl_ifindex(w->sock, port->ifname);
	if (ifindex < 0)
		return fault_say(f, -EIO, "find port '%s': %s", port->name, strerror(-ifindex));
	w->set = copy_request(e, c->set_start, c->set_len, ifindex);
	w->get = c->get_len ? copy_request(e, c->get_start, c->get_len, ifindex) : NULL;
	return w->set && (w->get || !c->get_len)
		       ? 0
		       : fault_say(f, -ENOMEM, "events: out of memory for a request");
}

static int prepare(struct eventd *e, struct fault *f)
{
	uint64_t before;
	int rc = take_files(e, f);

	if (!rc)
		rc = make_room(e, f);
	for (uint32_t i = 0; !rc && i < e->events.n; i++)
		rc = e->events.change[i].generic ? prepare_generic(e, i, f) : prepare_change(e, i, f);
	before = now_ns();
	e->read_ns = now_ns() - before;
	return rc;
}

static void eventd_close(struct eventd *e)
{
	for (uint32_t i = 0; e->work && i < e->events.n; i++) {
		free(e->work[i].set);
		free(e->work[i].get);
	}
	for (uint32_t row = 0; e->socks && row < e->ports.n; row++)
		nl_close(&e->socks[row]);
	nl_close(&e->generic);
	free(e->socks);
	free(e->work);
	free(e->done);
	free(e->answers);
	record_file_close(&e->ports.file);
	record_file_close(&e->events.file);
}

/* ---- the changes ---- */

static void carry_out(struct eventd *e, uint32_t i)
{
	struct event_done *d = &e->done[e->n_done++];
	struct work *w = &e->work[i];
	int len = 0;

	*d = (struct event_done){ .tag = e->events.change[i].tag, .answer_start = e->n_answers };
	d->error = nl_change(w->sock, w->set);
	if (!d->error && w->get) {
		len = nl_ask(w->sock, w->get, e->answers + e->n_answers, EVENT_MAX_SIZE);
		d->error = len < 0 ? len : 0;
	}
	d->answer_len = len > 0 ? (uint32_t)len : 0;
	e->n_answers += d->answer_len;
}

/* All changes of one time, from number i on. Returns the number of the next. */
static uint32_t carry_out_all(struct eventd *e, uint32_t i)
{
	uint64_t at_ns = e->events.change[i].at_ns, t_ns;
	uint32_t first = e->n_done;

	for (; i < e->events.n && e->events.change[i].at_ns == at_ns; i++)
		carry_out(e, i);
	t_ns = now_ns() - e->read_ns - e->opt.t0_ns;
	for (uint32_t k = first; k < e->n_done; k++)
		e->done[k].t_ns = t_ns;
	return i;
}

static int run(struct eventd *e, struct fault *f)
{
	uint32_t i = 0;

	while (i < e->events.n && !program_stop) {
		int rc = sleep_until(e->opt.t0_ns + e->events.change[i].at_ns);

		if (rc)
			return fault_say(f, -EIO, "sleep until an event: %s", strerror(-rc));
		if (!program_stop)
			i = carry_out_all(e, i);
	}
	return 0;
}

static void await_stop(void)
{
	sigset_t before;

	program_hold_stop(&before);
	while (!program_stop)
		ppoll(NULL, 0, NULL, &before);
}

/* ---- what was done ---- */

static int write_table(FILE *file, const char *magic, uint32_t size, uint32_t count, const void *records)
{
	static const unsigned char zeros[8];
	struct record_header head = { .version = EVENT_VERSION, .record_size = size, .count = count };
	size_t len = (size_t)size * count, rest = (8 - len % 8) % 8;

	memcpy(head.magic, magic, sizeof(head.magic));
	if (fwrite(&head, sizeof(head), 1, file) != 1 || fwrite(records, 1, len, file) != len)
		return -EIO;
	return fwrite(zeros, 1, rest, file) == rest ? 0 : -EIO;
}

static int finish(struct eventd *e, struct fault *f)
{
	FILE *file = fopen(e->opt.out, "we");
	int rc = 0;

	if (!file)
		return fault_say(f, -EIO, "--out: create '%s': %s; name a folder that can be written",
				 e->opt.out, strerror(errno));
	if (write_table(file, EVENT_DONE_MAGIC, sizeof(*e->done), e->n_done, e->done) ||
	    write_table(file, EVENT_BYTES_MAGIC, 1, e->n_answers, e->answers))
		rc = -EIO;
	if (fclose(file) || rc)
		return fault_say(f, -EIO, "--out: write '%s': %s; make room", e->opt.out, strerror(errno));
	return 0;
}

int main(int argc, char **argv)
{
	struct eventd e = { .generic = NL_SOCK_INIT };
	struct fault fault;
	int rc = parse_options(argc, argv, &e.opt);

	if (rc)
		return rc;
	rc = program_prepare();
	if (!rc)
		rc = program_end(prepare(&e, &fault), &fault);
	if (!rc)
		rc = program_ready(e.opt.t0_ns);
	if (!rc)
		rc = program_end(run(&e, &fault), &fault);
	if (!rc)
		await_stop();
	if (!rc)
		rc = program_end(finish(&e, &fault), &fault);
	eventd_close(&e);
	return rc;
}
