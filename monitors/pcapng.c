// SPDX-License-Identifier: Apache-2.0
/* A pcapng file: see pcapng.h. Numbers are in this machine's byte order, as the section's magic number tells.
 */
#include "pcapng.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES     (1u << 18)
#define WRITE_BACK_BYTES (8u << 20)

enum block { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6 };

enum option {
	OPTION_END = 0,
	SECTION_PROGRAM = 4,
	INTERFACE_NAME = 2,
	INTERFACE_RESOLUTION = 9,
	PACKET_FLAGS = 2,
	STATISTICS_END = 3,
	STATISTICS_RECEIVED = 4,
	STATISTICS_LOST = 5,
};

#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINK_ETHERNET    1
#define NANOSECONDS      9   /* ten to this negative power is the unit of times */
#define MOST_BESIDE      256 /* bytes of a block beside a frame: more than any has */

static uint32_t padded(uint32_t len)
{
	return (len + 3) & ~3u;
}

/* ---- the buffer ---- */

static int write_all(int fd, const unsigned char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Dirty pages must stay few: beyond its limit of them the kernel lets writers wait, and a ring would run
 * over. */
static int flush(struct pcapng *p)
{
	int rc = write_all(p->fd, p->buf, p->used);

	p->written += p->used;
	p->used = 0;
	if (!rc && p->written - p->asked >= WRITE_BACK_BYTES) {
		off_t at = (off_t)p->asked, len = (off_t)(p->written - p->asked);

		p->asked = p->written;
		if (!sync_file_range(p->fd, at, len, SYNC_FILE_RANGE_WRITE))
			posix_fadvise(p->fd, at, len, POSIX_FADV_DONTNEED);
	}
	return rc;
}

static int make_room(struct pcapng *p, size_t len)
{
	return p->used + len > BUFFER_BYTES ? flush(p) : 0;
}

static void put(struct pcapng *p, const void *from, size_t len)
{
	assert(p->used + len <= BUFFER_BYTES);
	memcpy(p->buf + p->used, from, len);
	p->used += len;
}

static void put_zeros(struct pcapng *p, size_t len)
{
	assert(p->used + len <= BUFFER_BYTES);
	memset(p->buf + p->used, 0, len);
	p->used += len;
}

static void put_u16(struct pcapng *p, uint16_t value)
{
	put(p, &value, sizeof(value));
}

static void put_u32(struct pcapng *p, uint32_t value)
{
	put(p, &value, sizeof(value));
}

/* A time is two words, the high one first, in either byte order. */
static void put_time(struct pcapng *p, uint64_t t_ns)
{
	put_u32(p, (uint32_t)(t_ns >> 32));
	put_u32(p, (uint32_t)t_ns);
}

static void put_option(struct pcapng *p, enum option code, const void *value, uint16_t len)
{
	put_u16(p, (uint16_t)code);
	put_u16(p, len);
	put(p, value, len);
	put_zeros(p, padded(len) - len);
}

/* ---- blocks: their length stands at both ends ---- */

static size_t begin(struct pcapng *p, enum block type)
{
	size_t start = p->used;

	put_u32(p, type);
	put_u32(p, 0);
	return start;
}

static void end(struct pcapng *p, size_t start)
{
	uint32_t len;

	put_u32(p, OPTION_END);
	len = (uint32_t)(p->used - start) + sizeof(len);
	memcpy(p->buf + start + sizeof(uint32_t), &len, sizeof(len));
	put_u32(p, len);
}

static void put_section(struct pcapng *p)
{
	static const char program[] = "dc-gym";
	size_t start = begin(p, BLOCK_SECTION);

	put_u32(p, BYTE_ORDER_MAGIC);
	put_u16(p, 1); /* version 1.0 */
	put_u16(p, 0);
	put_time(p, UINT64_MAX); /* the section's length is not told */
	put_option(p, SECTION_PROGRAM, program, sizeof(program) - 1);
	end(p, start);
}

static void put_interface(struct pcapng *p, const char *name, uint32_t snap)
{
	static const uint8_t resolution = NANOSECONDS;
	size_t start = begin(p, BLOCK_INTERFACE);

	put_u16(p, LINK_ETHERNET);
	put_u16(p, 0);
	put_u32(p, snap);
	put_option(p, INTERFACE_NAME, name, (uint16_t)strlen(name));
	put_option(p, INTERFACE_RESOLUTION, &resolution, sizeof(resolution));
	end(p, start);
}

/* ---- the file ---- */

int pcapng_open(struct pcapng *p, const char *path, const char *interface, uint32_t snap)
{
	*p = (struct pcapng)PCAPNG_INIT;
	if (strlen(interface) > MOST_BESIDE / 2)
		return -ENAMETOOLONG;
	p->buf = malloc(BUFFER_BYTES);
	if (!p->buf)
		return -ENOMEM;
	p->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (p->fd < 0) {
		int rc = -errno;

		pcapng_close(p);
		return rc;
	}
	put_section(p);
	put_interface(p, interface, snap);
	return 0;
}

int pcapng_add(struct pcapng *p, const struct pcapng_frame *frame)
{
	uint32_t captured = frame->captured + frame->zeros, flags = frame->direction;
	int rc = make_room(p, captured + MOST_BESIDE);
	size_t start;

	if (rc)
		return rc;
	start = begin(p, BLOCK_PACKET);
	put_u32(p, 0); /* the interface */
	put_time(p, frame->t_ns);
	put_u32(p, captured);
	put_u32(p, frame->length);
	put(p, frame->data, frame->captured);
	put_zeros(p, padded(captured) - frame->captured);
	put_option(p, PACKET_FLAGS, &flags, sizeof(flags));
	end(p, start);
	return 0;
}

static void put_statistics(struct pcapng *p, uint64_t t_ns, uint64_t received, uint64_t lost)
{
	const uint32_t at[2] = { (uint32_t)(t_ns >> 32), (uint32_t)t_ns };
	size_t start = begin(p, BLOCK_STATISTICS);

	put_u32(p, 0); /* the interface */
	put_time(p, t_ns);
	put_option(p, STATISTICS_END, at, sizeof(at));
	put_option(p, STATISTICS_RECEIVED, &received, sizeof(received));
	put_option(p, STATISTICS_LOST, &lost, sizeof(lost));
	end(p, start);
}

int pcapng_finish(struct pcapng *p, uint64_t t_ns, uint64_t received, uint64_t lost)
{
	int rc = make_room(p, MOST_BESIDE), fd = p->fd;

	if (!rc) {
		put_statistics(p, t_ns, received, lost);
		rc = flush(p);
	}
	p->fd = -1;
	if (close(fd) && !rc)
		rc = -errno;
	pcapng_close(p);
	return rc;
}

void pcapng_close(struct pcapng *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->buf);
	*p = (struct pcapng)PCAPNG_INIT;
}
