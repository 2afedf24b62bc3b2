// SPDX-License-Identifier: Apache-2.0
/* Enforcement: see enforce.h. */
#include "enforce.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE     UINT32_MAX
#define TEXT_LEN (21 * SM_MAX_VALUES)

/* One row of the actuators file at work. */
struct target {
	struct nl_sock *sock;
	struct nlmsghdr *request; /* its own copy, as sent last */
	uint32_t next;            /* another row of the same port or class, or NONE */
	bool found;               /* the last sweep saw the right qdisc */
	uint64_t in_force[SM_MAX_VALUES];
};

/* ---- reading back ---- */

/* Read what lies in an attribute of a nest, which is the one that `of` names. */
static void read_fields(struct enforcer *e, uint32_t i, const struct actuator_field *of, uint16_t attribute,
			const struct nl_attr *attr)
{
	const struct actuators *a = e->actuators;
	const struct actuator_row *r = &a->row[i];

	for (uint32_t k = r->reads_start; k < r->reads_start + r->n_reads; k++) {
		const struct actuator_field *field = &a->field[k];
		uint64_t raw = 0;

		if (field->nest != of->nest || field->index != of->index || field->attribute != attribute ||
		    (size_t)field->offset + field->width > attr->len)
			continue;
		memcpy(&raw, attr->data + field->offset, field->width);
		e->targets[i].in_force[field->value] = actuator_field_value(field, raw);
	}
}

/* The nest that a field names, among the options: 1, 0 if there is none, or -EBADMSG. */
static int find_nest(const struct nl_attr *options, const struct actuator_field *field, struct nl_attr *nest)
{
	const unsigned char *pos = options->data;
	size_t left = options->len;
	uint32_t index = 0;
	int rc;

	*nest = *options;
	if (!field->nest)
		return 1;
	while ((rc = nl_attr_next(&pos, &left, nest)) > 0)
		if (nest->type == field->nest && index++ == field->index)
			break;
	return rc;
}

/* Read all fields that lie in the nest of this one. */
static int read_nest(struct enforcer *e, uint32_t i, const struct actuator_field *of,
		     const struct nl_attr *options)
{
	struct nl_attr nest, attr;
	const unsigned char *pos;
	size_t left;
	int rc = find_nest(options, of, &nest);

	if (rc <= 0)
		return rc;
	if (!of->attribute) {
		read_fields(e, i, of, 0, &nest);
		return 0;
	}
	pos = nest.data;
	left = nest.len;
	while ((rc = nl_attr_next(&pos, &left, &attr)) > 0)
		read_fields(e, i, of, attr.type, &attr);
	return rc;
}

static bool same_nest(const struct actuator_field *a, const struct actuator_field *b)
{
	return a->nest == b->nest && a->index == b->index && !a->attribute == !b->attribute;
}

static int read_row(struct enforcer *e, uint32_t i, const struct qdisc *q)
{
	const struct actuator_row *r = &e->actuators->row[i];
	const struct actuator_field *reads = &e->actuators->field[r->reads_start];
	struct target *t = &e->targets[i];
	int rc = 0;

	memset(t->in_force, 0, sizeof(t->in_force));
	t->found = qdisc_is(q, r->qdisc);
	for (uint32_t k = 0; t->found && k < r->n_reads && !rc; k++)
		if (!k || !same_nest(&reads[k], &reads[k - 1]))
			rc = read_nest(e, i, &reads[k], &q->options);
	return rc;
}

static int on_root(void *arg, uint32_t row, const struct qdisc *q)
{
	struct enforcer *e = arg;
	int rc = 0;

	for (uint32_t i = e->first[row]; i != NONE && !rc; i = e->targets[i].next)
		rc = read_row(e, i, q);
	return rc;
}

const uint64_t *enforcer_in_force(const struct enforcer *e, uint32_t i)
{
	return e->targets[i].in_force;
}

/* ---- set-up ---- */

static int prepare(struct enforcer *e, uint32_t i, struct fault *f)
{
	const struct actuators *a = e->actuators;
	const struct actuator_row *r = &a->row[i];
	struct target *t = &e->targets[i];
	struct tcmsg tc;

	if (actuator_of_flow(r))
		return 0;
	if (!t->found)
		return fault_say(f, -EINVAL,
				 "actuators: the root qdisc of port '%s' (row %u) is no %s, which %s sets; "
				 "make it one "
				 "first",
				 actuators_port(a, i), r->row, r->qdisc, r->actuator);
	t->request = malloc(r->request_len);
	if (!t->request)
		return fault_say(f, -ENOMEM, "actuators: out of memory for %u rows", a->n);
	memcpy(t->request, a->bytes + r->request_start, r->request_len);
	memcpy(&tc, NLMSG_DATA(t->request), sizeof(tc));
	tc.tcm_ifindex = sweeper_ifindex(e->sweeper, r->row);
	tc.tcm_parent = TC_H_ROOT;
	tc.tcm_handle = e->sweeper->samples[r->row].root.handle;
	memcpy(NLMSG_DATA(t->request), &tc, sizeof(tc));
	t->sock = sweeper_socket(e->sweeper, r->row);
	return 0;
}

/* Each port's rows, in the order of the file. */
static void link_rows(struct enforcer *e)
{
	for (uint32_t row = 0; row < e->sweeper->ports.n; row++)
		e->first[row] = NONE;
	for (uint32_t i = e->actuators->n; i-- > 0;) {
		const struct actuator_row *r = &e->actuators->row[i];

		if (actuator_of_flow(r))
			continue;
		e->targets[i].next = e->first[r->row];
		e->first[r->row] = i;
	}
}

int enforcer_open(struct enforcer *e, const struct actuators *actuators, struct sweeper *sweeper,
		  struct fault *f)
{
	int rc;

	*e = (struct enforcer){ .actuators = actuators, .sweeper = sweeper };
	e->targets = calloc(actuators->n, sizeof(*e->targets));
	e->planned = calloc(actuators->n, sizeof(*e->planned));
	e->first = calloc(sweeper->ports.n, sizeof(*e->first));
	if (!e->targets || !e->planned || !e->first || batch_open(&e->batch, actuators->n))
		return fault_say(f, -ENOMEM, "actuators: out of memory for %u rows", actuators->n);
	link_rows(e);
	sweeper->on_root = on_root;
	sweeper->on_root_arg = e;
	sweeper->first = &e->batch;
	rc = sweeper_sample(sweeper, f);
	for (uint32_t i = 0; i < actuators->n && !rc; i++)
		rc = prepare(e, i, f);
	return rc;
}

void enforcer_close(struct enforcer *e)
{
	batch_close(&e->batch);
	for (uint32_t i = 0; e->targets && i < e->actuators->n; i++)
		free(e->targets[i].request);
	free(e->targets);
	free(e->planned);
	free(e->first);
	*e = (struct enforcer){ 0 };
}

/* ---- requests ---- */

static uint64_t clamped(const struct actuator_row *r, uint32_t value, uint64_t wanted)
{
	if (wanted > r->high[value])
		return r->high[value];
	return wanted < r->low[value] ? r->low[value] : wanted;
}

/* Write a row's values into its request: whether that changed it. */
static bool fill(struct enforcer *e, uint32_t i, const uint64_t *wanted)
{
	const struct actuators *a = e->actuators;
	const struct actuator_row *r = &a->row[i];
	bool changed = false;

	for (uint32_t k = r->writes_start; k < r->writes_start + r->n_writes; k++) {
		const struct actuator_field *field = &a->field[k];
		unsigned char *at = (unsigned char *)e->targets[i].request + field->offset;
		uint64_t raw = actuator_field_raw(field, clamped(r, field->value, wanted[field->value]));

		changed = changed || memcmp(at, &raw, field->width);
		memcpy(at, &raw, field->width);
	}
	return changed;
}

static int refusal(const struct enforcer *e, uint32_t i, const uint64_t *wanted, int rc, struct fault *f)
{
	const struct actuator_row *r = &e->actuators->row[i];
	char text[TEXT_LEN + 1] = "";
	size_t used = 0;

	for (uint32_t v = 0; v < r->n_values; v++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %" PRIu64,
					 clamped(r, v, wanted[v]));
	return fault_say(f, -EIO, "change the %s (%s) of port '%s' to%s: %s", r->actuator, r->qdisc,
			 actuators_port(e->actuators, i), text, strerror(-rc));
}

static void plan(struct enforcer *e, uint32_t i)
{
	e->planned[nl_plan_change(e->targets[i].sock, &e->batch, e->targets[i].request)] = i;
	e->n_planned = e->batch.n;
}

int enforcer_check(struct enforcer *e, struct fault *f)
{
	uint32_t n = e->n_planned;

	e->n_planned = 0;
	for (uint32_t op = 0; op < n; op++) {
		uint32_t i = e->planned[op];
		int64_t sent = e->batch.results[op];

		if (sent != e->targets[i].request->nlmsg_len)
			return fault_say(f, -EIO, "change the %s of port '%s': %s",
					 e->actuators->row[i].actuator, actuators_port(e->actuators, i),
					 strerror(sent < 0 ? (int)-sent : EIO));
	}
	return 0;
}

int enforcer_flush(struct enforcer *e, struct fault *f)
{
	int rc = e->batch.n ? batch_run(&e->batch) : 0;

	if (rc)
		return fault_say(f, -EIO, "change %u qdiscs: io_submit: %s", e->n_planned, strerror(-rc));
	return enforcer_check(e, f);
}

static bool tell(const struct enforcer *e, uint32_t i, uint64_t value)
{
	return matrix_tell(&e->sweeper->matrix, i, clamped(&e->actuators->row[i], 0, value));
}

static int wake_setter(const struct enforcer *e, struct fault *f)
{
	uint64_t pid = matrix_setter(&e->sweeper->matrix);

	if (pid && kill((pid_t)pid, SIGUSR1))
		return fault_say(f, -EIO, "tell the traffic generator (pid %" PRIu64 ") what flows get: %s",
				 pid, strerror(errno));
	return 0;
}

int enforcer_plan(struct enforcer *e, const uint64_t *wanted, struct fault *f)
{
	int rc = enforcer_flush(e, f); /* of a command before this one */
	bool told = false;

	for (uint32_t i = 0; !rc && i < e->actuators->n; i++) {
		if (actuator_of_flow(&e->actuators->row[i]))
			told |= tell(e, i, wanted[i * SM_MAX_VALUES]);
		else if (fill(e, i, &wanted[i * SM_MAX_VALUES]))
			plan(e, i);
	}
	return !rc && told ? wake_setter(e, f) : rc;
}

int enforcer_reset(struct enforcer *e, struct fault *f)
{
	e->batch.n = 0; /* it is over */
	for (uint32_t i = 0; i < e->actuators->n; i++) {
		const struct actuator_row *r = &e->actuators->row[i];

		if (actuator_of_flow(r)) {
			tell(e, i, r->start[0]);
			continue;
		}
		fill(e, i, r->start);
		plan(e, i);
	}
	return enforcer_flush(e, f);
}

int enforcer_set(struct enforcer *e, uint32_t i, const uint64_t *wanted, struct fault *f)
{
	int rc;

	fill(e, i, wanted);
	rc = nl_change(e->targets[i].sock, e->targets[i].request);
	return rc ? refusal(e, i, wanted, rc, f) : 0;
}
