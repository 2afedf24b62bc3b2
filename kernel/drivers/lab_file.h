/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of the host that a lab's kernel reads at boot. */
#ifndef LAB_FILE_H
#define LAB_FILE_H

#include <linux/init.h>
#include <linux/types.h>
#include <os.h>

/* Fills memory from the start of an open file, which it closes. False: the file is shorter, or cannot be
 * read. */
static inline bool __init lab_file_read(int fd, void *to, u64 bytes)
{
	u64 done = 0;
	int got;

	while (done < bytes && (got = os_pread_file(fd, to + done, bytes - done, done)) > 0)
		done += got;
	os_close_file(fd);
	return done == bytes;
}

#endif
