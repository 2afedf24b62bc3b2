// SPDX-License-Identifier: Apache-2.0
/* Record files: see record_file.h. */
#include "record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "write it with the Python of this program's release"

/* ---- files ---- */

static int map(struct record_file *file, int fd)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!st.st_size) /* which mmap() refuses */
		return 0;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	file->at = at;
	file->len = (size_t)st.st_size;
	return 0;
}

int record_file_open(struct record_file *file, const char *option, const char *path, struct fault *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	*file = (struct record_file){ .option = option, .path = path };
	rc = fd < 0 ? -errno : map(file, fd);
	if (fd >= 0)
		close(fd);
	return rc ? fault_say(f, -EINVAL, "%s: read '%.200s': %s; name a readable record file", option, path,
			      strerror(-rc))
		  : 0;
}

void record_file_close(struct record_file *file)
{
	if (file->at)
		munmap((void *)file->at, file->len);
	*file = (struct record_file){ 0 };
}

/* ---- tables ---- */

static int refuse(const struct record_file *file, const struct record_kind *kind, struct fault *f,
		  const char *why)
{
	return fault_say(f, -EINVAL, "%s: '%.200s': table '%s': %s", file->option, file->path, kind->name,
			 why);
}

static int check_header(const struct record_file *file, const struct record_header *h,
			const struct record_kind *kind, size_t room, struct fault *f)
{
	char why[160];

	if (memcmp(h->magic, kind->magic, sizeof(h->magic)))
		return refuse(file, kind, f, "something else is there (magic); " REMEDY);
	if (h->version != kind->version || h->record_size != kind->size) {
		snprintf(why, sizeof(why), "version %u, records of %u bytes, not %u and %u; " REMEDY,
			 h->version, h->record_size, kind->version, kind->size);
		return refuse(file, kind, f, why);
	}
	if (h->count < kind->least || h->count > kind->most) {
		snprintf(why, sizeof(why), "%" PRIu64 " records; give %u to %u", h->count, kind->least,
			 kind->most);
		return refuse(file, kind, f, why);
	}
	return h->count > room / kind->size ? refuse(file, kind, f, "cut off; write it again") : 0;
}

int record_file_take(struct record_file *file, const struct record_kind *kind, const void **records,
		     uint32_t *count, struct fault *f)
{
	size_t room = file->len - file->used;
	struct record_header h;
	int rc;

	if (room < sizeof(h))
		return refuse(file, kind, f, "the file ends before it; " REMEDY);
	memcpy(&h, file->at + file->used, sizeof(h));
	room = (room - sizeof(h)) & ~(size_t)7;
	rc = check_header(file, &h, kind, room, f);
	if (rc)
		return rc;
	*records = file->at + file->used + sizeof(h);
	*count = (uint32_t)h.count;
	file->used += sizeof(h) + (((size_t)h.count * kind->size + 7) & ~(size_t)7);
	return 0;
}

int record_file_end(const struct record_file *file, struct fault *f)
{
	if (file->used == file->len)
		return 0;
	return fault_say(f, -EINVAL, "%s: '%.200s': %zu bytes behind its tables; " REMEDY, file->option,
			 file->path, file->len - file->used);
}

/* ---- records ---- */

int record_refuse(const struct record_place *at, const char *field, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return fault_say(at->fault, -EINVAL, "%s: '%.200s': %s %u, %s: %s", at->file->option, at->file->path,
			 at->kind->name, at->number, field, why);
}

int record_number(const struct record_place *at, const char *field, uint64_t value, uint64_t min,
		  uint64_t max)
{
	if (value >= min && value <= max)
		return 0;
	return record_refuse(at, field, "%" PRIu64 " is not from %" PRIu64 " to %" PRIu64, value, min, max);
}

int record_word(const struct record_place *at, const char *field, const char *text, size_t size)
{
	size_t len = strnlen(text, size);
	bool plain = len > 0;

	if (len == size)
		return record_refuse(at, field, "no end within its %zu bytes; give at most %zu characters",
				     size, size - 1);
	for (size_t i = 0; i < len; i++)
		plain &= text[i] > ' ' && text[i] <= '~';
	return plain ? 0 : record_refuse(at, field, "empty, or with blanks or unprintable characters");
}
