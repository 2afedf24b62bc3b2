// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the boot file of a lab. Every entry is taken as it stands, or is refused. */
#include "boot_file.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Requires that what was read are whole texts of the file, in this order. */
static void check_texts(char *const *texts, size_t n, const char *from, const char *end)
{
	for (size_t i = 0; i < n; i++) {
		require(from < texts[i] && texts[i] <= end);
		from = texts[i] + strlen(texts[i]);
	}
	require(from <= end);
}

static void check(const struct boot_file *boot, const char *text, size_t size)
{
	char *paths[BOOT_MAX_MOUNTS];

	for (size_t i = 0; i < boot->mount_count; i++) {
		const struct boot_mount *mount = &boot->mounts[i];

		require(*mount->path == '/' &&
			(mount->kind == BOOT_COVER ? mount->fd == -1 : mount->fd >= 0));
		paths[i] = mount->path;
	}
	check_texts(paths, boot->mount_count, text, text + size);
	check_texts(boot->args, boot->arg_count, text, text + size);
	check_texts(boot->env, boot->env_count, text, text + size);
	require(!boot->args[boot->arg_count] && !boot->env[boot->env_count]);
}

static size_t count_entries(const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += i + 1 == size || !text[i];
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct boot_file boot = { 0 };
	char *text = calloc(1, size + 1);
	const char *refused;
	size_t n;

	require(text);
	memcpy(text, data, size);
	refused = boot_file_parse(&boot, text, size);
	n = boot.arg_count + boot.env_count + boot.mount_count;
	require(refused ? refused >= text && refused < text + size : n == count_entries(text, size));
	check(&boot, text, size);
	fuzz_count(refused ? 0 : n);
	free(text);
	return 0;
}
