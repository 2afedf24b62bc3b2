// SPDX-License-Identifier: Apache-2.0
/* Netlink for qmon and agentd: see nl.h. A dump by itself takes two system calls: send, and one recvmmsg for
 * all of it. */
#include "nl.h"

#include "netns.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel fills datagrams of a dump up to 32 kB if it has once seen a receive buffer as large
 * (netlink_dump, max_recvmsg_len), which is about 100 qdiscs. */
#define DATAGRAM_LEN 32768

struct dump_request {
	struct nlmsghdr h;
	struct tcmsg tc;
};

struct nl_ring {
	struct dump_request request;
	struct mmsghdr msgs[NL_DATAGRAMS];
	struct iovec iov[NL_DATAGRAMS];
	struct sockaddr_nl from[NL_DATAGRAMS];
	unsigned char data[NL_DATAGRAMS][DATAGRAM_LEN];
};

static struct nl_ring *ring_new(void)
{
	struct nl_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	for (int i = 0; i < NL_DATAGRAMS; i++) {
		ring->iov[i] = (struct iovec){ ring->data[i], DATAGRAM_LEN };
		ring->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &ring->from[i],
			.msg_iov = &ring->iov[i],
			.msg_iovlen = 1,
		};
	}
	return ring;
}

static int set_options(int fd)
{
	const int on = 1, rcvbuf = NL_DATAGRAMS * DATAGRAM_LEN;

	/* Strict: the kernel refuses what it would otherwise ignore in the request. */
	if (setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on)))
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf)))
		return -errno;
	return 0;
}

static int bind_socket(struct nl_sock *s)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK };
	socklen_t len = sizeof(addr);

	if (bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	/* To the kernel: nobody else can send us anything now. */
	if (connect(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	if (getsockname(s->fd, (struct sockaddr *)&addr, &len))
		return -errno;
	s->portid = addr.nl_pid;
	return 0;
}

static int open_socket(struct nl_sock *s, const char *netns, int protocol)
{
	int rc;

	s->ring = ring_new();
	if (!s->ring)
		return -ENOMEM;
	s->fd = netns_socket(netns, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (s->fd < 0)
		return s->fd;
	rc = set_options(s->fd);
	return rc ? rc : bind_socket(s);
}

static int open_whole(struct nl_sock *s, const char *netns, int protocol)
{
	int rc;

	*s = (struct nl_sock)NL_SOCK_INIT;
	rc = open_socket(s, netns, protocol);
	if (rc)
		nl_close(s);
	return rc;
}

int nl_open(struct nl_sock *s, const char *netns)
{
	return open_whole(s, netns, NETLINK_ROUTE);
}

int nl_open_generic(struct nl_sock *s)
{
	return open_whole(s, "-", NETLINK_GENERIC);
}

void nl_close(struct nl_sock *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->ring);
	*s = (struct nl_sock)NL_SOCK_INIT;
}

int nl_ifindex(const struct nl_sock *s, const char *ifname)
{
	struct ifreq ifr = { 0 };
	size_t len = strlen(ifname);

	if (len >= sizeof(ifr.ifr_name))
		return -ENAMETOOLONG;
	memcpy(ifr.ifr_name, ifname, len);
	/* A netlink socket passes this on to the devices of the namespace it was made in. */
	if (ioctl(s->fd, SIOCGIFINDEX, &ifr))
		return -errno;
	return ifr.ifr_ifindex;
}

static int send_all(struct nl_sock *s, const void *buf, size_t len)
{
	ssize_t n = send(s->fd, buf, len, 0);

	if (n < 0)
		return -errno;
	return n == (ssize_t)len ? 0 : -EIO;
}

/* It stays where it is: a batch sends it later. */
static const struct dump_request *next_request(struct nl_sock *s)
{
	s->ring->request = (struct dump_request){
		.h.nlmsg_len = sizeof(struct dump_request),
		.h.nlmsg_type = RTM_GETQDISC,
		.h.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		.h.nlmsg_seq = ++s->seq,
		.tc.tcm_family = AF_UNSPEC,
	};
	return &s->ring->request;
}

int nl_change(struct nl_sock *s, struct nlmsghdr *request)
{
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
	} answer;
	ssize_t n;
	int rc;

	request->nlmsg_seq = ++s->seq;
	request->nlmsg_flags |= NLM_F_ACK;
	rc = send_all(s, request, request->nlmsg_len);
	request->nlmsg_flags &= (uint16_t)~NLM_F_ACK;
	if (rc)
		return rc;
	do {
		n = recv(s->fd, &answer, sizeof(answer), 0); /* the rest of a long one says no more */
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(answer) || answer.h.nlmsg_type != NLMSG_ERROR || answer.h.nlmsg_seq != s->seq)
		return -EPROTO;
	s->dumped = s->seq;
	return answer.e.error > 0 ? -EPROTO : answer.e.error;
}

/* NLMSG_ERROR in place of the answer: why there is none. */
static int refusal_in(const void *answer, ssize_t n)
{
	struct nlmsghdr h;
	int32_t code;

	if (n < (ssize_t)sizeof(h))
		return -EBADMSG;
	memcpy(&h, answer, sizeof(h));
	if (h.nlmsg_type != NLMSG_ERROR)
		return 0;
	if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(code)))
		return -EBADMSG;
	memcpy(&code, (const unsigned char *)answer + NLMSG_HDRLEN, sizeof(code));
	return code < 0 && code >= -4095 ? code : -EPROTO;
}

int nl_ask(struct nl_sock *s, struct nlmsghdr *request, void *answer, size_t room)
{
	ssize_t n;
	int rc;

	request->nlmsg_seq = ++s->seq;
	rc = send_all(s, request, request->nlmsg_len);
	if (rc)
		return rc;
	do {
		n = recv(s->fd, answer, room, MSG_TRUNC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > (ssize_t)room)
		return -EMSGSIZE;
	s->dumped = s->seq;
	rc = refusal_in(answer, n);
	return rc ? rc : (int)n;
}

uint32_t nl_plan_change(struct nl_sock *s, struct batch *b, struct nlmsghdr *request)
{
	request->nlmsg_seq = ++s->seq;
	return batch_write(b, s->fd, request, request->nlmsg_len);
}

/* Receive what is there, at least one datagram: how many. */
static int receive(struct nl_sock *s)
{
	int n;

	for (int i = 0; i < NL_DATAGRAMS; i++)
		s->ring->msgs[i].msg_hdr.msg_namelen = sizeof(s->ring->from[i]);
	do {
		/* WAITFORONE: the first datagram is waited for, the others only taken. */
		n = recvmmsg(s->fd, s->ring->msgs, NL_DATAGRAMS, MSG_WAITFORONE, NULL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int walk_datagram(struct nl_sock *s, int i, nl_visit visit, void *arg, unsigned int *seen)
{
	const struct mmsghdr *m = &s->ring->msgs[i];

	if (m->msg_hdr.msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	if (m->msg_hdr.msg_namelen != sizeof(s->ring->from[i]) || s->ring->from[i].nl_pid != 0)
		return 0; /* not from the kernel */
	return nl_walk(s->ring->data[i], m->msg_len, s, visit, arg, seen);
}

/* The rest of a dump, of which `seen` has been seen. */
static int read_dump(struct nl_sock *s, nl_visit visit, void *arg, unsigned int seen)
{
	int n, rc = 0;

	while (!rc && !(seen & NL_DONE)) {
		n = receive(s);
		if (n == -ENOBUFS) {
			seen |= NL_INTR; /* something was lost: read to the end, then repeat */
			continue;
		}
		if (n < 0)
			return n;
		for (int i = 0; i < n && !rc; i++)
			rc = walk_datagram(s, i, visit, arg, &seen);
		s->datagrams += (uint32_t)n;
	}
	s->refused = seen & NL_REFUSED;
	if (rc)
		return rc;
	s->dumped = s->seq;
	return seen & NL_INTR ? -EAGAIN : 0;
}

int nl_dump_qdiscs(struct nl_sock *s, nl_visit visit, void *arg)
{
	const struct dump_request *request = next_request(s);
	int rc = send_all(s, request, sizeof(*request));

	s->datagrams = 0;
	return rc ? rc : read_dump(s, visit, arg, 0);
}

void nl_plan_dump(struct nl_sock *s, struct batch *b)
{
	const struct dump_request *request = next_request(s);

	/* As many as last time; one that is missing is read by itself, and one too many finds nothing. */
	s->n_reads = s->datagrams < 2 ? 2 : s->datagrams > NL_DATAGRAMS ? NL_DATAGRAMS : s->datagrams;
	s->first_op = batch_write(b, s->fd, request, sizeof(*request));
	for (uint32_t i = 0; i < s->n_reads; i++)
		batch_read(b, s->fd, s->ring->data[i], DATAGRAM_LEN);
}

int nl_finish_dump(struct nl_sock *s, const struct batch *b, nl_visit visit, void *arg)
{
	const int64_t *results = &b->results[s->first_op];
	unsigned int seen = 0;
	int rc = 0;

	if (results[0] != sizeof(struct dump_request))
		return results[0] < 0 ? (int)results[0] : -EIO;
	s->datagrams = 0;
	for (uint32_t i = 0; i < s->n_reads && !rc; i++) {
		int64_t len = results[1 + i];

		if (len == -EAGAIN)
			break;
		s->datagrams++;
		if (len == -ENOBUFS)
			seen |= NL_INTR;
		else if (len < 0 || len == DATAGRAM_LEN) /* longer than any that the kernel makes: cut */
			rc = len < 0 ? (int)len : -EMSGSIZE;
		else
			rc = nl_walk(s->ring->data[i], (size_t)len, s, visit, arg, &seen);
	}
	if (rc) {
		s->refused = seen & NL_REFUSED;
		return rc;
	}
	return read_dump(s, visit, arg, seen);
}

/* NLMSG_ERROR and NLMSG_DONE begin with an int: 0 or -errno. */
static int result_of(const unsigned char *payload, size_t len)
{
	int32_t code;

	if (len < sizeof(code))
		return -EBADMSG;
	memcpy(&code, payload, sizeof(code));
	return code > 0 || code < -4095 ? -EBADMSG : code;
}

static int handle_message(const struct nlmsghdr *h, const unsigned char *payload, nl_visit visit, void *arg,
			  unsigned int *seen)
{
	size_t len = h->nlmsg_len - NLMSG_HDRLEN;
	int rc;

	switch (h->nlmsg_type) {
	case NLMSG_NOOP:
		return 0;
	case NLMSG_ERROR:
		rc = result_of(payload, len);
		return rc ? rc : -EPROTO; /* no acknowledgement was asked for */
	case NLMSG_OVERRUN:
		*seen |= NL_INTR;
		return 0;
	case NLMSG_DONE:
		*seen |= NL_DONE;
		return result_of(payload, len);
	case RTM_NEWQDISC:
		return visit(payload, len, arg);
	default:
		return -EPROTO;
	}
}

/* An error with the number of a change that was sent since the last dump. */
static bool is_refusal(const struct nlmsghdr *h, const struct nl_sock *s)
{
	return h->nlmsg_type == NLMSG_ERROR && h->nlmsg_pid == s->portid &&
	       h->nlmsg_seq - s->dumped - 1 < s->seq - s->dumped - 1;
}

int nl_walk(const unsigned char *buf, size_t len, const struct nl_sock *s, nl_visit visit, void *arg,
	    unsigned int *seen)
{
	while (len > 0) {
		struct nlmsghdr h;
		size_t step;
		int rc;

		if (len < sizeof(h))
			return -EBADMSG;
		memcpy(&h, buf, sizeof(h));
		if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > len)
			return -EBADMSG;
		if (is_refusal(&h, s)) {
			*seen |= NL_REFUSED;
			return result_of(buf + NLMSG_HDRLEN, h.nlmsg_len - NLMSG_HDRLEN) ?: -EPROTO;
		}
		if (h.nlmsg_seq != s->seq || h.nlmsg_pid != s->portid || *seen & NL_DONE)
			return -EPROTO;
		if (h.nlmsg_flags & NLM_F_DUMP_INTR)
			*seen |= NL_INTR;
		rc = handle_message(&h, buf + NLMSG_HDRLEN, visit, arg, seen);
		if (rc)
			return rc;
		step = NLMSG_ALIGN((size_t)h.nlmsg_len);
		if (step > len)
			step = len; /* the last one need not be padded */
		buf += step;
		len -= step;
	}
	return 0;
}

int nl_attr_next(const unsigned char **pos, size_t *left, struct nl_attr *attr)
{
	struct nlattr a;
	size_t step;

	if (*left == 0)
		return 0;
	if (*left < sizeof(a))
		return -EBADMSG;
	memcpy(&a, *pos, sizeof(a));
	if (a.nla_len < NLA_HDRLEN || a.nla_len > *left)
		return -EBADMSG;
	attr->type = a.nla_type & NLA_TYPE_MASK;
	attr->len = a.nla_len - NLA_HDRLEN;
	attr->data = *pos + NLA_HDRLEN;
	step = NLA_ALIGN((size_t)a.nla_len);
	if (step > *left)
		step = *left;
	*pos += step;
	*left -= step;
	return 1;
}
