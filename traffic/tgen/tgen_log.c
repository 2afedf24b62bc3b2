/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int flush(struct tgen_log *log)
{
	int rc = write_all(log->fd, log->block, log->used);

	log->used = 0;
	return rc;
}

static void partial_name(const struct tgen_log *log, char out[64])
{
	snprintf(out, 64, "%s.partial", log->name);
}

int tgen_log_open(struct tgen_log *log, int dir, const char *name, const struct tgen_log_header *header)
{
	char partial[64];

	*log = (struct tgen_log){ .dir = dir, .fd = -1, .header = *header };
	snprintf(log->name, sizeof(log->name), "%s", name);
	log->block = malloc(TGEN_LOG_BLOCK);
	if (!log->block)
		return -ENOMEM;
	partial_name(log, partial);
	log->fd = openat(dir, partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (log->fd < 0)
		return -errno;
	log->header.count = 0;
	return write_all(log->fd, (const char *)&log->header, sizeof(log->header));
}

int tgen_log_add(struct tgen_log *log, const void *record)
{
	size_t size = log->header.record_size;

	if (log->used + size > TGEN_LOG_BLOCK) {
		int rc = flush(log);

		if (rc)
			return rc;
	}
	memcpy(log->block + log->used, record, size);
	log->used += size;
	log->header.count++;
	return 0;
}

int tgen_log_finish(struct tgen_log *log)
{
	char partial[64];
	ssize_t n;
	int rc;

	rc = flush(log);
	if (rc)
		return rc;
	n = pwrite(log->fd, &log->header, sizeof(log->header), 0);
	if (n != (ssize_t)sizeof(log->header))
		return n < 0 ? -errno : -EIO;
	if (fsync(log->fd) < 0)
		return -errno;
	partial_name(log, partial);
	if (renameat(log->dir, partial, log->dir, log->name) < 0)
		return -errno;
	return fsync(log->dir) < 0 ? -errno : 0;
}

void tgen_log_discard(struct tgen_log *log)
{
	char partial[64];

	partial_name(log, partial);
	if (log->fd >= 0)
		unlinkat(log->dir, partial, 0);
}

void tgen_log_close(struct tgen_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
	free(log->block);
	log->block = NULL;
}

void tgen_logs_discard(struct tgen_logs *logs)
{
	tgen_log_discard(&logs->samples);
	tgen_log_discard(&logs->flows);
	tgen_log_discard(&logs->nics);
	tgen_log_discard(&logs->job);
}

void tgen_logs_close(struct tgen_logs *logs)
{
	tgen_log_close(&logs->flows);
	tgen_log_close(&logs->samples);
	tgen_log_close(&logs->nics);
	tgen_log_close(&logs->job);
}
