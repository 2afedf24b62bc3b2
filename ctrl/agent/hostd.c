// SPDX-License-Identifier: Apache-2.0
/*
 * hostd: the agents in the hosts. It listens in every host's network namespace for control packets
 * (control.h), sets that host's actuator, and echoes the command.
 *
 * One process stands for all hosts: each has its own socket and its own netlink socket in its own namespace,
 * and nothing is known of one at another but what a packet brought.
 */
#include "control.h"
#include "enforce.h"
#include "netns.h"
#include "options.h"
#include "program.h"
#include "sweeper.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_EVENTS 64

struct options {
	const char *ports, *actuators;
};

/* One host's agent. */
struct agent {
	int fd;
	uint64_t seq, applied_ns; /* of the last command carried out */
};

struct hostd {
	struct sweeper sweeper;
	struct actuators hosts;
	struct enforcer enforcer;
	struct agent *agents;
	int epoll_fd;
};

static int parse_options(int argc, char **argv, struct options *o)
{
	const struct program_option options[] = {
		{ "ports", "FILE", "record file of the ports", .text = &o->ports, .required = true },
		{ "actuators", "FILE", "record file of the hosts' actuators, with where each listens",
		  .text = &o->actuators, .required = true },
		{ 0 },
	};

	return options_read(argc, argv, options, "");
}

/* ---- set-up ---- */

static int listen_in(struct hostd *d, uint32_t i, struct fault *f)
{
	const struct port *port = &d->sweeper.ports.port[d->hosts.row[i].row];
	const char *name = actuators_port(&d->hosts, i);
	const struct sockaddr_in at = actuators_address(&d->hosts, i);
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
	struct agent *a = &d->agents[i];

	a->fd = netns_socket(port->netns, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (a->fd < 0)
		return fault_say(f, -EIO, "host '%s': open a socket: %s", name, strerror(-a->fd));
	if (bind(a->fd, (const struct sockaddr *)&at, sizeof(at)))
		return fault_say(f, -EINVAL,
				 "--actuators: host '%s': listen at %s, port %d: %s; give its address in the "
				 "control network",
				 name, inet_ntoa(at.sin_addr), ntohs(at.sin_port), strerror(errno));
	if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, a->fd, &event))
		return fault_say(f, -EIO, "epoll: %s", strerror(errno));
	return 0;
}

static int prepare(struct hostd *d, const struct options *o, struct fault *f)
{
	int rc = sweeper_open(&d->sweeper, o->ports, f);

	if (!rc)
		rc = record_file_open(&d->hosts.file, "--actuators", o->actuators, f);
	if (!rc)
		rc = actuators_take(&d->hosts, &d->sweeper.ports, true, f);
	if (!rc)
		rc = enforcer_open(&d->enforcer, &d->hosts, &d->sweeper, f);
	if (rc)
		return rc;
	d->agents = calloc(d->hosts.n, sizeof(*d->agents));
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!d->agents || d->epoll_fd < 0)
		return fault_say(f, -ENOMEM, "out of memory for %u hosts", d->hosts.n);
	for (uint32_t i = 0; i < d->hosts.n; i++)
		d->agents[i].fd = -1;
	for (uint32_t i = 0; i < d->hosts.n && !rc; i++)
		rc = listen_in(d, i, f);
	return rc;
}

/* ---- packets ---- */

/* One packet. What is not ours is not answered; an echo that cannot be sent is one that was lost. */
static int serve(struct hostd *d, uint32_t i, struct fault *f)
{
	struct agent *a = &d->agents[i];
	struct control_packet p;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	ssize_t n =
		recvfrom(a->fd, &p, sizeof(p), MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&from, &from_len);

	if (n < 0 || !control_check(&p, (size_t)n, CONTROL_COMMAND, d->hosts.n) || p.host != i)
		return 0;
	if (p.seq > a->seq) {
		const uint64_t wanted[SM_MAX_VALUES] = { p.value };
		int rc = enforcer_set(&d->enforcer, i, wanted, f);

		if (rc)
			return rc;
		a->seq = p.seq;
		a->applied_ns = now_ns();
	}
	p.kind = CONTROL_ECHO;
	p.seq = a->seq;
	p.applied_ns = a->applied_ns;
	sendto(a->fd, &p, sizeof(p), MSG_DONTWAIT, (struct sockaddr *)&from, from_len);
	return 0;
}

static int serve_until_stopped(struct hostd *d, const sigset_t *waiting, struct fault *f)
{
	struct epoll_event events[N_EVENTS];
	int rc = 0;

	while (!rc && !program_stop) {
		int n = epoll_pwait(d->epoll_fd, events, N_EVENTS, -1, waiting);

		if (n < 0 && errno != EINTR)
			return fault_say(f, -EIO, "wait for packets: %s", strerror(errno));
		for (int k = 0; k < n && !rc; k++)
			rc = serve(d, events[k].data.u32, f);
	}
	return rc;
}

/* A signal that stops us is let in while we wait, and nowhere between a look at it and the wait. */
static int run(struct hostd *d, struct fault *f)
{
	sigset_t before;
	int rc;

	program_hold_stop(&before);
	rc = serve_until_stopped(d, &before, f);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void release(struct hostd *d)
{
	for (uint32_t i = 0; d->agents && i < d->hosts.n; i++)
		if (d->agents[i].fd >= 0)
			close(d->agents[i].fd);
	if (d->epoll_fd >= 0)
		close(d->epoll_fd);
	free(d->agents);
	enforcer_close(&d->enforcer);
	record_file_close(&d->hosts.file);
	sweeper_close(&d->sweeper);
}

int main(int argc, char **argv)
{
	struct hostd d = { .sweeper = SWEEPER_INIT, .epoll_fd = -1 };
	struct options options = { 0 };
	struct fault fault;
	int rc = parse_options(argc, argv, &options);

	if (rc)
		return rc;
	rc = program_prepare();
	if (!rc)
		rc = program_end(prepare(&d, &options, &fault), &fault);
	if (!rc)
		rc = program_say("ready\n");
	if (!rc)
		rc = program_end(run(&d, &fault), &fault);
	release(&d);
	return rc;
}
