/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_warm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NTF_COMPLETE 0x2 /* ATF_COM in the flags column of /proc/net/arp */
#define TRIES        100 /* a full queue is waited for so many milliseconds */

static uint32_t sum16(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

void warm_frame(uint8_t frame[WARM_FRAME_LEN], const uint8_t src_mac[6], const uint8_t dst_mac[6],
		struct net_end src, struct net_end dst)
{
	uint8_t *ip = frame + 14, *tcp = ip + 20;

	memset(frame, 0, WARM_FRAME_LEN);
	memcpy(frame, dst_mac, 6);
	memcpy(frame + 6, src_mac, 6);
	put16(frame + 12, ETHERTYPE_IP);
	ip[0] = 0x45;
	put16(ip + 2, 40);
	put16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = 64;
	ip[9] = IPPROTO_TCP;
	memcpy(ip + 12, &src.addr, 4);
	memcpy(ip + 16, &dst.addr, 4);
	put16(ip + 10, fold(sum16(0, ip, 20)));
	put16(tcp, src.port);
	put16(tcp + 2, dst.port);
	tcp[12] = 5 << 4;
	tcp[13] = 0x10; /* ACK */
	/* Wrong by one bit in each byte, which one's complement cannot mistake for the right sum. */
	put16(tcp + 16, fold(sum16(sum16(IPPROTO_TCP + 20, ip + 12, 8), tcp, 20)) ^ 0x0101);
}

int warm_parse_neighbour(const char *line, struct warm_neighbour *n)
{
	char addr[16], mac[18];
	unsigned flags;
	struct in_addr in;

	if (sscanf(line, "%15s %*s %x %17s %*s %15s", addr, &flags, mac, n->ifname) != 4)
		return -ENOENT;
	if (!(flags & NTF_COMPLETE) || inet_pton(AF_INET, addr, &in) != 1)
		return -ENOENT;
	if (sscanf(mac, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &n->mac[0], &n->mac[1], &n->mac[2], &n->mac[3],
		   &n->mac[4], &n->mac[5]) != 6)
		return -ENOENT;
	n->addr = in.s_addr;
	return 0;
}

static int add_neighbour(struct warm_host *host, const struct warm_neighbour *n)
{
	struct warm_neighbour *all = host->neighbours;

	if ((host->count & (host->count - 1)) == 0) { /* full at every power of two */
		all = realloc(all, (host->count ? 2 * host->count : 1) * sizeof(*all));
		if (!all)
			return -ENOMEM;
		host->neighbours = all;
	}
	all[host->count++] = *n;
	return 0;
}

static int read_neighbours(struct warm_host *host)
{
	/* Of this thread, whose namespace changes; /proc/net would be that of the process's first thread. */
	FILE *f = fopen("/proc/thread-self/net/arp", "re");
	struct warm_neighbour n;
	char line[256];
	int rc = 0;

	if (!f)
		return -errno;
	while (!rc && fgets(line, sizeof(line), f))
		if (warm_parse_neighbour(line, &n) == 0)
			rc = add_neighbour(host, &n);
	fclose(f);
	return rc;
}

int warm_open(struct warm_host *host, const char **step)
{
	struct timeval bound = { .tv_sec = 1 };
	int rc;

	*host = (struct warm_host){ .fd = -1 };
	*step = "packet socket";
	host->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: it receives nothing */
	if (host->fd < 0)
		return -errno;
	if (setsockopt(host->fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)) < 0)
		return -errno;
	*step = "read the interfaces";
	if (getifaddrs(&host->addrs) < 0)
		return -errno;
	*step = "read /proc/thread-self/net/arp";
	rc = read_neighbours(host);
	return rc;
}

static const struct ifaddrs *owner_of(const struct warm_host *host, uint32_t addr)
{
	for (const struct ifaddrs *i = host->addrs; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr == addr)
			return i;
	return NULL;
}

static const struct sockaddr_ll *link_of(const struct warm_host *host, const char *ifname)
{
	for (const struct ifaddrs *i = host->addrs; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET && strcmp(i->ifa_name, ifname) == 0)
			return (const struct sockaddr_ll *)(const void *)i->ifa_addr;
	return NULL;
}

static const struct warm_neighbour *neighbour_of(const struct warm_host *host, uint32_t addr,
						 const char *ifname)
{
	for (unsigned i = 0; i < host->count; i++)
		if (host->neighbours[i].addr == addr && strcmp(host->neighbours[i].ifname, ifname) == 0)
			return &host->neighbours[i];
	return NULL;
}

static int send_frame(int fd, const uint8_t frame[WARM_FRAME_LEN], const struct sockaddr_ll *to)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < TRIES; i++) {
		if (sendto(fd, frame, WARM_FRAME_LEN, 0, (const struct sockaddr *)to, sizeof(*to)) >= 0)
			return 0;
		if (errno != ENOBUFS)
			return -errno;
		nanosleep(&moment, NULL);
	}
	return -ENOBUFS;
}

int warm_send(const struct warm_host *host, struct net_end src, struct net_end dst, const char **step)
{
	const struct warm_neighbour *neighbour;
	const struct sockaddr_ll *link;
	const struct ifaddrs *owner;
	uint8_t frame[WARM_FRAME_LEN];

	*step = "no interface has the address; configure it before tgen starts";
	owner = owner_of(host, src.addr);
	if (!owner)
		return -EADDRNOTAVAIL;
	*step = "the interface has no Ethernet address";
	link = link_of(host, owner->ifa_name);
	if (!link || link->sll_halen != 6)
		return -ENODEV;
	*step = "the peer is no neighbour; add a static one (ip neigh add ... nud permanent)";
	neighbour = neighbour_of(host, dst.addr, owner->ifa_name);
	if (!neighbour)
		return -EHOSTUNREACH;
	*step = "send a frame";
	warm_frame(frame, link->sll_addr, neighbour->mac, src, dst);
	return send_frame(host->fd, frame, link);
}

void warm_close(struct warm_host *host)
{
	if (host->fd >= 0)
		close(host->fd);
	if (host->addrs)
		freeifaddrs(host->addrs);
	free(host->neighbours);
	*host = (struct warm_host){ .fd = -1 };
}
