// SPDX-License-Identifier: Apache-2.0
/* The actuators file: see actuators.h. */
#include "actuators.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define REQUEST_LEAST (NLMSG_LENGTH(sizeof(struct tcmsg)))

static int check_fields(const struct record_place *at, const struct actuators *a, const char *name,
			uint32_t start, uint32_t n)
{
	const struct actuator_row *r = &a->row[at->number];

	if (start > a->n_fields || n > a->n_fields - start || !n)
		return record_refuse(at, name, "%u from %u on are not among the %u fields", n, start,
				     a->n_fields);
	for (uint32_t k = start; k < start + n; k++) {
		const struct actuator_field *field = &a->field[k];
		bool wide = field->width == 1 || field->width == 2 || field->width == 4 || field->width == 8;

		if (!wide || !field->multiplier || !field->divisor || field->value >= r->n_values)
			return record_refuse(at, name, "field %u is damaged", k);
	}
	return 0;
}

static int check_request(const struct record_place *at, const struct actuators *a)
{
	const struct actuator_row *r = &a->row[at->number];
	struct nlmsghdr head;

	if (r->request_start > a->n_bytes || r->request_len > a->n_bytes - r->request_start ||
	    r->request_len < REQUEST_LEAST || r->request_len > ACTUATOR_MAX_SIZE ||
	    r->request_len % NLMSG_ALIGNTO)
		return record_refuse(at, "request", "%u bytes from %u on are no request in %u bytes",
				     r->request_len, r->request_start, a->n_bytes);
	memcpy(&head, a->bytes + r->request_start, sizeof(head));
	if (head.nlmsg_len != r->request_len || head.nlmsg_type != RTM_NEWQDISC)
		return record_refuse(at, "request", "it does not change a qdisc");
	for (uint32_t k = r->writes_start; k < r->writes_start + r->n_writes; k++)
		if (a->field[k].offset < REQUEST_LEAST ||
		    a->field[k].offset + a->field[k].width > r->request_len)
			return record_refuse(at, "writes", "field %u lies outside the request", k);
	return 0;
}

static int check_values(const struct record_place *at, const struct actuator_row *r)
{
	int rc = record_number(at, "n_values", r->n_values, 1, SM_MAX_VALUES);

	for (uint32_t v = 0; v < r->n_values && !rc; v++) {
		rc = record_number(at, "low", r->low[v], 0, r->high[v]);
		if (!rc)
			rc = record_number(at, "start", r->start[v], r->low[v], r->high[v]);
	}
	return rc;
}

static int check(const struct record_place *at, const struct actuators *a, bool control)
{
	const struct actuator_row *r = &a->row[at->number];
	int rc = record_word(at, "actuator", r->actuator, sizeof(r->actuator));

	if (!rc)
		rc = record_word(at, "qdisc", r->qdisc, sizeof(r->qdisc));
	if (!rc && actuator_of_flow(r))
		return control || r->n_values != 1
			       ? record_refuse(at, "qdisc",
					       "a flow's row has one value and no control packets")
			       : check_values(at, r);
	if (!rc && r->row >= a->ports->n)
		rc = record_refuse(at, "row", "%u is not from 0 to %u, the rows of the ports file", r->row,
				   a->ports->n - 1);
	if (!rc)
		rc = check_values(at, r);
	if (!rc)
		rc = check_fields(at, a, "writes", r->writes_start, r->n_writes);
	if (!rc)
		rc = check_fields(at, a, "reads", r->reads_start, r->n_reads);
	if (!rc)
		rc = check_request(at, a);
	if (!rc && control)
		rc = record_number(at, "control_port", r->control_port, 1, UINT16_MAX);
	if (!rc && control && r->n_values != 1)
		rc = record_refuse(at, "n_values", "%u, but a control packet has room for one", r->n_values);
	return rc;
}

static int take_tables(struct actuators *a, const struct record_kind *kind, struct fault *f)
{
	static const struct record_kind fields = {
		FIELD_MAGIC, "field", FIELD_VERSION, sizeof(struct actuator_field), 0, UINT32_MAX,
	};
	static const struct record_kind bytes = { REQUEST_MAGIC, "byte", ACTUATOR_VERSION, 1, 0, UINT32_MAX };
	const void *records;
	int rc = record_file_take(&a->file, kind, &records, &a->n, f);

	if (rc)
		return rc;
	a->row = records;
	rc = record_file_take(&a->file, &fields, &records, &a->n_fields, f);
	if (rc)
		return rc;
	a->field = records;
	rc = record_file_take(&a->file, &bytes, &records, &a->n_bytes, f);
	a->bytes = records;
	return rc ? rc : record_file_end(&a->file, f);
}

int actuators_take(struct actuators *a, const struct ports *ports, bool control, struct fault *f)
{
	static const struct record_kind kind = {
		ACTUATOR_MAGIC, "actuator row", ACTUATOR_VERSION, sizeof(struct actuator_row), 1,
		ACTUATOR_MOST,
	};
	struct record_place at = { &a->file, &kind, 0, f };
	int rc;

	a->ports = ports;
	rc = take_tables(a, &kind, f);
	for (; !rc && at.number < a->n; at.number++)
		rc = check(&at, a, control);
	return rc;
}

const char *actuators_port(const struct actuators *a, uint32_t i)
{
	return a->ports->port[a->row[i].row].name;
}

struct sockaddr_in actuators_address(const struct actuators *a, uint32_t i)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(a->row[i].control_port),
		.sin_addr.s_addr = a->row[i].control_addr,
	};
}

uint64_t actuator_field_raw(const struct actuator_field *field, uint64_t value)
{
	unsigned __int128 raw = (unsigned __int128)value * field->multiplier / field->divisor;
	uint64_t most = UINT64_MAX >> (64 - 8 * field->width);

	return raw > most ? most : (uint64_t)raw;
}

/* Rounded up, so that a value which the kernel holds in finer steps comes back as it was. */
uint64_t actuator_field_value(const struct actuator_field *field, uint64_t raw)
{
	unsigned __int128 value =
		((unsigned __int128)raw * field->divisor + field->multiplier - 1) / field->multiplier;

	return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

uint64_t actuators_enforceable(const struct actuators *a, uint32_t i, uint32_t value, uint64_t wanted)
{
	const struct actuator_row *r = &a->row[i];
	const struct actuator_field *widest = NULL;

	for (uint32_t k = r->writes_start; k < r->writes_start + r->n_writes; k++)
		if (a->field[k].value == value && (!widest || a->field[k].width > widest->width))
			widest = &a->field[k];
	return widest ? actuator_field_value(widest, actuator_field_raw(widest, wanted)) : wanted;
}
