/* SPDX-License-Identifier: Apache-2.0 */
#include "boot_file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Returns what follows `word` and a blank, or NULL if the entry begins otherwise. */
static char *after(char *entry, const char *word)
{
	size_t length = strlen(word);

	return strncmp(entry, word, length) == 0 && entry[length] == ' ' ? entry + length + 1 : NULL;
}

static int add_word(char **words, size_t *count, char *word)
{
	if (*count == BOOT_MAX_WORDS)
		return -1;
	words[(*count)++] = word;
	return 0;
}

static int add_mount(struct boot_file *boot, enum boot_mount_kind kind, int fd, char *path)
{
	if (boot->mount_count == BOOT_MAX_MOUNTS || *path != '/')
		return -1;
	boot->mounts[boot->mount_count++] = (struct boot_mount){ .kind = kind, .fd = fd, .path = path };
	return 0;
}

static int add_folder(struct boot_file *boot, enum boot_mount_kind kind, char *text)
{
	char *end;
	long fd;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	fd = strtol(text, &end, 10);
	if (errno || fd > INT_MAX || *end != ' ')
		return -1;
	return add_mount(boot, kind, (int)fd, end + 1);
}

static int add_entry(struct boot_file *boot, char *entry)
{
	char *text;

	if ((text = after(entry, "env")))
		return add_word(boot->env, &boot->env_count, text);
	if ((text = after(entry, "arg")))
		return add_word(boot->args, &boot->arg_count, text);
	if ((text = after(entry, "cover")))
		return add_mount(boot, BOOT_COVER, -1, text);
	if ((text = after(entry, "read")))
		return add_folder(boot, BOOT_READ, text);
	if ((text = after(entry, "write")))
		return add_folder(boot, BOOT_WRITE, text);
	return -1;
}

const char *boot_file_parse(struct boot_file *boot, char *text, size_t length)
{
	char *entry;

	for (entry = text; entry < text + length; entry += strlen(entry) + 1)
		if (add_entry(boot, entry))
			return entry;
	return NULL;
}
