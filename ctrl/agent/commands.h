/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that were given and are not yet due: a queue in the order in which they came, at most one a look.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

struct command {
	uint64_t seq, due_ns;
	uint64_t *wanted; /* all values of a command */
};

struct commands {
	struct command *ring;
	uint64_t *values; /* of all of them */
	uint32_t size, first, n;
};

/* Room for `size` commands of `n_values` values: 0 or -ENOMEM. */
int commands_open(struct commands *c, uint32_t size, uint32_t n_values);
void commands_close(struct commands *c);

/* Returns the next command, for the caller to fill in and to push. NULL: the queue is full. */
struct command *commands_slot(struct commands *c);
void commands_push(struct commands *c);

/* Returns the command that is due first, or NULL if there is none. */
const struct command *commands_first(const struct commands *c);
void commands_pop(struct commands *c);
void commands_clear(struct commands *c);

#endif
