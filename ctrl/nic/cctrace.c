// SPDX-License-Identifier: Apache-2.0
#include "cctrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cctrace_numbers(const char *text, uint32_t *numbers, int room)
{
	for (int count = 0; count < room; count++) {
		unsigned long long value;
		char *end;

		if (*text < '0' || *text > '9')
			return -EINVAL;
		errno = 0;
		value = strtoull(text, &end, 10);
		if (errno || value > UINT32_MAX)
			return -EINVAL;
		numbers[count] = (uint32_t)value;
		if (*end == '\0' || *end == '\n')
			return count + 1;
		if (*end != ',')
			return -EINVAL;
		text = end + 1;
	}
	return -EINVAL;
}

static int read_step(const char *line, struct cctrace_step *step)
{
	uint32_t numbers[sizeof(*step) / sizeof(uint32_t)];
	int wanted = sizeof(numbers) / sizeof(numbers[0]);

	if (cctrace_numbers(line, numbers, wanted) != wanted)
		return -EINVAL;
	memcpy(step, numbers, sizeof(*step));
	return 0;
}

int cctrace_read(FILE *file, struct cctrace_step **steps, int *line_number)
{
	char line[512];
	int count = 0, room = 0;

	for (*line_number = 1; fgets(line, sizeof(line), file); ++*line_number) {
		if (count == room) {
			struct cctrace_step *more;

			room = room ? 2 * room : 1024;
			more = realloc(*steps, sizeof(**steps) * room);
			if (!more)
				return -ENOMEM;
			*steps = more;
		}
		if (read_step(line, &(*steps)[count]))
			return -EINVAL;
		count++;
	}
	return count;
}

int cctrace_table(const char *path, uint32_t *table)
{
	FILE *file = fopen(path, "rb");
	size_t bytes;
	bool whole;

	if (!file)
		return -errno;
	bytes = fread(table, 1, CC_TABLE_WORDS * sizeof(uint32_t), file);
	whole = !ferror(file) && fgetc(file) == EOF && bytes % sizeof(uint32_t) == 0;
	fclose(file);
	return whole ? 0 : -EINVAL;
}
