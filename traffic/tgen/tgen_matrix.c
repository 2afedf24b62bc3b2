/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGION_MAX (UINT64_C(1) << 32)

static const char *check(const struct sm_header *h, uint64_t room)
{
	if (memcmp(h->magic, SM_MAGIC, sizeof(h->magic)) != 0)
		return "no state matrix (magic); start qmon first";
	if (h->version_major != SM_VERSION_MAJOR)
		return "a state matrix of another major version; use qmon and tgen of one build";
	if (h->header_len < sizeof(*h) || h->rows > SM_MAX_ROWS || h->total_len > room)
		return "a damaged state matrix (sizes); write it again";
	if (h->off_activity % sizeof(uint64_t) || h->off_activity < h->header_len ||
	    h->off_activity > h->total_len ||
	    (uint64_t)h->rows * sizeof(uint64_t) > h->total_len - h->off_activity)
		return "a damaged state matrix (activity cells out of bounds); write it again";
	if (h->flow_rows &&
	    (h->off_flows % sizeof(uint64_t) || h->off_flows < h->header_len || h->off_flows > h->total_len ||
	     h->flow_rows > (h->total_len - h->off_flows) / sizeof(struct sm_flow)))
		return "a damaged state matrix (rows of flows out of bounds); write it again";
	if (h->command_rows &&
	    (h->off_commands % sizeof(uint64_t) || h->off_commands < h->header_len ||
	     h->off_commands > h->total_len || h->total_len - h->off_commands < sizeof(struct sm_commands) ||
	     h->command_rows > (h->total_len - h->off_commands - sizeof(struct sm_commands)) /
				       sizeof(struct sm_command)))
		return "a damaged state matrix (rows of actuators out of bounds); write it again";
	return NULL;
}

static int read_header(int fd, struct sm_header *header, uint64_t *room)
{
	void *region;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < sizeof(*header))
		return -EINVAL;
	*room = S_ISREG(st.st_mode) ? (uint64_t)st.st_size
				    : REGION_MAX; /* a device checks the length in mmap() */
	region = mmap(NULL, sizeof(*header), PROT_READ, MAP_SHARED, fd, 0);
	if (region == MAP_FAILED)
		return -errno;
	memcpy(header, region, sizeof(*header));
	munmap(region, sizeof(*header));
	return 0;
}

/* The rows of an actuator of flows lie one after the other, by flow number. */
static void find_orders(struct tgen_matrix *m, struct sm_command *row, uint32_t rows)
{
	static const char *const names[NR_ORDERS] = { "cwnd", "clamp", "pacing" };

	for (uint32_t i = 0; i < rows; i++)
		for (int kind = 0; kind < NR_ORDERS; kind++) {
			if (strncmp(row[i].actuator, names[kind], sizeof(row[i].actuator)) != 0)
				continue;
			if (!m->ordered[kind])
				m->orders[kind] = &row[i];
			m->ordered[kind]++;
		}
}

static int map(struct tgen_matrix *m, int fd, const char **why)
{
	struct sm_header header;
	uint64_t room = 0;
	int rc;

	*why = "too short for a state matrix; start qmon first";
	rc = read_header(fd, &header, &room);
	if (rc)
		return rc;
	*why = check(&header, room);
	if (*why)
		return -EINVAL;
	m->len = header.total_len;
	m->region = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->region == MAP_FAILED) {
		m->region = NULL;
		return -errno;
	}
	m->rows = header.rows;
	m->activity = (uint64_t *)((char *)m->region + header.off_activity);
	m->flow_rows = header.flow_rows; /* a writer of version 1.0 left a zero there */
	if (m->flow_rows)
		m->flows = (struct sm_flow *)((char *)m->region + header.off_flows);
	if (header.command_rows) {
		m->commands = (struct sm_commands *)((char *)m->region + header.off_commands);
		find_orders(m, (struct sm_command *)(m->commands + 1), header.command_rows);
	}
	return 0;
}

int tgen_matrix_open(struct tgen_matrix *m, const char *file, const char **why)
{
	int fd, rc;

	*m = (struct tgen_matrix){ 0 };
	*why = NULL;
	fd = open(file, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = map(m, fd, why);
	close(fd);
	return rc;
}

void tgen_matrix_count(const struct tgen_matrix *m, const uint32_t *rows, uint32_t count, int64_t change)
{
	if (!m->region)
		return;
	for (uint32_t i = 0; i < count; i++)
		atomic_fetch_add_explicit((_Atomic uint64_t *)&m->activity[rows[i]], (uint64_t)change,
					  memory_order_relaxed);
}

void tgen_matrix_store(const struct tgen_matrix *m, uint32_t flow, const struct sm_flow *row)
{
	_Atomic uint64_t *cells = (_Atomic uint64_t *)&m->flows[flow];
	uint64_t words[sizeof(*row) / sizeof(uint64_t)];

	memcpy(words, row, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		atomic_store_explicit(&cells[i], words[i], memory_order_relaxed);
}

bool tgen_matrix_has_orders(const struct tgen_matrix *m)
{
	return m->ordered[ORDER_CWND] || m->ordered[ORDER_CLAMP] || m->ordered[ORDER_PACING];
}

uint64_t tgen_matrix_told(const struct tgen_matrix *m, enum order_kind kind, uint32_t flow)
{
	if (flow >= m->ordered[kind])
		return 0;
	return atomic_load_explicit((_Atomic uint64_t *)&m->orders[kind][flow].in_force[SM_TOLD],
				    memory_order_acquire);
}

void tgen_matrix_took(const struct tgen_matrix *m, enum order_kind kind, uint32_t flow, uint64_t value)
{
	if (flow < m->ordered[kind])
		atomic_store_explicit((_Atomic uint64_t *)&m->orders[kind][flow].in_force[0], value,
				      memory_order_relaxed);
}

void tgen_matrix_set_setter(const struct tgen_matrix *m, uint64_t pid)
{
	atomic_store_explicit((_Atomic uint64_t *)&m->commands->setter, pid, memory_order_relaxed);
}

void tgen_matrix_close(struct tgen_matrix *m)
{
	if (m->region)
		munmap(m->region, m->len);
	*m = (struct tgen_matrix){ 0 };
}
