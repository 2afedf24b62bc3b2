/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_activity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state_matrix.h"

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

static int map(struct activity *a, int fd, const char **why)
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
	a->len = header.total_len;
	a->region = mmap(NULL, a->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (a->region == MAP_FAILED) {
		a->region = NULL;
		return -errno;
	}
	a->rows = header.rows;
	a->cells = (uint64_t *)((char *)a->region + header.off_activity);
	return 0;
}

int activity_open(struct activity *a, const char *file, const char **why)
{
	int fd, rc;

	*a = (struct activity){ 0 };
	*why = NULL;
	fd = open(file, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = map(a, fd, why);
	close(fd);
	return rc;
}

void activity_add(const struct activity *a, const uint32_t *rows, uint32_t count, int64_t change)
{
	if (!a->region)
		return;
	for (uint32_t i = 0; i < count; i++)
		atomic_fetch_add_explicit((_Atomic uint64_t *)&a->cells[rows[i]], (uint64_t)change,
					  memory_order_relaxed);
}

void activity_close(struct activity *a)
{
	if (a->region)
		munmap(a->region, a->len);
	*a = (struct activity){ 0 };
}
