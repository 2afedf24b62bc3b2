/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actuators file: what an agent may set, row by row, in the order of its commands.
 *
 * A row is one actuator at one port, class of one or flow. Of ports and classes it has its values with their
 * bounds, the netlink request that sets them, where in that request each value goes, and where in the
 * kernel's description of the port's root qdisc each is read back. So the programs know no qdisc by name: an
 * actuator is declared in Python alone (ctrl/actuators/). A flow's row has one value and no request: the
 * traffic generator sets it.
 *
 * A record file with three tables: rows, fields, and the bytes of the requests.
 */
#ifndef ACTUATORS_H
#define ACTUATORS_H

#include "ports.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#define ACTUATOR_MAGIC    "DCGACTRS"
#define FIELD_MAGIC       "DCGFIELD"
#define REQUEST_MAGIC     "DCGBYTES"
#define ACTUATOR_VERSION  1
#define FIELD_VERSION     2
#define ACTUATOR_MOST     (SM_MAX_ACTUATORS * SM_MAX_ROWS)
#define QDISC_NAME_LEN    16
#define OF_FLOW           "flow" /* which is no qdisc */
#define ACTUATOR_MAX_SIZE 4096   /* bytes of a request */

struct actuator_row {
	char actuator[SM_ACTUATOR_LEN]; /* its name */
	char qdisc[QDISC_NAME_LEN];     /* the kind of the port's root qdisc that it sets, or OF_FLOW */
	uint64_t low[SM_MAX_VALUES], high[SM_MAX_VALUES]; /* bounds of each value */
	uint64_t start[SM_MAX_VALUES];                    /* in force before and after each episode */
	uint32_t row; /* of its port or class in the ports file, or the flow's number */
	uint32_t n_values;
	uint32_t request_start, request_len; /* in the table of bytes */
	uint32_t writes_start, n_writes;     /* in the table of fields: where values go in the request */
	uint32_t reads_start,
		n_reads;       /* likewise: where they are read back; a later one replaces an earlier */
	uint32_t control_addr; /* where the port's agent listens, in network byte order; no control network: 0
				*/
	uint16_t control_port; /* likewise, in host byte order */
	uint8_t reserved[2];
};

static_assert(sizeof(struct actuator_row) == 168, "actuator row");
static_assert(offsetof(struct actuator_row, row) == 128, "actuator row");
static_assert(offsetof(struct actuator_row, control_port) == 164, "actuator row");

/* A number of the kernel's: value x multiplier / divisor, rounded down, and at most what `width` bytes hold.
 */
struct actuator_field {
	uint64_t multiplier, divisor;
	uint16_t value;     /* which of the row's values */
	uint16_t width;     /* bytes: 1, 2, 4 or 8 */
	uint16_t offset;    /* in the request; of a read: in the attribute */
	uint16_t attribute; /* of a read: its type inside the nest; 0: the nest itself */
	uint32_t nest;  /* of a read: the type of the nest inside TCA_OPTIONS; 0: the options themselves */
	uint32_t index; /* of a read: the place of the nest among its equals, from 0 */
};

static_assert(sizeof(struct actuator_field) == 32, "actuator field");
static_assert(offsetof(struct actuator_field, nest) == 24, "actuator field");

struct actuators {
	struct record_file file; /* in which they lie */
	const struct actuator_row *row;
	const struct actuator_field *field;
	const unsigned char *bytes;
	const struct ports *ports;
	uint32_t n, n_fields, n_bytes;
};

/* The actuators of `file`: 0, or -EINVAL with *f filled in. `control`: each port has an agent. */
int actuators_take(struct actuators *actuators, const struct ports *ports, bool control, struct fault *f);

/* Whether a row is of a flow. */
static inline bool actuator_of_flow(const struct actuator_row *row)
{
	return memcmp(row->qdisc, OF_FLOW, sizeof(OF_FLOW)) == 0;
}

/* The name of a row's port. */
const char *actuators_port(const struct actuators *actuators, uint32_t i);
struct sockaddr_in actuators_address(const struct actuators *actuators, uint32_t i);

/* A value as the kernel takes it, and what that number means. */
uint64_t actuator_field_raw(const struct actuator_field *field, uint64_t value);
uint64_t actuator_field_value(const struct actuator_field *field, uint64_t raw);

/* The value that the kernel can enforce and that is next to `value`, not above it. */
uint64_t actuators_enforceable(const struct actuators *actuators, uint32_t i, uint32_t value,
			       uint64_t wanted);

#endif
