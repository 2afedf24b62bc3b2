// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: the actuators file. What is accepted must keep its promises. */
#include "actuators_file.h"
#include "fuzz.h"

#define MOST_PORTS 64

/* A value that the kernel was told comes back as the next value that it can enforce. That is not above the
 * first, and it comes back unchanged. */
static void check_numbers(const struct actuator_field *field, uint64_t value)
{
	uint64_t most = field->width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * field->width)) - 1;
	uint64_t raw = actuator_field_raw(field, value);
	uint64_t back = actuator_field_value(field, raw);

	require(raw <= most && back <= value);
	require(actuator_field_raw(field, back) == raw);
}

static void check_fields(const struct actuators *a, const struct actuator_row *r, uint32_t start, uint32_t n)
{
	require(n && start <= a->n_fields && n <= a->n_fields - start);
	for (const struct actuator_field *field = &a->field[start]; field < &a->field[start + n]; field++) {
		require(field->width == 1 || field->width == 2 || field->width == 4 || field->width == 8);
		require(field->multiplier && field->divisor && field->value < r->n_values);
		check_numbers(field, r->low[field->value]);
		check_numbers(field, r->high[field->value]);
	}
}

/* The request is whole, and what the program writes into it lies in it, behind the heads. */
static void check_request(const struct actuators *a, const struct actuator_row *r)
{
	unsigned char copy[ACTUATOR_MAX_SIZE];
	struct nlmsghdr head;

	require(r->request_len >= REQUEST_HEADS && r->request_len <= sizeof(copy) &&
		r->request_len % NLMSG_ALIGNTO == 0);
	memcpy(copy, a->bytes + r->request_start, r->request_len);
	memcpy(&head, copy, sizeof(head));
	require(head.nlmsg_len == r->request_len && head.nlmsg_type == RTM_NEWQDISC);
	for (uint32_t k = r->writes_start; k < r->writes_start + r->n_writes; k++)
		require(a->field[k].offset >= REQUEST_HEADS &&
			(uint32_t)a->field[k].offset + a->field[k].width <= r->request_len);
}

static void check_actuators(const struct actuators *a, bool control)
{
	require(a->n > 0);
	for (uint32_t i = 0; i < a->n; i++) {
		const struct actuator_row *r = &a->row[i];

		require(actuator_of_flow(r) || (r->row < a->ports->n && actuators_port(a, i)[0]));
		require(r->actuator[0] && memchr(r->actuator, 0, sizeof(r->actuator)));
		require(r->qdisc[0] && memchr(r->qdisc, 0, sizeof(r->qdisc)));
		require(r->n_values && r->n_values <= SM_MAX_VALUES);
		require(!control || (r->control_port && r->n_values == 1));
		for (uint32_t v = 0; v < r->n_values; v++) {
			require(r->low[v] <= r->start[v] && r->start[v] <= r->high[v]);
			if (actuator_of_flow(r))
				continue;
			require(actuators_enforceable(a, i, v, r->start[v]) <= r->start[v]);
		}
		if (actuator_of_flow(r)) {
			require(!control && r->n_values == 1);
			continue;
		}
		check_fields(a, r, r->writes_start, r->n_writes);
		check_fields(a, r, r->reads_start, r->n_reads);
		check_request(a, r);
	}
}

static uint32_t take(const uint8_t *data, size_t size, bool control)
{
	static struct port port[MOST_PORTS];
	const struct ports ports = { .port = port, .n = MOST_PORTS };
	struct actuators actuators = { .file = file_of((struct bytes){ (unsigned char *)data, size }) };
	struct fault f;

	memset(port, 'p', sizeof(port[0].name) - 1);
	for (uint32_t i = 1; i < MOST_PORTS; i++)
		port[i] = port[0];
	if (actuators_take(&actuators, &ports, control, &f)) {
		require(memchr(f.text, 0, sizeof(f.text)) != NULL);
		return 0;
	}
	check_actuators(&actuators, control);
	return actuators.n;
}

/* The same file is agentd's, and with control packets hostd's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_count(take(data, size, false) + take(data, size, true));
	return 0;
}
