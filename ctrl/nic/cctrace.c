// SPDX-License-Identifier: Apache-2.0
#include "cctrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of 64 bits. */
static int read_numbers(const char *text, uint64_t *numbers, int room)
{
	for (int count = 0; count < room; count++) {
		char *end;

		if (*text < '0' || *text > '9')
			return -EINVAL;
		errno = 0;
		numbers[count] = strtoull(text, &end, 10);
		if (errno)
			return -EINVAL;
		if (*end == '\0' || *end == '\n')
			return count + 1;
		if (*end != ',')
			return -EINVAL;
		text = end + 1;
	}
	return -EINVAL;
}

static int narrow(const uint64_t *wide, uint32_t *numbers, int count)
{
	for (int i = 0; i < count; i++) {
		if (wide[i] > UINT32_MAX)
			return -EINVAL;
		numbers[i] = (uint32_t)wide[i];
	}
	return count;
}

int cctrace_numbers(const char *text, uint32_t *numbers, int room)
{
	uint64_t wide[CCTRACE_NUMBERS_MAX];
	int count = read_numbers(text, wide, room < CCTRACE_NUMBERS_MAX ? room : CCTRACE_NUMBERS_MAX);

	return count < 0 ? count : narrow(wide, numbers, count);
}

static int read_step(const char *line, struct cctrace_step *step)
{
	uint64_t wide[CCTRACE_TELEMETRY_COLUMNS];
	uint32_t numbers[CCTRACE_COLUMNS + 3] = { 0 };
	int count = read_numbers(line, wide, CCTRACE_TELEMETRY_COLUMNS);
	bool measured = count == CCTRACE_TELEMETRY_COLUMNS;

	if (!measured && count != CCTRACE_COLUMNS)
		return -EINVAL;
	if (narrow(wide, numbers, measured ? CCTRACE_COLUMNS + 3 : CCTRACE_COLUMNS) < 0)
		return -EINVAL;
	*step = (struct cctrace_step){ 0 };
	memcpy(&step->event, numbers, CC_EVENT_HEAD_BYTES);
	memcpy(&step->flow, numbers + CC_EVENT_HEAD_BYTES / sizeof(uint32_t), sizeof(step->flow));
	if (measured) {
		memcpy(&step->event.acked_psn, numbers + CCTRACE_COLUMNS, 3 * sizeof(uint32_t));
		memcpy(step->event.hop, wide + CCTRACE_COLUMNS + 3, sizeof(step->event.hop));
	}
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
