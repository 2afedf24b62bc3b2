/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_warm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TRIES 100 /* a full queue is waited for so many milliseconds */

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
		int protocol, struct net_end src, struct net_end dst)
{
	uint8_t *ip = frame + 14, *l4 = ip + 20;
	uint16_t len = protocol == IPPROTO_UDP ? 8 : 20, sum;

	memset(frame, 0, WARM_FRAME_LEN);
	memcpy(frame, dst_mac, 6);
	memcpy(frame + 6, src_mac, 6);
	put16(frame + 12, ETHERTYPE_IP);
	ip[0] = 0x45;
	put16(ip + 2, 20 + len);
	put16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = 64;
	ip[9] = (uint8_t)protocol;
	memcpy(ip + 12, &src.addr, 4);
	memcpy(ip + 16, &dst.addr, 4);
	put16(ip + 10, fold(sum16(0, ip, 20)));
	put16(l4, src.port);
	put16(l4 + 2, dst.port);
	if (protocol == IPPROTO_UDP) {
		put16(l4 + 4, len);
	} else {
		l4[12] = 5 << 4;
		l4[13] = 0x10; /* ACK */
	}
	/* Wrong by one bit in each byte, which one's complement cannot mistake for the right sum. */
	sum = fold(sum16(sum16((uint32_t)protocol + len, ip + 12, 8), l4, len)) ^ 0x0101;
	put16(l4 + (protocol == IPPROTO_UDP ? 6 : 16), sum ? sum : 0x1010); /* 0: a datagram without one */
}

int warm_open(struct warm_host *host, const char **step)
{
	struct timeval bound = { .tv_sec = 1 };

	*host = (struct warm_host){ .fd = -1 };
	*step = "packet socket";
	host->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: it receives nothing */
	if (host->fd < 0)
		return -errno;
	if (setsockopt(host->fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)) < 0)
		return -errno;
	*step = "read the interfaces";
	return getifaddrs(&host->addrs) < 0 ? -errno : 0;
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

/* Asks for the one entry: the kernel keeps one table for all namespaces, so reading it costs their square. */
static int neighbour_of(const struct warm_host *host, uint32_t addr, const char *ifname, uint8_t mac[6])
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = addr };
	struct arpreq entry = { 0 };

	memcpy(&entry.arp_pa, &in, sizeof(in));
	snprintf(entry.arp_dev, sizeof(entry.arp_dev), "%s", ifname);
	if (ioctl(host->fd, SIOCGARP, &entry) < 0)
		return -errno;
	if (!(entry.arp_flags & ATF_COM))
		return -EHOSTUNREACH;
	memcpy(mac, entry.arp_ha.sa_data, 6);
	return 0;
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

int warm_send(const struct warm_host *host, int protocol, struct net_end src, struct net_end dst,
	      const char **step)
{
	const struct sockaddr_ll *link;
	const struct ifaddrs *owner;
	uint8_t frame[WARM_FRAME_LEN], peer[6];

	*step = "no interface has the address; configure it before tgen starts";
	owner = owner_of(host, src.addr);
	if (!owner)
		return -EADDRNOTAVAIL;
	*step = "the interface has no Ethernet address";
	link = link_of(host, owner->ifa_name);
	if (!link || link->sll_halen != 6)
		return -ENODEV;
	*step = "the peer is no neighbour; add a static one (ip neigh add ... nud permanent)";
	if (neighbour_of(host, dst.addr, owner->ifa_name, peer))
		return -EHOSTUNREACH;
	*step = "send a frame";
	warm_frame(frame, link->sll_addr, peer, protocol, src, dst);
	return send_frame(host->fd, frame, link);
}

void warm_close(struct warm_host *host)
{
	if (host->fd >= 0)
		close(host->fd);
	if (host->addrs)
		freeifaddrs(host->addrs);
	*host = (struct warm_host){ .fd = -1 };
}
