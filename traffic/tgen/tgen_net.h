/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of tgen. Everything answers a descriptor, 0 or -errno; *step then names the call that failed.
 */
#ifndef TGEN_NET_H
#define TGEN_NET_H

#include "calls.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* One end of a connection: addr in network byte order, port in host byte order. */
struct net_end {
	uint32_t addr;
	uint16_t port;
};

/*
 * Buffers. Autotuning would let a socket's buffers grow up to the last number of tcp_wmem and tcp_rmem; a
 * socket of ours has that much from its first byte, so that a flow is limited by its congestion window, by
 * nothing that depends on how often its application is woken. What really lies in the buffers is bounded by
 * TCP_NOTSENT_LOWAT at the sender (`ahead` bytes not yet sent) and SO_RCVLOWAT at the receiver (`batch` bytes
 * not yet read).
 */
struct net_limits {
	int sndbuf, rcvbuf; /* limits in the process' namespace */
};

int net_limits_read(struct net_limits *limits);
long net_tcp_memory(void); /* bytes that all sockets may hold before the kernel feels pressure; -errno */

int net_listen(struct net_end at, const char *cc, const struct net_limits *limits, int batch,
	       const char **step);
int net_accept(int listener, struct net_end *peer);

/* A sender's socket, of TCP or for datagrams. */
struct net_sender {
	struct net_end from, to;
	const char *cc;                  /* NULL: datagrams */
	const struct net_limits *limits; /* of TCP */
	int ahead;                       /* likewise */
	int acks;                        /* likewise: the value of TCP_LAB_ACKS; 0: none */
	uint8_t dscp;
};

/* At what planned calls point until they are run. */
struct net_plan {
	struct sockaddr_in from, to;
	int sndbuf, ahead, acks, reuse, tos, priority, batch;
	struct epoll_event event;
	const __s64 *opened; /* the descriptor, or a negative number */
};

/* Calls for run->calls: a socket is opened and bound, and what it then does. Where `fd` is -1 it is the
 * socket that the list has opened. */
void net_plan_sender(struct calls *calls, struct net_plan *plan, const struct net_sender *sender);
void net_plan_connect(struct calls *calls, struct net_plan *plan);
void net_plan_watch(struct calls *calls, struct net_plan *plan, int fd, int epoll, struct epoll_event event);
void net_plan_batch(struct calls *calls, struct net_plan *plan, int fd, int batch);
void net_plan_close(struct calls *calls, int fd);
/* Opens a sender and closes it again: 0, or the error of the call that *step names. */
int net_try_sender(struct calls *calls, const struct net_sender *sender, const char **step);

/* Datagrams: a receiver for all who send to it. */
#define NET_BATCH 64
struct net_datagram {
	struct net_end from;
	uint32_t bytes;
};
int net_sink(struct net_end at, const struct net_limits *limits, const char **step);
int net_receive(int fd, struct net_datagram out[NET_BATCH]); /* their number; 0: none has arrived; fewer than
							      * NET_BATCH: no more has */

int net_set_ahead(int fd, int ahead);
int net_set_batch(int fd, int batch);
int net_error(int fd);   /* the value of SO_ERROR, as -errno */
void net_abort(int *fd); /* closes it with a reset, and what it holds is lost; -1 is fine */
int net_tcp_info(int fd, struct tcp_info *info);

/* The same by calls that are carried out together: planned, and its result after calls_run(). */
struct net_tcp_look {
	struct tcp_info info;
	socklen_t length;
	const __s64 *result;
};
void net_plan_tcp_info(struct calls *calls, int fd, struct net_tcp_look *look);
int net_finish_tcp_info(const struct net_tcp_look *look);

#endif
