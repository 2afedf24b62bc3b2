// SPDX-License-Identifier: Apache-2.0
/* Sockets in other network namespaces: see netns.h. */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int socket_here(int domain, int type, int protocol)
{
	int fd = socket(domain, type, protocol);

	return fd < 0 ? -errno : fd;
}

static int socket_there(const char *netns, int domain, int type, int protocol)
{
	int fd, there = -1;
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (here < 0)
		return -errno;
	there = open(netns, O_RDONLY | O_CLOEXEC);
	if (there < 0 || setns(there, CLONE_NEWNET)) {
		fd = -errno;
		goto out;
	}
	fd = socket_here(domain, type, protocol);
	if (setns(here, CLONE_NEWNET) && fd >= 0) {
		int rc = -errno;

		close(fd);
		fd = rc;
	}
out:
	if (there >= 0)
		close(there);
	close(here);
	return fd;
}

int netns_socket(const char *netns, int domain, int type, int protocol)
{
	return strcmp(netns, "-") ? socket_there(netns, domain, type, protocol)
				  : socket_here(domain, type, protocol);
}
