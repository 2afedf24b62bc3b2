/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many reads and writes on sockets as one system call: Linux AIO, io_submit(2).
 *
 * The kernel carries them out one after the other, in order, before the call returns; none waits. In a lab
 * kernel a system call costs ten times what a netlink dump does, so this is most of a sweep's speed. The
 * sleep before the batch can be part of the same call (calls.h). Results are read from the ring that the
 * kernel shares, without another call. Where there is no AIO (a container forbids it, the machine has no room
 * for it), each operation takes a call of its own.
 */
#ifndef BATCH_H
#define BATCH_H

#include "calls.h"

#include <linux/aio_abi.h>
#include <stddef.h>
#include <stdint.h>

struct batch {
	aio_context_t context; /* address of the ring; 0: there is no AIO */
	struct iocb *ops, **order;
	int64_t *results; /* of each: bytes, or -errno */
	uint32_t size, n;
};

/* Room for `size` operations: 0 or -ENOMEM. */
int batch_open(struct batch *b, uint32_t size);
void batch_close(struct batch *b);

/* Adds an operation, for which there must be room. Returns its number. */
uint32_t batch_read(struct batch *b, int fd, void *buf, size_t len);
uint32_t batch_write(struct batch *b, int fd, const void *buf, size_t len);

/* Carries all operations out, and empties the batch. Returns 0 with all results in place, or -errno. */
int batch_run(struct batch *b);

/* Carries out `first` (may be NULL) as batch_run() does, sleeps until t_ns of CLOCK_MONOTONIC, and then
 * carries out `b`. Returns 1 if the program was told to stop before that; then nothing of `b` was carried
 * out. `c` has room for three calls. */
int batch_run_at(struct batch *b, struct batch *first, struct calls *c, uint64_t t_ns);

#endif
