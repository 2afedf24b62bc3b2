// SPDX-License-Identifier: Apache-2.0
/* The ports file: see ports.h. */
#include "ports.h"

static int check(const struct record_place *at, const struct port *p)
{
	int rc = record_word(at, "name", p->name, sizeof(p->name));

	if (!rc)
		rc = record_word(at, "netns", p->netns, sizeof(p->netns));
	return rc ? rc : record_word(at, "ifname", p->ifname, sizeof(p->ifname));
}

int ports_take(struct ports *ports, struct fault *f)
{
	static const struct record_kind kind = {
		PORT_MAGIC, "port", PORT_VERSION, sizeof(struct port), 1, SM_MAX_ROWS,
	};
	struct record_place at = { &ports->file, &kind, 0, f };
	const void *records;
	int rc = record_file_take(&ports->file, &kind, &records, &ports->n, f);

	if (rc)
		return rc;
	ports->port = records;
	for (; at.number < ports->n && !rc; at.number++)
		rc = check(&at, &ports->port[at.number]);
	return rc ? rc : record_file_end(&ports->file, f);
}
