/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a program, told by a table: `--NAME VALUE`, `--NAME=VALUE` or `--NAME`. The text of --help
 * follows from the table.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The last row of a table has no name. */
struct program_option {
	const char *name;  /* without its dashes */
	const char *value; /* what stands for its value in the help; NULL: it takes none */
	const char *help;
	bool *flag; /* where it goes: one of the three */
	const char **text;
	uint64_t *number;
	uint64_t min, max; /* of a number */
	bool required;
};

/*
 * Read a command line: 0; or EXIT_USAGE and a line. What is not given stays as it is. --help prints the usage
 * and `about`, and ends the program.
 */
int options_read(int argc, char **argv, const struct program_option *options, const char *about);

/* A whole number from min to max: 0, or -EINVAL. */
int options_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

#endif
