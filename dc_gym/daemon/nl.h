/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A netlink socket that dumps qdiscs and changes them, and the walk over what comes back.
 *
 * nl_walk() and nl_attr_next() are pure functions over a buffer: every length is checked before what
 * it covers is read, and nothing needs to be aligned. All functions return 0 (or what they say) or
 * -errno; malformed input is -EBADMSG.
 */
#ifndef NL_H
#define NL_H

#include "batch.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nl_sock {
	int fd;
	uint32_t portid;    /* the kernel's replies carry it */
	uint32_t seq;       /* of the last request */
	uint32_t dumped;    /* seq of the last dump that came to its end: requests since are changes */
	bool refused;       /* what ended the last dump is the refusal of such a change */
	uint32_t datagrams; /* that the last dump took */
	uint32_t first_op, n_reads; /* of a dump that is part of a batch */
	struct nl_ring *ring;
};

#define NL_DATAGRAMS 8 /* received with one call */
#define NL_MAX_OPS   (1 + NL_DATAGRAMS)

#define NL_SOCK_INIT                                                                                         \
	{                                                                                                    \
		.fd = -1                                                                                     \
	}

/* One attribute; data points into the buffer that was walked. */
struct nl_attr {
	uint16_t type; /* without the nested and byte order flags */
	size_t len;
	const unsigned char *data;
};

enum nl_seen {
	NL_DONE = 1,    /* the dump is over */
	NL_INTR = 2,    /* it was interrupted by a change: repeat it */
	NL_REFUSED = 4, /* what ended the walk is the refusal of an earlier change */
};

/* Called with the payload of one RTM_NEWQDISC; what it returns other than 0 ends the walk. */
typedef int (*nl_visit)(const unsigned char *payload, size_t len, void *arg);

/* A socket in the namespace at `netns` ("-": the present one), to which the process returns. */
int nl_open(struct nl_sock *s, const char *netns);
void nl_close(struct nl_sock *s);

/* A socket for generic netlink in the present namespace: only nl_change() is of use with it. */
int nl_open_generic(struct nl_sock *s);

/* Index of an interface in the socket's namespace, > 0. */
int nl_ifindex(const struct nl_sock *s, const char *ifname);

/* Dump all qdiscs once. -EAGAIN: the dump is over but has holes; throw it away and repeat. */
int nl_dump_qdiscs(struct nl_sock *s, nl_visit visit, void *arg);

/*
 * The same with the dumps of other sockets as one batch: plan each, run the batch, finish each. A plan takes
 * at most NL_MAX_OPS operations.
 */
void nl_plan_dump(struct nl_sock *s, struct batch *b);
int nl_finish_dump(struct nl_sock *s, const struct batch *b, nl_visit visit, void *arg);

/* Send one request and wait for its result; its number is filled in. */
int nl_change(struct nl_sock *s, struct nlmsghdr *request);

/* Send a request that has one message as its answer, and receive that: its length, or -errno; -EAGAIN if the
 * kernel does not answer. */
int nl_ask(struct nl_sock *s, struct nlmsghdr *request, void *answer, size_t room);

/*
 * Add a request that asks for no acknowledgement to a batch: the operation's number. The kernel carries it
 * out before the batch is over. A refusal comes with the next dump, as the error of that, with s->refused
 * set.
 */
uint32_t nl_plan_change(struct nl_sock *s, struct batch *b, struct nlmsghdr *request);

/* Walk the messages of one datagram from the kernel; adds enum nl_seen bits to *seen. */
int nl_walk(const unsigned char *buf, size_t len, const struct nl_sock *s, nl_visit visit, void *arg,
	    unsigned int *seen);

/* Take the next attribute off [*pos, *pos + *left): 1 if there was one, 0 at the end. */
int nl_attr_next(const unsigned char **pos, size_t *left, struct nl_attr *attr);

#endif
