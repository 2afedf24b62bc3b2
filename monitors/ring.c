// SPDX-License-Identifier: Apache-2.0
/* A ring of frames: see ring.h. */
#include "ring.h"

#include "netns.h"
#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK_BYTES (1u << 17)
#define BLOCKS      4u    /* one fills while others are read */
#define FRAME_BYTES 2048u /* the kernel wants to know one, and does not use it */
#define NS_PER_MS   1000000ULL

/* Takes `snap` bytes of each frame of a direction. */
static int set_filter(int fd, uint32_t snap, enum ring_direction direction)
{
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, snap) };
	struct sock_filter half[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, direction == RING_OUT ? snap : 0),
		BPF_STMT(BPF_RET | BPF_K, direction == RING_IN ? snap : 0),
	};
	const struct sock_fprog of_all = { sizeof(all) / sizeof(all[0]), all };
	const struct sock_fprog of_half = { sizeof(half) / sizeof(half[0]), half };
	const struct sock_fprog *filter = direction == RING_BOTH ? &of_all : &of_half;

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, filter, sizeof(*filter)) ? -errno : 0;
}

int ring_stop(struct ring *r)
{
	struct sock_filter none[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	const struct sock_fprog filter = { sizeof(none) / sizeof(none[0]), none };

	return setsockopt(r->fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ? -errno : 0;
}

static int map_ring(struct ring *r)
{
	const struct tpacket_req3 request = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = FRAME_BYTES,
		.tp_frame_nr = BLOCKS * (BLOCK_BYTES / FRAME_BYTES),
		.tp_retire_blk_tov = RING_RETIRE_NS / NS_PER_MS,
	};
	const int version = TPACKET_V3;
	void *at;

	if (setsockopt(r->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(r->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)))
		return -errno;
	at = mmap(NULL, (size_t)BLOCKS * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	r->at = at;
	return 0;
}

/* From here on frames come. */
static int bind_to(int fd, const char *ifname)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct ifreq request = { 0 };

	strncpy(request.ifr_name, ifname, sizeof(request.ifr_name) - 1);
	if (ioctl(fd, SIOCGIFINDEX, &request))
		return -errno;
	address.sll_ifindex = request.ifr_ifindex;
	return bind(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

int ring_open(struct ring *r, const char *netns, const char *ifname, uint32_t snap,
	      enum ring_direction direction, struct fault *f)
{
	int rc;

	*r = (struct ring)RING_INIT;
	r->fd = netns_socket(netns, AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (r->fd < 0)
		return fault_say(f, r->fd, "open a packet socket in netns '%s': %s; run as root", netns,
				 strerror(-r->fd));
	rc = set_filter(r->fd, snap, direction);
	if (!rc)
		rc = map_ring(r);
	if (!rc)
		rc = bind_to(r->fd, ifname);
	return rc ? fault_say(f, rc, "capture '%s' in netns '%s': %s", ifname, netns, strerror(-rc)) : 0;
}

void ring_close(struct ring *r)
{
	if (r->at)
		munmap(r->at, (size_t)BLOCKS * BLOCK_BYTES);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct ring)RING_INIT;
}

static int visit_frame(const struct tpacket3_hdr *head, ring_visit visit, void *arg)
{
	const unsigned char *start = (const unsigned char *)head;
	const struct sockaddr_ll *from =
		(const struct sockaddr_ll *)(start + TPACKET_ALIGN(sizeof(struct tpacket3_hdr)));
	const struct ring_frame frame = {
		.t_ns = head->tp_sec * NS_PER_SEC + head->tp_nsec,
		.out = from->sll_pkttype == PACKET_OUTGOING,
		.data = start + head->tp_mac,
		.captured = head->tp_snaplen,
		.length = head->tp_len,
	};

	return visit(arg, &frame);
}

static int visit_block(const struct tpacket_block_desc *block, ring_visit visit, void *arg)
{
	const unsigned char *at = (const unsigned char *)block + block->hdr.bh1.offset_to_first_pkt;
	int rc = 0;

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts && !rc; i++) {
		const struct tpacket3_hdr *head = (const struct tpacket3_hdr *)at;

		rc = visit_frame(head, visit, arg);
		at += head->tp_next_offset;
	}
	return rc;
}

int ring_drain(struct ring *r, ring_visit visit, void *arg)
{
	int rc = 0;

	while (!rc) {
		struct tpacket_block_desc *block =
			(struct tpacket_block_desc *)(r->at + (size_t)r->next * BLOCK_BYTES);
		uint32_t *status = &block->hdr.bh1.block_status;

		if (!(__atomic_load_n(status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		rc = visit_block(block, visit, arg);
		r->visited += block->hdr.bh1.num_pkts;
		__atomic_store_n(status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		r->next = (r->next + 1) % BLOCKS;
	}
	return rc;
}

/* The kernel counts from 0 again after each look. Those that it lost are among its packets. */
int64_t ring_left(struct ring *r)
{
	struct tpacket_stats_v3 stats = { 0 };
	socklen_t len = sizeof(stats);

	if (getsockopt(r->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		return -errno;
	r->taken += stats.tp_packets - stats.tp_drops;
	r->lost += stats.tp_drops;
	return (int64_t)(r->taken - r->visited);
}
