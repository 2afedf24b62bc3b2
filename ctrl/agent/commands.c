// SPDX-License-Identifier: Apache-2.0
/* A queue of commands: see commands.h. */
#include "commands.h"

#include <errno.h>
#include <stdlib.h>

int commands_open(struct commands *c, uint32_t size, uint32_t n_values)
{
	*c = (struct commands){ .size = size };
	c->ring = calloc(size, sizeof(*c->ring));
	c->values = calloc((size_t)size * n_values, sizeof(*c->values));
	if (!c->ring || !c->values)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		c->ring[i].wanted = &c->values[(size_t)i * n_values];
	return 0;
}

void commands_close(struct commands *c)
{
	free(c->ring);
	free(c->values);
	*c = (struct commands){ 0 };
}

struct command *commands_slot(struct commands *c)
{
	return c->n < c->size ? &c->ring[(c->first + c->n) % c->size] : NULL;
}

void commands_push(struct commands *c)
{
	c->n++;
}

const struct command *commands_first(const struct commands *c)
{
	return c->n ? &c->ring[c->first] : NULL;
}

void commands_pop(struct commands *c)
{
	c->first = (c->first + 1) % c->size;
	c->n--;
}

void commands_clear(struct commands *c)
{
	c->n = 0;
}
