// SPDX-License-Identifier: Apache-2.0
/* The controller's end of the control network: see control.h. */
#include "control.h"

#include "netns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONTROL_VERSION 1
#define N_ECHOES        2 /* of one host that are taken in one look; more wait for the next */

/* A datagram that came. It has room for more than a packet, or a longer datagram would lose its end and be
 * taken for a packet. */
struct received {
	struct control_packet packet;
	uint64_t more;
};

/* One host: what it was sent last, and what it said last. */
struct line {
	int fd;
	uint64_t acked, applied_ns, sent_ns;
	struct control_packet command;
	struct received echoes[N_ECHOES];
	uint32_t first_op;
};

bool control_check(const struct control_packet *p, size_t len, enum control_kind kind, uint32_t hosts)
{
	return len == sizeof(*p) && p->magic == CONTROL_MAGIC && p->version == CONTROL_VERSION &&
	       p->kind == kind && p->host < hosts;
}

/* ---- sockets ---- */

static int open_line(struct line *l, uint32_t i, struct sockaddr_in to, const char *netns)
{
	l->command = (struct control_packet){
		.magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .kind = CONTROL_COMMAND, .host = i
	};
	l->fd = netns_socket(netns, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return l->fd;
	return connect(l->fd, (const struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
}

int control_open(struct control *c, const struct actuators *hosts, const char *netns, uint64_t timeout_ns,
		 struct fault *f)
{
	*c = (struct control){ .hosts = hosts, .timeout_ns = timeout_ns };
	c->lines = calloc(hosts->n, sizeof(*c->lines));
	if (!c->lines || batch_open(&c->batch, hosts->n * N_ECHOES))
		return fault_say(f, -ENOMEM, "control: out of memory for %u hosts", hosts->n);
	for (uint32_t i = 0; i < hosts->n; i++)
		c->lines[i].fd = -1;
	for (uint32_t i = 0; i < hosts->n; i++) {
		int rc = open_line(&c->lines[i], i, actuators_address(hosts, i), netns);

		if (rc)
			return fault_say(
				f, rc == -ENOENT ? -EINVAL : -EIO,
				"control: open a socket in netns '%s' to host '%s': %s; build the control "
				"network first",
				netns, actuators_port(hosts, i), strerror(-rc));
	}
	return 0;
}

void control_close(struct control *c)
{
	for (uint32_t i = 0; c->lines && i < c->hosts->n; i++)
		if (c->lines[i].fd >= 0)
			close(c->lines[i].fd);
	free(c->lines);
	batch_close(&c->batch);
	*c = (struct control){ 0 };
}

/* ---- packets ---- */

static void plan_command(struct control *c, struct line *l, uint64_t t_ns)
{
	l->sent_ns = t_ns;
	batch_write(&c->batch, l->fd, &l->command, sizeof(l->command));
}

/* A send or receive that fails (no buffer, nobody there) is a lost packet, which the time-out mends. */
static int run(struct control *c, struct fault *f)
{
	int rc = batch_run(&c->batch);

	return rc ? fault_say(f, -EIO, "control: io_submit: %s", strerror(-rc)) : 0;
}

int control_send(struct control *c, uint64_t seq, const uint64_t *wanted, uint64_t t_ns, struct fault *f)
{
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		struct line *l = &c->lines[i];

		l->command.seq = seq;
		l->command.value = wanted[i * SM_MAX_VALUES];
		plan_command(c, l, t_ns);
	}
	return run(c, f);
}

static int receive(struct control *c, struct fault *f)
{
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		struct line *l = &c->lines[i];

		for (int k = 0; k < N_ECHOES; k++) {
			uint32_t op = batch_read(&c->batch, l->fd, &l->echoes[k], sizeof(l->echoes[k]));

			l->first_op = k ? l->first_op : op;
		}
	}
	return run(c, f);
}

static void take_echo(const struct control *c, struct line *l, const struct control_packet *p, int64_t len)
{
	if (len < 0 || !control_check(p, (size_t)len, CONTROL_ECHO, c->hosts->n) ||
	    p->host != l->command.host)
		return;
	if (p->seq <= l->acked || p->seq > l->command.seq)
		return;
	l->acked = p->seq;
	l->applied_ns = p->applied_ns;
}

int control_poll(struct control *c, uint64_t t_ns, struct fault *f)
{
	int rc = receive(c, f);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		struct line *l = &c->lines[i];

		for (uint32_t k = 0; k < N_ECHOES; k++)
			take_echo(c, l, &l->echoes[k].packet, c->batch.results[l->first_op + k]);
	}
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		struct line *l = &c->lines[i];

		if (l->acked == l->command.seq || t_ns - l->sent_ns < c->timeout_ns)
			continue;
		c->timeouts++;
		plan_command(c, l, t_ns);
	}
	return c->batch.n ? run(c, f) : 0;
}

int control_forget(struct control *c, uint64_t seq, struct fault *f)
{
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		struct line *l = &c->lines[i];

		l->command.seq = l->acked = seq;
		l->applied_ns = 0;
	}
	return receive(c, f); /* late echoes */
}

uint64_t control_acked(const struct control *c, uint32_t i)
{
	return c->lines[i].acked;
}

uint64_t control_all_acked(const struct control *c, uint64_t *applied_ns)
{
	uint64_t all = UINT64_MAX;

	*applied_ns = 0;
	for (uint32_t i = 0; i < c->hosts->n; i++) {
		const struct line *l = &c->lines[i];

		if (l->acked < all)
			all = l->acked;
		if (l->applied_ns > *applied_ns)
			*applied_ns = l->applied_ns;
	}
	return all;
}
