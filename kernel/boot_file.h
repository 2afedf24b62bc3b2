/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot file: what process 1 of a lab mounts and runs. It has these entries, each ended by a zero byte:
 *
 *     env NAME=VALUE
 *     arg WORD
 *     cover PATH      a folder that the lab's user may not enter on the host: an empty one takes its place
 *     read FD PATH    a folder to mount at PATH, read-only; FD is the lab's descriptor of it
 *     write FD PATH   the same, writable
 *
 * Paths are absolute. A descriptor leads into a folder whose path the lab's user may not walk.
 */
#ifndef BOOT_FILE_H
#define BOOT_FILE_H

#include <stddef.h>

#define BOOT_MAX_WORDS  256
#define BOOT_MAX_MOUNTS 256

enum boot_mount_kind { BOOT_COVER, BOOT_READ, BOOT_WRITE };

struct boot_mount {
	enum boot_mount_kind kind;
	int fd; /* of BOOT_READ and BOOT_WRITE */
	char *path;
};

/* Texts are parts of the file. The lists of words end with NULL. */
struct boot_file {
	char *args[BOOT_MAX_WORDS + 1];
	char *env[BOOT_MAX_WORDS + 1];
	struct boot_mount mounts[BOOT_MAX_MOUNTS]; /* in the order of the entries */
	size_t arg_count, env_count, mount_count;
};

/*
 * Reads a boot file of `length` bytes into `boot`, which is zero. A zero byte follows the text. Returns NULL,
 * or the first entry that is none or one too many.
 */
const char *boot_file_parse(struct boot_file *boot, char *text, size_t length);

#endif
