// SPDX-License-Identifier: Apache-2.0
/* Many operations, one system call: see batch.h. */
#include "batch.h"

#include "program.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RING_MAGIC 0xa10a10a1

/* The start of the page that an aio_context_t points to (fs/aio.c); libaio reads it in the same way. */
struct ring {
	uint32_t id, nr;
	_Atomic uint32_t head, tail;
	uint32_t magic, compat_features, incompat_features, header_length;
	struct io_event events[];
};

static_assert(sizeof(struct ring) == 32, "as the kernel has it");

static struct ring *ring_of(const struct batch *b)
{
	return (struct ring *)b->context;
}

int batch_open(struct batch *b, uint32_t size)
{
	*b = (struct batch){ .size = size };
	b->ops = calloc(size, sizeof(*b->ops));
	b->order = calloc(size, sizeof(struct iocb *));
	b->results = calloc(size, sizeof(*b->results));
	if (!b->ops || !b->order || !b->results)
		return -ENOMEM;
	if (syscall(SYS_io_setup, size, &b->context))
		b->context = 0;
	if (b->context && (ring_of(b)->magic != RING_MAGIC || ring_of(b)->incompat_features)) {
		syscall(SYS_io_destroy, b->context);
		b->context = 0;
	}
	return 0;
}

void batch_close(struct batch *b)
{
	if (b->context)
		syscall(SYS_io_destroy, b->context);
	free(b->ops);
	free(b->order);
	free(b->results);
	*b = (struct batch){ 0 };
}

static uint32_t add(struct batch *b, uint16_t opcode, int fd, const void *buf, size_t len)
{
	uint32_t i = b->n++;

	assert(i < b->size);
	b->ops[i] = (struct iocb){
		.aio_data = i,
		.aio_lio_opcode = opcode,
		.aio_rw_flags = RWF_NOWAIT,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = len,
	};
	b->order[i] = &b->ops[i];
	return i;
}

uint32_t batch_read(struct batch *b, int fd, void *buf, size_t len)
{
	return add(b, IOCB_CMD_PREAD, fd, buf, len);
}

uint32_t batch_write(struct batch *b, int fd, const void *buf, size_t len)
{
	return add(b, IOCB_CMD_PWRITE, fd, buf, len);
}

/* Take what is in the ring: how many. */
static uint32_t reap(struct batch *b)
{
	struct ring *r = ring_of(b);
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed), n = 0;
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);

	for (; head != tail; n++) {
		const struct io_event *e = &r->events[head];

		if (e->data < b->n)
			b->results[e->data] = e->res;
		head = (head + 1) % r->nr;
	}
	atomic_store_explicit(&r->head, head, memory_order_release);
	return n;
}

static int64_t run_one(const struct iocb *op)
{
	void *buf = (void *)(uintptr_t)op->aio_buf;
	int fd = (int)op->aio_fildes;
	ssize_t n = op->aio_lio_opcode == IOCB_CMD_PREAD
			    ? recv(fd, buf, op->aio_nbytes, MSG_DONTWAIT)
			    : send(fd, buf, op->aio_nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

/* Counts the operations that the kernel took. They are over already: a socket does each at once, or fails. */
static int note_submitted(struct batch *b, int64_t submitted, uint32_t *done)
{
	if (submitted <= 0)
		return !submitted ? -EIO : submitted == -EOPNOTSUPP && *done ? -EPROTO : (int)submitted;
	if (reap(b) != (uint32_t)submitted)
		return -EPROTO;
	*done += (uint32_t)submitted;
	return 0;
}

static int submit(struct batch *b, uint32_t done)
{
	int rc = 0;

	while (!rc && done < b->n) {
		long submitted = syscall(SYS_io_submit, b->context, b->n - done, b->order + done);

		rc = note_submitted(b, submitted < 0 ? -errno : submitted, &done);
	}
	return rc;
}

/* Sockets know RWF_NOWAIT from Linux 6.4 on; the first operation says so, and nothing was done. */
static int finish(struct batch *b, int rc)
{
	if (rc == -EOPNOTSUPP) {
		if (b->context)
			syscall(SYS_io_destroy, b->context);
		b->context = 0;
		for (uint32_t i = 0; i < b->n; i++)
			b->results[i] = run_one(&b->ops[i]);
		rc = 0;
	}
	b->n = 0;
	return rc;
}

int batch_run(struct batch *b)
{
	return finish(b, b->context ? submit(b, 0) : -EOPNOTSUPP);
}

static const __s64 *add_submit(struct calls *c, const struct batch *b)
{
	return calls_add(c, "io_submit", SYS_io_submit, (__u64[6]){ b->context, b->n, (uintptr_t)b->order });
}

/* After the call that was to submit all of a batch. */
static int finish_submitted(struct batch *b, int64_t submitted)
{
	uint32_t done = 0;
	int rc = note_submitted(b, submitted, &done);

	return finish(b, rc ? rc : submit(b, done));
}

/* -EINTR: a signal came first. -ECANCELED: `first` needed more than one call, and `b` is still to come. */
static int sleep_and_submit(struct batch *b, struct batch *first, struct calls *c, uint64_t t_ns,
			    uint32_t *done)
{
	const struct timespec until = { (time_t)(t_ns / NS_PER_SEC), (long)(t_ns % NS_PER_SEC) };
	const __s64 *early = first && first->n ? add_submit(c, first) : NULL, *slept, *submitted;
	int rc;

	slept = calls_add(c, "clock_nanosleep", SYS_clock_nanosleep,
			  (__u64[6]){ CLOCK_MONOTONIC, TIMER_ABSTIME, (uintptr_t)&until });
	submitted = add_submit(c, b);
	rc = calls_run(c);
	if (rc >= 0)
		rc = early ? finish_submitted(first, *early) : 0;
	if (rc)
		return rc;
	return *slept ? (int)*slept : note_submitted(b, *submitted, done);
}

int batch_run_at(struct batch *b, struct batch *first, struct calls *c, uint64_t t_ns)
{
	bool apart = first && first->n && !(b->context && first->context);
	uint32_t done = 0;
	int rc = apart ? batch_run(first) : 0;

	if (rc)
		return rc;
	do {
		rc = b->context ? sleep_and_submit(b, first, c, t_ns, &done) : sleep_until(t_ns);
	} while ((rc == -EINTR || rc == -ECANCELED) && !program_stop);
	if (program_stop && !done) {
		b->n = 0;
		return 1;
	}
	if (!rc)
		rc = b->context ? submit(b, done) : -EOPNOTSUPP;
	return finish(b, rc);
}
