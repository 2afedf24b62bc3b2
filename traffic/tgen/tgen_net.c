/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_net.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DSCP_AT 2 /* in IP's second byte, above ECN */

static int read_longs(const char *file, long value[3])
{
	FILE *f = fopen(file, "re");
	int n;

	if (!f)
		return -errno;
	n = fscanf(f, "%ld %ld %ld", &value[0], &value[1], &value[2]);
	fclose(f);
	return n == 3 ? 0 : -EPROTO;
}

int net_limits_read(struct net_limits *limits)
{
	long v[3];
	int rc;

	rc = read_longs("/proc/sys/net/ipv4/tcp_wmem", v);
	if (rc)
		return rc;
	limits->sndbuf = (int)v[2];
	rc = read_longs("/proc/sys/net/ipv4/tcp_rmem", v);
	if (rc)
		return rc;
	limits->rcvbuf = (int)v[2];
	return 0;
}

long net_tcp_memory(void)
{
	long v[3];
	int rc = read_longs("/proc/sys/net/ipv4/tcp_mem", v);

	return rc ? rc : v[0] * sysconf(_SC_PAGESIZE);
}

static struct sockaddr_in sockaddr(struct net_end end)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = end.addr,
				     .sin_port = htons(end.port) };
}

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int bind_to(int fd, struct net_end end)
{
	struct sockaddr_in addr = sockaddr(end);
	int rc = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (rc)
		return rc;
	return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
}

static int set_controller(int fd, const char *cc)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc)) < 0 ? -errno : 0;
}

/* The kernel doubles what it is told. */
static int prepare_listener(int fd, struct net_end at, const char *cc, const struct net_limits *limits,
			    int batch, const char **step)
{
	int rc;

	*step = "TCP_CONGESTION";
	rc = set_controller(fd, cc);
	if (rc)
		return rc;
	*step = "SO_RCVBUFFORCE";
	rc = set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, limits->rcvbuf / 2);
	if (rc)
		return rc;
	*step = "SO_RCVLOWAT"; /* accepted sockets inherit it */
	rc = net_set_batch(fd, batch);
	if (rc)
		return rc;
	*step = "bind";
	rc = bind_to(fd, at);
	if (rc)
		return rc;
	*step = "listen";
	return listen(fd, UINT16_MAX) < 0 ? -errno : 0;
}

static int tcp_socket(const char **step)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*step = "socket";
	return fd < 0 ? -errno : fd;
}

int net_listen(struct net_end at, const char *cc, const struct net_limits *limits, int batch,
	       const char **step)
{
	int fd, rc;

	fd = tcp_socket(step);
	if (fd < 0)
		return fd;
	rc = prepare_listener(fd, at, cc, limits, batch, step);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* --- by planned calls -------------------------------------------------------------------------------- */

static void plan_option(struct calls *calls, const char *name, int level, int option, const int *value)
{
	calls_add(calls, name, SYS_setsockopt,
		  (__u64[6]){ 0, (__u64)level, (__u64)option, (uintptr_t)value, sizeof(*value) });
	calls_take_opened(calls, 0);
}

static void plan_tcp(struct calls *calls, struct net_plan *plan, const struct net_sender *sender)
{
	plan->sndbuf = sender->limits->sndbuf / 2; /* the kernel doubles it */
	plan->ahead = sender->ahead;
	plan->acks = sender->acks;
	calls_add(calls, "TCP_CONGESTION", SYS_setsockopt,
		  (__u64[6]){ 0, IPPROTO_TCP, TCP_CONGESTION, (uintptr_t)sender->cc, strlen(sender->cc) });
	calls_take_opened(calls, 0);
	plan_option(calls, "SO_SNDBUFFORCE", SOL_SOCKET, SO_SNDBUFFORCE, &plan->sndbuf);
	plan_option(calls, "TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, &plan->ahead);
	if (plan->acks)
		plan_option(calls, "TCP_LAB_ACKS", IPPROTO_TCP, TCP_LAB_ACKS, &plan->acks);
}

/* IP_TOS also changes the socket's priority; a host's queue shall not tell classes apart by that. ECN stays
 * the kernel's. */
static void plan_dscp(struct calls *calls, struct net_plan *plan, uint8_t dscp)
{
	plan->tos = dscp << DSCP_AT;
	plan->priority = 0;
	plan_option(calls, "IP_TOS", IPPROTO_IP, IP_TOS, &plan->tos);
	plan_option(calls, "SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, &plan->priority);
}

void net_plan_sender(struct calls *calls, struct net_plan *plan, const struct net_sender *sender)
{
	int type = sender->cc ? SOCK_STREAM : SOCK_DGRAM;

	plan->from = sockaddr(sender->from);
	plan->to = sockaddr(sender->to);
	plan->reuse = 1;
	plan->opened = calls_add(calls, "socket", SYS_socket,
				 (__u64[6]){ AF_INET, (__u64)(type | SOCK_NONBLOCK | SOCK_CLOEXEC) });
	if (sender->cc)
		plan_tcp(calls, plan, sender);
	plan_option(calls, "SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, &plan->reuse);
	calls_add(calls, "bind", SYS_bind, (__u64[6]){ 0, (uintptr_t)&plan->from, sizeof(plan->from) });
	calls_take_opened(calls, 0);
	if (sender->dscp)
		plan_dscp(calls, plan, sender->dscp);
}

void net_plan_connect(struct calls *calls, struct net_plan *plan)
{
	calls_add(calls, "connect", SYS_connect, (__u64[6]){ 0, (uintptr_t)&plan->to, sizeof(plan->to) });
	calls_take_opened(calls, 0);
}

void net_plan_watch(struct calls *calls, struct net_plan *plan, int fd, int epoll, struct epoll_event event)
{
	plan->event = event;
	calls_add(calls, "epoll_ctl", SYS_epoll_ctl,
		  (__u64[6]){ (__u64)epoll, EPOLL_CTL_ADD, (__u64)fd, (uintptr_t)&plan->event });
	if (fd < 0)
		calls_take_opened(calls, 2);
}

void net_plan_batch(struct calls *calls, struct net_plan *plan, int fd, int batch)
{
	plan->batch = batch;
	calls_add(calls, "SO_RCVLOWAT", SYS_setsockopt,
		  (__u64[6]){ (__u64)fd, SOL_SOCKET, SO_RCVLOWAT, (uintptr_t)&plan->batch,
			      sizeof(plan->batch) });
}

void net_plan_close(struct calls *calls, int fd)
{
	calls_add(calls, "close", SYS_close, (__u64[6]){ (__u64)fd });
}

int net_try_sender(struct calls *calls, const struct net_sender *sender, const char **step)
{
	struct net_plan plan;
	int rc;

	net_plan_sender(calls, &plan, sender);
	if (!sender->cc)
		net_plan_connect(calls, &plan); /* it sends nothing */
	rc = calls_failed(calls, calls_run(calls), step);
	if (*plan.opened >= 0)
		close((int)*plan.opened);
	return rc;
}

int net_accept(int listener, struct net_end *peer)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = accept4(listener, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return -errno;
	*peer = (struct net_end){ addr.sin_addr.s_addr, ntohs(addr.sin_port) };
	return fd;
}

static int udp_socket(const char **step)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*step = "socket";
	return fd < 0 ? -errno : fd;
}

int net_sink(struct net_end at, const struct net_limits *limits, const char **step)
{
	int fd, rc;

	fd = udp_socket(step);
	if (fd < 0)
		return fd;
	*step = "SO_RCVBUFFORCE";
	rc = set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, limits->rcvbuf / 2);
	if (!rc) {
		*step = "bind";
		rc = bind_to(fd, at);
	}
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* A call that finds nothing would fail and so take virtual time: FIONREAD tells, and drops wrong checksums.
 */
int net_receive(int fd, struct net_datagram out[NET_BATCH])
{
	struct mmsghdr messages[NET_BATCH] = { 0 };
	struct sockaddr_in from[NET_BATCH];
	int waiting = 0, n;

	if (ioctl(fd, FIONREAD, &waiting) < 0)
		return -errno;
	if (!waiting)
		return 0;
	for (int i = 0; i < NET_BATCH; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &from[i], .msg_namelen = sizeof(from[i]) };
	n = recvmmsg(fd, messages, NET_BATCH, MSG_TRUNC, NULL);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	for (int i = 0; i < n; i++)
		out[i] = (struct net_datagram){ { from[i].sin_addr.s_addr, ntohs(from[i].sin_port) },
						messages[i].msg_len };
	return n;
}

int net_set_ahead(int fd, int ahead)
{
	return set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, ahead);
}

int net_set_batch(int fd, int batch)
{
	return set_int(fd, SOL_SOCKET, SO_RCVLOWAT, batch);
}

int net_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	return -error;
}

void net_abort(int *fd)
{
	const struct linger now = { .l_onoff = 1 };

	if (*fd < 0)
		return;
	setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(*fd);
	*fd = -1;
}

/* The last field that is used; kernels before 4.9 end earlier. */
static int check_length(socklen_t length)
{
	struct tcp_info info;

	return length < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof(info.tcpi_delivery_rate)
		       ? -EPROTO
		       : 0;
}

int net_tcp_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) < 0)
		return -errno;
	return check_length(len);
}

void net_plan_tcp_info(struct calls *calls, int fd, struct net_tcp_look *look)
{
	look->length = sizeof(look->info);
	look->result = calls_add(calls, "TCP_INFO", SYS_getsockopt,
				 (__u64[6]){ (__u64)fd, IPPROTO_TCP, TCP_INFO, (uintptr_t)&look->info,
					     (uintptr_t)&look->length });
}

int net_finish_tcp_info(const struct net_tcp_look *look)
{
	return *look->result < 0 ? (int)*look->result : check_length(look->length);
}
