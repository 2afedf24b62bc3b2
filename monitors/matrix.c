// SPDX-License-Identifier: Apache-2.0
/* State matrix and trace, the writer's side: see matrix.h. */
#include "matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_LINE 64
#define TRACE_BUF  (1u << 20)

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the state matrix is little-endian");
static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "atomics live in plain memory");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "other processes see no lock of ours");

static const char *const column_names[SM_NR_COLUMNS] = {
#define X(id, name) name,
	SM_COLUMNS(X)
#undef X
};

static uint64_t align(uint64_t n)
{
	return (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static uint64_t end_of_names(const struct sm_header *h)
{
	return h->off_col_names + (uint64_t)h->cols * SM_NAME_LEN;
}

void matrix_layout(struct sm_header *h, struct matrix_shape shape, uint64_t interval_ns, uint64_t t0_ns)
{
	uint64_t cells_len = (uint64_t)shape.rows * SM_NR_COLUMNS * sizeof(uint64_t);

	*h = (struct sm_header){
		.version_major = SM_VERSION_MAJOR,
		.version_minor = SM_VERSION_MINOR,
		.header_len = sizeof(*h),
		.rows = shape.rows,
		.cols = SM_NR_COLUMNS,
		.off_row_names = sizeof(*h),
		.off_col_names = sizeof(*h) + (uint64_t)shape.rows * SM_NAME_LEN,
		.interval_ns = interval_ns,
		.t0_ns = t0_ns,
		.flow_rows = shape.flow_rows,
		.command_rows = shape.command_rows,
	};
	memcpy(h->magic, SM_MAGIC, sizeof(h->magic));
	/* A line of its own for each part: different processes write them. */
	h->off_cells = align(end_of_names(h));
	h->off_activity = align(h->off_cells + cells_len);
	h->total_len = h->off_activity + (uint64_t)shape.rows * sizeof(uint64_t);
	if (shape.flow_rows) {
		h->off_flows = align(h->total_len);
		h->total_len = h->off_flows + (uint64_t)shape.flow_rows * sizeof(struct sm_flow);
	}
	if (shape.command_rows) {
		h->off_commands = align(h->total_len);
		h->total_len = h->off_commands + sizeof(struct sm_commands) +
			       (uint64_t)shape.command_rows * sizeof(struct sm_command);
	}
}

static void put_name(unsigned char *to, const char *name)
{
	size_t len = strnlen(name, SM_NAME_LEN);

	memcpy(to, name, len);
	memset(to + len, 0, SM_NAME_LEN - len);
}

static void put_names(unsigned char *base, const struct sm_header *h, struct row_names names)
{
	for (uint32_t i = 0; i < h->rows; i++)
		put_name(base + h->off_row_names + (size_t)i * SM_NAME_LEN, names.first + i * names.stride);
	for (uint32_t i = 0; i < h->cols; i++)
		put_name(base + h->off_col_names + (size_t)i * SM_NAME_LEN, column_names[i]);
}

static _Atomic uint64_t *atomics(const struct matrix *m, uint64_t offset)
{
	return (_Atomic uint64_t *)((unsigned char *)m->header + offset);
}

static int map_file(struct matrix *m, const char *path)
{
	int rc = 0, fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat st;
	void *at;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		rc = -errno;
		goto out;
	}
	/* Reserve the room now: a store to a full file system later would be SIGBUS. */
	if (S_ISREG(st.st_mode))
		rc = -posix_fallocate(fd, 0, (off_t)m->len);
	if (rc)
		goto out;
	at = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		rc = errno == EINVAL && !S_ISREG(st.st_mode) ? -EFBIG : -errno;
	else
		m->header = at;
out:
	close(fd);
	return rc;
}

static int map_private(struct matrix *m)
{
	void *at = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	m->header = at;
	return 0;
}

/* The magic comes last: who finds it finds everything else in place. */
static void initialise(struct matrix *m, const struct sm_header *layout, struct row_names names)
{
	struct sm_header h = *layout;
	_Atomic uint64_t *magic = atomics(m, offsetof(struct sm_header, magic));
	uint64_t word;

	memcpy(&word, h.magic, sizeof(word));
	memset(h.magic, 0, sizeof(h.magic));
	h.writer_pid = (uint32_t)getpid();
	atomic_store_explicit(magic, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memset((unsigned char *)m->header + sizeof(h), 0, m->len - sizeof(h));
	memcpy(m->header, &h, sizeof(h));
	put_names((unsigned char *)m->header, &h, names);
	atomic_store_explicit(magic, word, memory_order_release);
}

int matrix_open(struct matrix *m, const char *path, const struct sm_header *layout, struct row_names names)
{
	int rc;

	*m = (struct matrix){ .len = (size_t)layout->total_len };
	rc = path ? map_file(m, path) : map_private(m);
	if (rc)
		return rc;
	initialise(m, layout, names);
	return 0;
}

void matrix_close(struct matrix *m)
{
	if (m->header)
		munmap(m->header, m->len);
	*m = (struct matrix){ 0 };
}

void matrix_copy_activity(const struct matrix *m, uint64_t *cells)
{
	_Atomic uint64_t *activity = atomics(m, m->header->off_activity);

	for (size_t i = 0; i < m->header->rows; i++)
		cells[i * SM_NR_COLUMNS + SM_ACTIVE_FLOWS] =
			atomic_load_explicit(&activity[i], memory_order_relaxed);
}

void matrix_publish(struct matrix *m, uint64_t t_ns, const uint64_t *cells)
{
	_Atomic uint64_t *seq = atomics(m, offsetof(struct sm_header, seq));
	_Atomic uint64_t *to = atomics(m, m->header->off_cells);
	uint64_t generation = m->header->generation;
	size_t n = (size_t)m->header->rows * m->header->cols;

	atomic_store_explicit(seq, 2 * generation + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* odd before the first of the cells */
	for (size_t i = 0; i < n; i++)
		atomic_store_explicit(&to[i], cells[i], memory_order_relaxed);
	atomic_store_explicit(atomics(m, offsetof(struct sm_header, t_ns)), t_ns, memory_order_relaxed);
	atomic_store_explicit(atomics(m, offsetof(struct sm_header, generation)), generation + 1,
			      memory_order_relaxed);
	atomic_store_explicit(seq, 2 * generation + 2, memory_order_release);
}

static _Atomic uint64_t *command_field(const struct matrix *m, size_t offset)
{
	return atomics(m, m->header->off_commands + offset);
}

void matrix_begin(const struct matrix *m, uint64_t t0_ns)
{
	atomic_store_explicit(atomics(m, offsetof(struct sm_header, t0_ns)), t0_ns, memory_order_relaxed);
	atomic_store_explicit(command_field(m, offsetof(struct sm_commands, end)), 0, memory_order_relaxed);
}

uint64_t matrix_asked_end(const struct matrix *m)
{
	return atomic_load_explicit(command_field(m, offsetof(struct sm_commands, end)),
				    memory_order_relaxed);
}

static _Atomic uint64_t *row_field(const struct matrix *m, uint32_t i, size_t offset)
{
	return command_field(m, sizeof(struct sm_commands) + i * sizeof(struct sm_command) + offset);
}

uint64_t matrix_take_command(const struct matrix *m, uint64_t *wanted)
{
	_Atomic uint64_t *seq = command_field(m, offsetof(struct sm_commands, seq));
	uint64_t before = atomic_load_explicit(seq, memory_order_acquire);

	if (before % 2)
		return before;
	for (uint32_t i = 0; i < m->header->command_rows; i++) {
		_Atomic uint64_t *from = row_field(m, i, offsetof(struct sm_command, wanted));

		for (uint32_t v = 0; v < SM_MAX_VALUES; v++)
			*wanted++ = atomic_load_explicit(&from[v], memory_order_relaxed);
	}
	atomic_thread_fence(memory_order_acquire);
	return before |
	       (atomic_load_explicit(seq, memory_order_relaxed) != before); /* odd: it changed under us */
}

static void store_values(_Atomic uint64_t *to, const uint64_t *values)
{
	for (uint32_t v = 0; v < SM_MAX_VALUES; v++)
		atomic_store_explicit(&to[v], values[v], memory_order_relaxed);
}

void matrix_want(const struct matrix *m, uint32_t i, const uint64_t *values)
{
	store_values(row_field(m, i, offsetof(struct sm_command, wanted)), values);
}

void matrix_in_force(const struct matrix *m, uint32_t i, const uint64_t *values)
{
	store_values(row_field(m, i, offsetof(struct sm_command, in_force)), values);
}

bool matrix_tell(const struct matrix *m, uint32_t i, uint64_t value)
{
	_Atomic uint64_t *told = row_field(m, i, offsetof(struct sm_command, in_force)) + SM_TOLD;

	return atomic_exchange_explicit(told, value, memory_order_release) != value;
}

uint64_t matrix_setter(const struct matrix *m)
{
	return atomic_load_explicit(command_field(m, offsetof(struct sm_commands, setter)),
				    memory_order_relaxed);
}

void matrix_row_acked(const struct matrix *m, uint32_t i, uint64_t seq)
{
	atomic_store_explicit(row_field(m, i, offsetof(struct sm_command, acked)), seq, memory_order_relaxed);
}

void matrix_timeouts(const struct matrix *m, uint64_t timeouts)
{
	atomic_store_explicit(command_field(m, offsetof(struct sm_commands, timeouts)), timeouts,
			      memory_order_relaxed);
}

void matrix_acknowledge(const struct matrix *m, uint64_t seq, uint64_t applied_ns)
{
	atomic_store_explicit(command_field(m, offsetof(struct sm_commands, applied_ns)), applied_ns,
			      memory_order_relaxed);
	atomic_store_explicit(command_field(m, offsetof(struct sm_commands, ack)), seq, memory_order_release);
}

uint64_t matrix_disown_commands(const struct matrix *m)
{
	uint64_t seq = atomic_load_explicit(command_field(m, offsetof(struct sm_commands, seq)),
					    memory_order_acquire) &
		       ~UINT64_C(1); /* one that is being written is still to come */

	for (uint32_t i = 0; i < m->header->command_rows; i++)
		matrix_row_acked(m, i, seq);
	matrix_acknowledge(m, seq, 0);
	return seq;
}

void matrix_assign(const struct matrix *m, uint32_t i, uint32_t row, const char *actuator, uint32_t n_values)
{
	struct sm_command *to = (struct sm_command *)row_field(m, i, 0);

	to->row = row;
	to->n_values = n_values;
	memcpy(to->actuator, actuator, sizeof(to->actuator));
}

static int write_all(int fd, const unsigned char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

static int trace_flush(struct trace *t)
{
	int rc = write_all(t->fd, t->buf, t->used);

	t->used = 0;
	return rc;
}

/* A record may be cut by the end of the buffer: the file is a stream. */
static int trace_put(struct trace *t, const void *from, size_t len)
{
	const unsigned char *at = from;

	while (len > 0) {
		size_t room = t->size - t->used, n = len < room ? len : room;
		int rc;

		memcpy(t->buf + t->used, at, n);
		t->used += n;
		at += n;
		len -= n;
		if (t->used < t->size)
			continue;
		rc = trace_flush(t);
		if (rc)
			return rc;
	}
	return 0;
}

static int trace_head(struct trace *t, const struct sm_header *layout, struct row_names names)
{
	uint64_t len = end_of_names(layout);
	unsigned char *head = calloc(1, len);
	struct sm_header h = *layout;
	int rc;

	if (!head)
		return -ENOMEM;
	h.off_cells = h.total_len = len;
	h.off_activity = 0;
	h.flow_rows = h.command_rows = 0;
	h.off_flows = h.off_commands = 0;
	memcpy(head, &h, sizeof(h));
	put_names(head, &h, names);
	rc = trace_put(t, head, len);
	free(head);
	return rc;
}

static int trace_create(struct trace *t, const char *path)
{
	t->path = strdup(path);
	t->buf = malloc(TRACE_BUF);
	t->size = TRACE_BUF;
	if (asprintf(&t->partial, "%s.partial", path) < 0)
		t->partial = NULL;
	if (!t->path || !t->buf || !t->partial)
		return -ENOMEM;
	if (unlink(path) && errno != ENOENT)
		return -errno;
	t->fd = open(t->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return t->fd < 0 ? -errno : 0;
}

int trace_open(struct trace *t, const char *path, const struct sm_header *layout, struct row_names names)
{
	int rc;

	*t = (struct trace)TRACE_INIT;
	rc = trace_create(t, path);
	if (!rc)
		rc = trace_head(t, layout, names);
	if (rc)
		trace_close(t);
	return rc;
}

int trace_append(struct trace *t, uint64_t t_ns, const uint64_t *cells, size_t n_cells)
{
	int rc = trace_put(t, &t_ns, sizeof(t_ns));

	return rc ? rc : trace_put(t, cells, n_cells * sizeof(*cells));
}

/* Make the new name itself durable. */
static int sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd, rc = 0;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return -errno;
	if (fsync(fd) && errno != EINVAL) /* EINVAL: a file system without folders on a disk */
		rc = -errno;
	close(fd);
	return rc;
}

int trace_finish(struct trace *t)
{
	int fd, rc = trace_flush(t);

	if (rc)
		return rc;
	if (fsync(t->fd))
		return -errno;
	fd = t->fd;
	t->fd = -1;
	if (close(fd))
		return -errno;
	if (rename(t->partial, t->path))
		return -errno;
	return sync_folder(t->path);
}

void trace_close(struct trace *t)
{
	if (t->fd >= 0)
		close(t->fd);
	free(t->buf);
	free(t->partial);
	free(t->path);
	*t = (struct trace)TRACE_INIT;
}
