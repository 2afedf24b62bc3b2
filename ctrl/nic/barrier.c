// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Barriers of virtual time: see barrier.h. */
#include "barrier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lab.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM ((NIC_EXCHANGE_BYTES - sizeof(struct nic_exchange)) / sizeof(struct nic_step))

static int map_exchange(struct barrier *b, struct fault *f)
{
	unsigned char *region;
	uint64_t len;

	if (ioctl(b->channel_fd, LAB_IOC_LENGTH, &len))
		return fault_say(f, -errno, "--channel: length of the shared memory: %s", strerror(errno));
	region = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, b->channel_fd, 0);
	if (region == MAP_FAILED)
		return fault_say(f, -errno, "--channel: map %" PRIu64 " bytes of shared memory: %s", len,
				 strerror(errno));
	b->exchange = (struct nic_exchange *)(region + len - NIC_EXCHANGE_BYTES);
	munmap(region, len - NIC_EXCHANGE_BYTES); /* the beginning is the state matrix */
	b->exchange->count = b->exchange->lost = 0;
	return 0;
}

int barrier_open(struct barrier *b, const char *device, uint64_t t0_ns, uint64_t step_ns, struct fault *f)
{
	int rc;

	*b = (struct barrier){ .t0_ns = t0_ns, .step_ns = step_ns, .number = 1 };
	b->channel_fd = open(device, O_RDWR | O_CLOEXEC);
	if (b->channel_fd < 0)
		return fault_say(f, -EINVAL, "--channel: open '%s': %s; in a lab it is /dev/lab", device,
				 strerror(errno));
	rc = map_exchange(b, f);
	if (rc)
		barrier_close(b);
	return rc;
}

uint64_t barrier_next_ns(const struct barrier *b)
{
	return b->t0_ns + b->number * b->step_ns;
}

void barrier_take(struct barrier *b, const struct nic_step *step)
{
	if (b->exchange->count < ROOM)
		b->exchange->step[b->exchange->count++] = *step;
	else
		b->exchange->lost++;
}

int barrier_wait(struct barrier *b, const uint32_t **table, struct fault *f)
{
	int code = ioctl(b->channel_fd, LAB_IOC_STEP, &b->number);

	if (code < 0)
		return fault_say(f, -errno, "--channel: barrier %" PRIu64 ": %s", b->number, strerror(errno));
	if (code != NIC_GO_ON && code != NIC_NEW_TABLE)
		return fault_say(f, -EPROTO, "--channel: the host answered barrier %" PRIu64 " with %d",
				 b->number, code);
	*table = code == NIC_NEW_TABLE ? b->exchange->table : NULL;
	b->exchange->count = b->exchange->lost = 0;
	b->number++;
	return 0;
}

void barrier_close(struct barrier *b)
{
	if (b->exchange)
		munmap(b->exchange, NIC_EXCHANGE_BYTES);
	if (b->channel_fd >= 0)
		close(b->channel_fd);
	*b = (struct barrier){ .channel_fd = -1 };
}
