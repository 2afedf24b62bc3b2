/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_nic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEADER_OFFSET (NIC_FRAME_BYTES - NIC_HEADER_BYTES)
#define MIN_FRAME     60          /* the least that Ethernet carries */
#define HEARD_BYTES   (256 << 10) /* bells that may wait: more than all flows of a host that end at once */

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* --- tables ------------------------------------------------------------------------------------------ */

static int describe(int fd, struct bpf_map_info *info)
{
	union bpf_attr attr = { .info = { .bpf_fd = (uint32_t)fd,
					  .info_len = sizeof(*info),
					  .info = (uint64_t)(uintptr_t)info } };

	memset(info, 0, sizeof(*info));
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) < 0 ? -errno : 0;
}

static size_t in_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) / page * page;
}

/* Elements of an array lie 8 bytes aligned: so do the rows' sizes. */
static int map_rows(int fd, size_t row, struct nic_table *table)
{
	struct bpf_map_info info;
	void *at;
	int rc;

	_Static_assert(sizeof(struct nic_sender) % 8 == 0 && sizeof(struct nic_receiver) % 8 == 0 &&
			       sizeof(struct nic_port) % 8 == 0,
		       "rows lie one behind the other");
	rc = describe(fd, &info);
	if (rc)
		return rc;
	if (info.type != BPF_MAP_TYPE_ARRAY || info.value_size != row || !(info.map_flags & BPF_F_MMAPABLE))
		return -EPROTO;
	table->len = in_pages(row * info.max_entries);
	at = mmap(NULL, table->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	table->rows = at;
	table->count = info.max_entries;
	return 0;
}

static int open_table(uint32_t id, size_t row, struct nic_table *table)
{
	union bpf_attr attr = { .map_id = id };
	int fd, rc;

	fd = (int)bpf(BPF_MAP_GET_FD_BY_ID, &attr);
	if (fd < 0)
		return -errno;
	rc = map_rows(fd, row, table);
	close(fd);
	return rc;
}

int nic_tables_open(struct nic_tables *nics, struct nic_ids ids, const char **step)
{
	int rc;

	memset(nics, 0, sizeof(*nics));
	*step = "the table of senders";
	rc = open_table(ids.senders, sizeof(struct nic_sender), &nics->senders);
	if (!rc) {
		*step = "the table of receivers";
		rc = open_table(ids.receivers, sizeof(struct nic_receiver), &nics->receivers);
	}
	if (!rc) {
		*step = "the table of NICs";
		rc = open_table(ids.ports, sizeof(struct nic_port), &nics->ports);
	}
	if (rc)
		return rc;
	nics->sockets = malloc((nics->ports.count + 1) * sizeof(*nics->sockets));
	if (!nics->sockets)
		return -ENOMEM;
	memset(nics->sockets, 0xff, (nics->ports.count + 1) * sizeof(*nics->sockets));
	return 0;
}

static void close_table(struct nic_table *table)
{
	if (table->rows)
		munmap(table->rows, table->len);
	*table = (struct nic_table){ 0 };
}

void nic_tables_close(struct nic_tables *nics)
{
	for (uint32_t i = 0; nics->sockets && i < nics->ports.count; i++)
		if (nics->sockets[i] >= 0)
			close(nics->sockets[i]);
	free(nics->sockets);
	nics->sockets = NULL;
	close_table(&nics->senders);
	close_table(&nics->receivers);
	close_table(&nics->ports);
}

struct nic_sender *nic_sender(const struct nic_tables *nics, uint32_t flow)
{
	return (struct nic_sender *)nics->senders.rows + flow;
}

const struct nic_receiver *nic_receiver(const struct nic_tables *nics, uint32_t flow)
{
	return (const struct nic_receiver *)nics->receivers.rows + flow;
}

void nic_ring_each(const struct nic_tables *nics, uint32_t flow)
{
	__atomic_store_n(&((struct nic_receiver *)nics->receivers.rows + flow)->each_message, 1,
			 __ATOMIC_RELAXED);
}

const struct nic_port *nic_port(const struct nic_tables *nics, uint32_t nic)
{
	return (const struct nic_port *)nics->ports.rows + nic;
}

bool nic_has_row(const struct nic_tables *nics, uint32_t flow)
{
	return nics->sockets && flow < nics->senders.count && nic_sender(nics, flow)->payload_bytes;
}

/* --- sockets ----------------------------------------------------------------------------------------- */

static int prepare(int fd, uint32_t ifindex, const char **step)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(NIC_BELL_ETHERTYPE),
					.sll_ifindex = (int)ifindex };
	const int bytes = HEARD_BYTES;

	*step = "SO_RCVBUFFORCE";
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		return -errno;
	*step = "bind to the NIC's ring";
	return bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ? -errno : 0;
}

int nic_listen(struct nic_tables *nics, uint32_t nic, const char **step)
{
	int fd, rc;

	*step = "packet socket";
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = prepare(fd, nic_port(nics, nic)->ring_ifindex, step);
	if (rc)
		close(fd);
	else
		nics->sockets[nic] = fd;
	return rc;
}

int nic_ring(const struct nic_tables *nics, uint32_t flow)
{
	const struct nic_sender *row = nic_sender(nics, flow);
	const struct sockaddr_ll to = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETHERTYPE_IP),
					.sll_ifindex = (int)nic_port(nics, row->port)->ring_ifindex };
	const struct nic_header header = { .version = NIC_VERSION,
					   .opcode = NIC_DOORBELL,
					   .flow = htonl(flow) };
	uint8_t frame[NIC_FRAME_BYTES];

	_Static_assert(NIC_FRAME_BYTES >= MIN_FRAME, "a doorbell is a whole frame");
	memcpy(frame, row->frame, sizeof(frame));
	memcpy(frame + HEADER_OFFSET, &header, sizeof(header));
	if (sendto(nics->sockets[row->port], frame, sizeof(frame), 0, (const struct sockaddr *)&to,
		   sizeof(to)) < 0)
		return -errno;
	return 0;
}

int nic_heard(const struct nic_tables *nics, uint32_t nic, uint32_t *flow)
{
	uint8_t frame[NIC_FRAME_BYTES];
	struct nic_header header;
	ssize_t n = recv(nics->sockets[nic], frame, sizeof(frame), 0);

	if (n < 0)
		return -errno;
	memcpy(&header, frame + HEADER_OFFSET, sizeof(header));
	*flow = ntohl(header.flow);
	if (n < NIC_FRAME_BYTES || header.version != NIC_VERSION || *flow >= nics->receivers.count)
		return -EBADMSG;
	return 0;
}
