/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_net.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
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

static int prepare_sender(int fd, struct net_end from, const char *cc, const struct net_limits *limits,
			  int ahead, const char **step)
{
	int rc;

	*step = "TCP_CONGESTION";
	rc = set_controller(fd, cc);
	if (rc)
		return rc;
	*step = "SO_SNDBUFFORCE";
	rc = set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, limits->sndbuf / 2);
	if (rc)
		return rc;
	*step = "TCP_NOTSENT_LOWAT";
	rc = net_set_ahead(fd, ahead);
	if (rc)
		return rc;
	*step = "bind";
	return bind_to(fd, from);
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

int net_sender(struct net_end from, const char *cc, const struct net_limits *limits, int ahead,
	       const char **step)
{
	int fd, rc;

	fd = tcp_socket(step);
	if (fd < 0)
		return fd;
	rc = prepare_sender(fd, from, cc, limits, ahead, step);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int net_connect(int fd, struct net_end to)
{
	struct sockaddr_in addr = sockaddr(to);

	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno != EINPROGRESS)
		return -errno;
	return 0;
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

int net_datagrams(struct net_end from, struct net_end to, const char **step)
{
	int fd, rc;

	fd = udp_socket(step);
	if (fd < 0)
		return fd;
	*step = "bind";
	rc = bind_to(fd, from);
	if (!rc) {
		*step = "connect";
		rc = net_connect(fd, to);
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

/* IP_TOS also changes the socket's priority; a host's queue shall not tell classes apart by that. */
int net_set_dscp(int fd, uint8_t dscp)
{
	int rc = dscp ? set_int(fd, IPPROTO_IP, IP_TOS, dscp << DSCP_AT) : 0;

	return rc || !dscp ? rc : set_int(fd, SOL_SOCKET, SO_PRIORITY, 0);
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
	look->result = calls_add(calls, SYS_getsockopt,
				 (__u64[6]){ (__u64)fd, IPPROTO_TCP, TCP_INFO, (uintptr_t)&look->info,
					     (uintptr_t)&look->length });
}

int net_finish_tcp_info(const struct net_tcp_look *look)
{
	return *look->result < 0 ? (int)*look->result : check_length(look->length);
}
