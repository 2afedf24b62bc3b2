// SPDX-License-Identifier: Apache-2.0
/* The events file: see events_file.h. */
#include "events_file.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

static_assert(sizeof(struct ifinfomsg) <= sizeof(struct tcmsg), "the shortest request");
static_assert(offsetof(struct ifinfomsg, ifi_index) == offsetof(struct tcmsg, tcm_ifindex),
	      "place of the index");

/* The shortest requests: a device's, and a command of a generic family. */
static uint32_t shortest(const struct event_change *c)
{
	return c->generic ? NLMSG_LENGTH(GENL_HDRLEN) : NLMSG_LENGTH(sizeof(struct ifinfomsg));
}

static int check_request(const struct record_place *at, const struct events *e, const char *name,
			 uint32_t start, uint32_t len)
{
	struct nlmsghdr head;

	if (start > e->n_bytes || len > e->n_bytes - start || len < shortest(&e->change[at->number]) ||
	    len > EVENT_MAX_SIZE || len % NLMSG_ALIGNTO)
		return record_refuse(at, name, "%u bytes from %u on are no request in %u bytes", len, start,
				     e->n_bytes);
	memcpy(&head, e->bytes + start, sizeof(head));
	if (head.nlmsg_len != len)
		return record_refuse(at, name, "its length is %u instead of %u", head.nlmsg_len, len);
	return 0;
}

static int check(const struct record_place *at, const struct events *e, const struct ports *ports)
{
	const struct event_change *c = &e->change[at->number];
	uint64_t before = at->number ? e->change[at->number - 1].at_ns : 0;
	int rc = record_number(at, "at_ns", c->at_ns, before, INT64_MAX);

	if (!rc && c->row >= ports->n)
		rc = record_refuse(at, "row", "%u is not from 0 to %u, the rows of the ports file", c->row,
				   ports->n - 1);
	if (!rc)
		rc = record_number(at, "generic", c->generic, 0, 1);
	if (!rc)
		rc = check_request(at, e, "set", c->set_start, c->set_len);
	return rc || !c->get_len ? rc : check_request(at, e, "get", c->get_start, c->get_len);
}

int events_take(struct events *e, const struct ports *ports, struct fault *f)
{
	static const struct record_kind kind = {
		EVENT_MAGIC, "event", EVENT_VERSION, sizeof(struct event_change), 1, EVENT_MOST,
	};
	static const struct record_kind bytes = {
		EVENT_BYTES_MAGIC, "byte", EVENT_VERSION, 1, 1, UINT32_MAX
	};
	struct record_place at = { &e->file, &kind, 0, f };
	const void *records;
	int rc = record_file_take(&e->file, &kind, &records, &e->n, f);

	if (rc)
		return rc;
	e->change = records;
	rc = record_file_take(&e->file, &bytes, &records, &e->n_bytes, f);
	if (rc)
		return rc;
	e->bytes = records;
	for (; !rc && at.number < e->n; at.number++)
		rc = check(&at, e, ports);
	return rc ? rc : record_file_end(&e->file, f);
}
