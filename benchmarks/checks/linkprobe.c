// SPDX-License-Identifier: Apache-2.0
/*
 * linkprobe: frames at exact times, and what became of each.
 *
 * Standard input has one schedule after the other, rows in order of time, each ended by a line `run`:
 *
 *     t_ns,sender,length,flags,seq[,dscp[,receiver]]
 *
 * At t_ns after the start sender (0, 1, ...) sends a frame of `length` bytes, header and payload, with a DSCP
 * to a receiver (0, 1, ...). Flags: 1 ECN-capable, 2 it asks for telemetry, as a NIC's frame does. With
 * length 0 the row is a sample of all ports; with flag 1 it is of all statistics of a `port`. When the last
 * row is done, the answer:
 *
 *     start,T                 CLOCK_MONOTONIC of t_ns = 0
 *     d,SEQ,T                 departure: the frame was handed to the transmitter
 *     a,SEQ,T,ECN,LENGTH      arrival at the receiver, and the two ECN bits that it came with
 *     i,SEQ,RECORD,...        the records of telemetry that it came with, in hexadecimal digits
 *     b,T,BYTES,...           backlog of each port
 *     s,T,PORT,MARKS,CE_BYTES,QUEUE_BYTE_NS,BUSY_NS,LONGEST_BYTES   statistics of each port, if it is a
 * `port`
 *     x,T,PORT,VALUE,...      all statistics of each port: struct tc_port_xstats and those of classes (lab.h)
 *     end
 *
 * Times are ns after the start. On virtual time nothing here takes time: there is no clock read and no
 * failing system call between the first row and the last. Frames are UDP, and not of a packet socket, because
 * a packet socket's send fails when the queue drops, which costs time; for departures and arrivals the
 * kernel's own timestamps are read after the run, so both sockets' buffers must hold them all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"
#include "lab_int.h"
#include "netns.h"
#include "nl.h"
#include "options.h"
#include "program.h"
#include "qdisc.h"

#define NS           ((int64_t)NS_PER_SEC)
#define LEAD_NS      1000000ll /* from reading a schedule to its start */
#define MAX_SENDERS  64
#define MAX_PORTS    64
#define MAX_ROWS     262144
#define HEADERS_LEN  42 /* Ethernet, IPv4, UDP */
#define FRAME_MIN    60
#define FRAME_MAX    1514
#define ASKS_MIN     (LAB_INT_AT + LAB_INT_BYTES + (int)sizeof(struct tag))
#define UDP_PORT     7000
#define BUFFER_BYTES (256 << 20)
#define BATCH        64
#define CONTROL_LEN  256

enum row_flag { ROW_ECT = 1, ROW_ASKS = 2, ROW_ALL = 1 /* of samples */ };
struct row {
	int64_t t_ns;
	unsigned int sender, length, flags, seq, dscp, receiver;
};

/* The contents of every frame. */
struct tag {
	uint32_t run, seq;
};

/* The payload of a frame that asks. */
struct asking {
	uint8_t nic[LAB_INT_AT - HEADERS_LEN];
	struct lab_int telemetry;
	struct tag tag;
} __attribute__((packed));

struct receiver {
	struct sockaddr_in to;
	int fd, asked; /* where frames arrive, and those that ask */
};

/* All statistics of a port at one time, and how many classes have some. */
struct whole {
	struct tc_port_xstats port;
	struct tc_port_class_xstats class[TC_PORT_CLASSES];
	size_t classes;
};

struct sender {
	int fd;
	uint32_t sent;      /* since the socket was made: the kernel numbers its timestamps so */
	uint32_t run_first; /* value of `sent` when the run began */
	uint32_t *seqs;     /* of the run's frames */
};

struct port {
	char netns[108], ifname[16];
	int sock; /* index into socks */
	int ifindex;
};

struct sock {
	struct nl_sock nl;
	const char *netns;
};

struct probe {
	struct receiver receivers[MAX_SENDERS];
	struct sender senders[MAX_SENDERS];
	struct port ports[MAX_PORTS];
	struct sock socks[MAX_PORTS];
	int nr_receivers, nr_senders, nr_ports, nr_socks;
	struct row *rows;
	struct qdisc *samples; /* nr_ports for each sample of the run */
	struct whole *wholes;  /* likewise, if a sample is of all statistics */
	size_t nr_rows, nr_samples;
	uint32_t run;
	int64_t start_ns, real_minus_mono;
};

struct haul {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	union {
		struct cmsghdr align;
		unsigned char data[CONTROL_LEN];
	} control[BATCH];
	struct asking data[BATCH]; /* others have the tag alone, at the beginning */
};

/* The values of the options. */
struct names {
	const char *addresses, *receivers, *senders, *ports;
};

static int fail(const char *what, const char *which)
{
	return program_fail(-1, "%s %s: %s", what, which, strerror(errno));
}

static int bad(const char *what, const char *which)
{
	return program_fail(-1, "%s: '%s'", what, which);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS + ts.tv_nsec;
}

/* A clock read takes time: the wall clock's falls in the middle of two others. */
static int64_t real_minus_mono(void)
{
	int64_t before = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME);

	return real - (before + clock_ns(CLOCK_MONOTONIC)) / 2;
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int udp_socket(const char *netns, int timestamps)
{
	int fd;

	fd = netns_socket(netns, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		errno = -fd;
		return fail("make a socket in", netns);
	}
	if (set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES) ||
	    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES) ||
	    set_option(fd, SOL_SOCKET, SO_TIMESTAMPING, timestamps | SOF_TIMESTAMPING_SOFTWARE)) {
		close(fd);
		return fail("set options of a socket in", netns);
	}
	return fd;
}

static int open_receiver(int *fd, const char *netns, uint16_t port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };

	*fd = udp_socket(netns, SOF_TIMESTAMPING_RX_SOFTWARE);
	if (*fd < 0)
		return -1;
	if (set_option(*fd, IPPROTO_IP, IP_RECVTOS, 1) || bind(*fd, (struct sockaddr *)&any, sizeof(any)))
		return fail("bind in", netns);
	return 0;
}

static int open_receivers(struct probe *p, char *addresses, char *list)
{
	char *netns, *address, *rest = NULL, *rest_of_addresses = NULL;

	for (netns = strtok_r(list, ",", &rest); netns; netns = strtok_r(NULL, ",", &rest)) {
		struct receiver *r = &p->receivers[p->nr_receivers];

		if (p->nr_receivers == MAX_SENDERS)
			return bad("too many receivers", netns);
		address = strtok_r(p->nr_receivers ? NULL : addresses, ",", &rest_of_addresses);
		r->to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(UDP_PORT) };
		if (!address || inet_pton(AF_INET, address, &r->to.sin_addr) != 1)
			return bad("--address: not an IPv4 address for each receiver",
				   address ? address : "");
		if (open_receiver(&r->fd, netns, UDP_PORT) || open_receiver(&r->asked, netns, LAB_INT_UDP))
			return -1;
		p->nr_receivers++;
	}
	return 0;
}

static int open_senders(struct probe *p, char *list)
{
	const int timestamps =
		SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
	char *netns, *rest = NULL;

	for (netns = strtok_r(list, ",", &rest); netns; netns = strtok_r(NULL, ",", &rest)) {
		struct sender *s = &p->senders[p->nr_senders];

		if (p->nr_senders == MAX_SENDERS)
			return bad("too many senders", netns);
		s->fd = udp_socket(netns, timestamps);
		s->seqs = calloc(MAX_ROWS, sizeof(*s->seqs));
		if (s->fd < 0 || !s->seqs)
			return -1;
		p->nr_senders++;
	}
	return 0;
}

/* One netlink socket a namespace, whatever the number of ports in it. */
static int sock_of(struct probe *p, const char *netns)
{
	int rc, i;

	for (i = 0; i < p->nr_socks; i++)
		if (!strcmp(p->socks[i].netns, netns))
			return i;
	rc = nl_open(&p->socks[i].nl, netns);
	if (rc) {
		errno = -rc;
		return fail("open netlink in", netns);
	}
	p->socks[i].netns = netns;
	return p->nr_socks++;
}

static int open_ports(struct probe *p, char *list)
{
	char *word, *rest = NULL;

	for (word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		struct port *port = &p->ports[p->nr_ports];

		if (p->nr_ports == MAX_PORTS)
			return bad("too many ports", word);
		if (sscanf(word, "%107[^:]:%15[^:]", port->netns, port->ifname) != 2)
			return bad("not NAMESPACE:DEVICE", word);
		port->sock = sock_of(p, port->netns);
		if (port->sock < 0)
			return -1;
		port->ifindex = nl_ifindex(&p->socks[port->sock].nl, port->ifname);
		if (port->ifindex < 0)
			return bad("no such device", word);
		p->nr_ports++;
	}
	return 0;
}

static bool row_ok(const struct probe *p, const struct row *row, const char *line)
{
	if (p->nr_rows && row->t_ns < row[-1].t_ns)
		return bad("not in order of time", line), false;
	if (row->length && (row->length < FRAME_MIN || row->length > FRAME_MAX))
		return bad("length is not in 60 .. 1514", line), false;
	if (row->flags & ROW_ASKS && row->length < ASKS_MIN)
		return bad("a frame that asks is shorter than 124", line), false;
	if ((int)row->sender >= p->nr_senders || (int)row->receiver >= p->nr_receivers)
		return bad("no such sender or receiver", line), false;
	if (row->dscp >= TC_PORT_DSCPS)
		return bad("a DSCP is below 64", line), false;
	return true;
}

/* 1: a schedule was read; 0: there are no more. */
static int read_schedule(struct probe *p)
{
	char line[128];

	p->nr_rows = 0;
	while (fgets(line, sizeof(line), stdin)) {
		struct row *row = &p->rows[p->nr_rows];

		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "run"))
			return 1;
		if (p->nr_rows == MAX_ROWS)
			return bad("too many rows", line);
		row->dscp = row->receiver = 0;
		if (sscanf(line, "%" SCNd64 ",%u,%u,%u,%u,%u,%u", &row->t_ns, &row->sender, &row->length,
			   &row->flags, &row->seq, &row->dscp, &row->receiver) < 5)
			return bad("not t_ns,sender,length,flags,seq", line);
		if (!row_ok(p, row, line))
			return -1;
		p->nr_rows++;
	}
	return p->nr_rows ? bad("a schedule without its", "run") : 0;
}

static int send_frame(struct probe *p, const struct row *row)
{
	static unsigned char payload[FRAME_MAX];
	struct sender *s = &p->senders[row->sender];
	struct tag tag = { .run = p->run, .seq = row->seq };
	struct asking asking = { .nic = { LAB_INT_VERSION, LAB_INT_WRITE, LAB_INT_FLAG }, .tag = tag };
	struct sockaddr_in to = p->receivers[row->receiver].to;
	struct iovec iov = { payload, row->length - HEADERS_LEN };
	unsigned char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct cmsghdr *c = (struct cmsghdr *)control;
	struct msghdr msg = {
		.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int tos = (int)row->dscp << 2 | (row->flags & ROW_ECT ? IPTOS_ECN_ECT0 : IPTOS_ECN_NOT_ECT);

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
			       .cmsg_level = IPPROTO_IP,
			       .cmsg_type = IP_TOS };
	memcpy(CMSG_DATA(c), &tos, sizeof(tos));
	if (row->flags & ROW_ASKS) {
		to.sin_port = htons(LAB_INT_UDP);
		memcpy(payload, &asking, sizeof(asking));
	} else {
		memcpy(payload, &tag, sizeof(tag));
	}
	if (sendmsg(s->fd, &msg, 0) < 0)
		return fail("send", "a frame");
	s->seqs[s->sent++ - s->run_first] = row->seq;
	return 0;
}

struct visit {
	const struct probe *p;
	int sock;
	struct qdisc *samples;
	struct whole *wholes;
};

static void keep_whole(struct whole *w, const struct nl_attr *app)
{
	if (!app->data || app->len < sizeof(w->port) || app->len > sizeof(w->port) + sizeof(w->class))
		return;
	memcpy(&w->port, app->data, sizeof(w->port));
	w->classes = (app->len - sizeof(w->port)) / sizeof(w->class[0]);
	memcpy(w->class, app->data + sizeof(w->port), w->classes * sizeof(w->class[0]));
}

static int visit_qdisc(const unsigned char *payload, size_t len, void *arg)
{
	const struct visit *v = arg;
	struct qdisc q;
	int rc = qdisc_parse(payload, len, &q);

	if (rc)
		return rc;
	for (int i = 0; i < v->p->nr_ports; i++)
		if (v->p->ports[i].sock == v->sock && v->p->ports[i].ifindex == q.ifindex &&
		    q.place == QDISC_ROOT) {
			v->samples[i] = q;
			if (v->wholes)
				keep_whole(&v->wholes[i], &q.app);
		}
	return 0;
}

static int sample(struct probe *p)
{
	size_t first = p->nr_samples * (size_t)p->nr_ports;
	struct visit v = { .p = p,
			   .samples = p->samples + first,
			   .wholes = p->wholes ? p->wholes + first : NULL };

	for (v.sock = 0; v.sock < p->nr_socks; v.sock++) {
		int rc = nl_dump_qdiscs(&p->socks[v.sock].nl, visit_qdisc, &v);

		if (rc) {
			errno = -rc;
			return fail("read the queues of", p->socks[v.sock].netns);
		}
	}
	p->nr_samples++;
	return 0;
}

/* Before the run, because memory takes time. */
static int make_room(struct probe *p)
{
	size_t samples = 0;
	bool all = false;

	for (size_t i = 0; i < p->nr_rows; i++)
		if (!p->rows[i].length) {
			samples++;
			all |= p->rows[i].flags & ROW_ALL;
		}
	free(p->samples);
	free(p->wholes);
	p->samples = calloc(samples * (size_t)p->nr_ports + 1, sizeof(*p->samples));
	p->wholes = all ? calloc(samples * (size_t)p->nr_ports, sizeof(*p->wholes)) : NULL;
	return !p->samples || (all && !p->wholes) ? fail("allocate", "samples") : 0;
}

static int play(struct probe *p)
{
	int64_t now_ns = -1;

	if (make_room(p))
		return -1;
	p->run++;
	p->nr_samples = 0;
	for (int i = 0; i < p->nr_senders; i++)
		p->senders[i].run_first = p->senders[i].sent;
	p->start_ns = (clock_ns(CLOCK_MONOTONIC) / LEAD_NS + 2) * LEAD_NS;
	for (size_t i = 0; i < p->nr_rows; i++) {
		const struct row *row = &p->rows[i];

		if (row->t_ns != now_ns)
			sleep_until((uint64_t)(p->start_ns + row->t_ns));
		now_ns = row->t_ns;
		if (row->length ? send_frame(p, row) : sample(p))
			return -1;
	}
	return 0;
}

static int receive_haul(int fd, int flags, struct haul *b)
{
	for (int i = 0; i < BATCH; i++) {
		b->iov[i] = (struct iovec){ &b->data[i], sizeof(b->data[i]) };
		b->msgs[i].msg_hdr = (struct msghdr){
			.msg_iov = &b->iov[i],
			.msg_iovlen = 1,
			.msg_control = &b->control[i],
			.msg_controllen = CONTROL_LEN,
		};
	}
	return recvmmsg(fd, b->msgs, BATCH, flags | MSG_DONTWAIT | MSG_TRUNC, NULL);
}

static const void *control_data(struct msghdr *msg, int level, int type)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == level && c->cmsg_type == type)
			return CMSG_DATA(c);
	return NULL;
}

static int64_t stamp_of(const struct probe *p, struct msghdr *msg)
{
	const void *data = control_data(msg, SOL_SOCKET, SCM_TIMESTAMPING);
	struct scm_timestamping stamps;

	if (!data)
		return -1;
	memcpy(&stamps, data, sizeof(stamps));
	return stamps.ts[0].tv_sec * NS + stamps.ts[0].tv_nsec - p->real_minus_mono - p->start_ns;
}

static void print_departure(const struct probe *p, const struct sender *s, struct msghdr *msg)
{
	const void *data = control_data(msg, IPPROTO_IP, IP_RECVERR);
	struct sock_extended_err err;
	uint32_t nr;

	if (!data)
		return;
	memcpy(&err, data, sizeof(err));
	nr = err.ee_data - s->run_first;
	if (err.ee_origin == SO_EE_ORIGIN_TIMESTAMPING && nr < s->sent - s->run_first)
		printf("d,%u,%" PRId64 "\n", s->seqs[nr], stamp_of(p, msg));
}

static void print_arrival(const struct probe *p, const struct tag *tag, struct msghdr *msg, unsigned int len)
{
	const unsigned char *tos = control_data(msg, IPPROTO_IP, IP_TOS);

	if (tag->run == p->run)
		printf("a,%u,%" PRId64 ",%d,%u\n", tag->seq, stamp_of(p, msg),
		       tos ? *tos & IPTOS_ECN_MASK : -1, len + HEADERS_LEN);
}

static int print_departures(const struct probe *p, const struct sender *s)
{
	static struct haul b;
	int n;

	do {
		n = receive_haul(s->fd, MSG_ERRQUEUE, &b);
		for (int i = 0; i < n; i++)
			print_departure(p, s, &b.msgs[i].msg_hdr);
	} while (n == BATCH);
	return n < 0 && errno != EAGAIN ? fail("read", "departures") : 0;
}

static void print_telemetry(const struct probe *p, const struct asking *asking)
{
	if (asking->tag.run != p->run)
		return;
	printf("i,%u", asking->tag.seq);
	for (int i = 0; i < LAB_INT_HOPS && i < ntohs(asking->telemetry.hops); i++)
		printf(",%016" PRIx64, be64toh(asking->telemetry.hop[i]));
	putchar('\n');
}

static int print_arrivals(const struct probe *p, int fd, bool asked)
{
	static struct haul b;
	int n;

	do {
		n = receive_haul(fd, 0, &b);
		for (int i = 0; i < n; i++) {
			struct tag tag = b.data[i].tag;

			if (!asked)
				memcpy(&tag, &b.data[i], sizeof(tag));
			print_arrival(p, &tag, &b.msgs[i].msg_hdr, b.msgs[i].msg_len);
			if (asked)
				print_telemetry(p, &b.data[i]);
		}
	} while (n == BATCH);
	return n < 0 && errno != EAGAIN ? fail("read", "arrivals") : 0;
}

static void print_sample(const struct probe *p, int64_t t_ns, const struct qdisc *q)
{
	printf("b,%" PRId64, t_ns);
	for (int port = 0; port < p->nr_ports; port++)
		printf(",%u", q[port].backlog_bytes);
	putchar('\n');
	for (int port = 0; port < p->nr_ports; port++)
		printf("s,%" PRId64 ",%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", t_ns,
		       port, q[port].marks, q[port].ce_bytes, q[port].queue_byte_ns, q[port].busy_ns,
		       q[port].longest_bytes);
}

static void print_whole(int64_t t_ns, int port, const struct whole *w)
{
	const uint64_t *values = (const uint64_t *)&w->port;
	size_t nr = offsetof(struct tc_port_xstats, classes) / sizeof(*values);

	printf("x,%" PRId64 ",%d", t_ns, port);
	for (size_t i = 0; i < nr; i++)
		printf(",%" PRIu64, values[i]);
	printf(",%u,%u", w->port.classes, w->port.paused_classes);
	values = (const uint64_t *)w->class;
	nr = w->classes * sizeof(w->class[0]) / sizeof(*values);
	for (size_t i = 0; i < nr; i++)
		printf(",%" PRIu64, values[i]);
	putchar('\n');
}

static void print_samples(const struct probe *p)
{
	size_t first = 0;

	for (size_t i = 0; i < p->nr_rows; i++) {
		const struct row *row = &p->rows[i];

		if (row->length)
			continue;
		if (!(row->flags & ROW_ALL))
			print_sample(p, row->t_ns, p->samples + first);
		for (int port = 0; row->flags & ROW_ALL && port < p->nr_ports; port++)
			print_whole(row->t_ns, port, &p->wholes[first + (size_t)port]);
		first += (size_t)p->nr_ports;
	}
}

static int answer(const struct probe *p)
{
	printf("start,%" PRId64 "\n", p->start_ns);
	for (int i = 0; i < p->nr_senders; i++)
		if (print_departures(p, &p->senders[i]))
			return -1;
	for (int i = 0; i < p->nr_receivers; i++)
		if (print_arrivals(p, p->receivers[i].fd, false) ||
		    print_arrivals(p, p->receivers[i].asked, true))
			return -1;
	print_samples(p);
	printf("end\n");
	return fflush(stdout);
}

static int open_all(struct probe *p, const struct names *names)
{
	/* For its exact timers: others are late by their slack, which is 1 ns at least. */
	const struct sched_param priority = { .sched_priority = 1 };

	if (open_receivers(p, strdupa(names->addresses), strdupa(names->receivers)) ||
	    open_senders(p, strdupa(names->senders)) || open_ports(p, strdupa(names->ports)))
		return -1;
	p->rows = calloc(MAX_ROWS, sizeof(*p->rows));
	if (!p->rows)
		return fail("allocate", "the schedule");
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		return fail("become", "SCHED_FIFO");
	p->real_minus_mono = real_minus_mono();
	return 0;
}

int main(int argc, char **argv)
{
	static struct probe probe;
	struct names names = { 0 };
	const struct program_option options[] = {
		{ "address", "IPV4,IPV4,...", "of each receiver, the same for all senders",
		  .text = &names.addresses, .required = true },
		{ "receiver", "PATH,PATH,...", "their network namespaces", .text = &names.receivers,
		  .required = true },
		{ "senders", "PATH,PATH,...", "namespaces of the senders", .text = &names.senders,
		  .required = true },
		{ "ports", "PATH:DEVICE,...", "where to sample the backlog", .text = &names.ports,
		  .required = true },
		{ 0 },
	};
	int rc = options_read(argc, argv, options, "");

	if (rc)
		return rc;
	if (open_all(&probe, &names))
		return EXIT_FAILED;
	while ((rc = read_schedule(&probe)) > 0)
		if (play(&probe) || answer(&probe))
			return EXIT_FAILED;
	return rc < 0 ? EXIT_USAGE : 0;
}
