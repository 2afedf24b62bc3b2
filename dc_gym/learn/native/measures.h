// SPDX-License-Identifier: Apache-2.0
/*
 * Observations and rewards of one lab's last step. They exist in Python, too (dc_gym/learn); both give the
 * same numbers to the last bit, which tests compare. So no sum is in another order than numpy's.
 *
 * Pointers are of this process. Python fills the structs as arrays of records; a test compares the offsets.
 */
#ifndef MEASURES_H
#define MEASURES_H

#include "lab.h"
#include "state_matrix.h"

/* Rules that compute an element of the observation from a cell, or from a value in force. */
enum element_kind {
	ELEMENT_NONE,   /* computed by Python */
	ELEMENT_LEVEL,  /* the cell now */
	ELEMENT_CHANGE, /* the cell's change over the step */
	ELEMENT_SHARE,  /* n / (1 + n) of the cell now */
	ELEMENT_FORCE,  /* the value that the kernels enforce */
	ELEMENT_MEAN,   /* the cell's change over the step, for each ns of it */
	ELEMENT_ONE,    /* 1 */
	/* These sum up the flows that leave by a host; `place` is the host. */
	ELEMENT_SRTT,
	ELEMENT_RTT_MIN,
	ELEMENT_CWND,
	ELEMENT_RETRANSMITS,
	ELEMENT_GOODPUT,
};

/* An element is its source x scale / divisor, within low..high. */
struct element {
	uint32_t kind;
	uint32_t place; /* index of the cell in the state matrix, or of the value */
	double scale;
	double divisor;  /* 0: what a line of rate_bps carries in the step, at least a full frame */
	double rate_bps; /* that line's */
	float low, high;
};

enum reward_kind {
	REWARD_GOODPUT = 1, /* bit/s; the sum divides it by `fair_bps` */
	REWARD_QUEUEING_DELAY,
	REWARD_SWITCH_DELAY,
	REWARD_THESIS,
	REWARD_THESIS_ALL,
	REWARD_ACTION,
	REWARD_PORT_UTILIZATION,
	REWARD_PORT_DELAY,
	REWARD_DROPS,
};

/* The constants of one network: see Scene (dc_gym/run/agent/scene.py) for those of its name. */
struct network {
	uint32_t rows, switch_rows; /* of the state matrix: the ports of switches, other ports, classes */
	uint32_t values, hosts;
	uint32_t elements, history;
	uint32_t rewards, rate_place; /* rate_place: the hosts' rates among the values; UINT32_MAX: none */
	uint32_t ports, frame_bytes;  /* ports: rows that are no classes */
	uint64_t base_rtt_ns;
	const struct element *element;
	const uint32_t *reward; /* kinds */
	const double *weight;   /* each reward's in the sum */
	const double *rate_bps, *buffer_bytes;
	const double *line_bps, *floor_bps;
	const int64_t *host_row;
	const uint32_t *command; /* [values]: bytes from the commands to `wanted`; `in_force` follows it */
};

/* One lab. Arrays over slots hold one entry a step of the lab's recording; `slot` is the last that is filled.
 */
struct lab {
	int32_t fd;
	int32_t cpu; /* the CPU on which the lab runs */
	uint32_t state;
	uint32_t said; /* bytes of `message` */
	uint64_t step, virtual_ns;
	int32_t code; /* the answer's */
	uint32_t slot;
	uint32_t flows, path_ports; /* path_ports: entries of path_row and path_flow */
	uint32_t ended;             /* 1: there are flows, and all have ended */
	uint32_t work_changed;      /* 1: `at_work` is another than at the step before */
	uint64_t steps;             /* steps of the episode so far */
	double fair_bps; /* payload rate of the flows at work at their fair shares; 0 without any */
	const struct network *network;
	const struct sm_header *header;
	struct sm_commands *commands;
	const uint64_t *live_cells;
	const struct sm_flow *live_flows;
	const double *base_rtt_ns;           /* [flows] */
	const double *payload_share;         /* [flows] */
	const int64_t *host;                 /* [flows]: -1: of a host that does not act */
	const int64_t *first_row;            /* [flows] */
	const int64_t *path_row, *path_flow; /* [path_ports]: the switch ports of all paths, and whose */
	uint64_t *cells;                     /* [slots, rows, columns] */
	struct sm_flow *recorded;            /* [slots, flows] */
	int64_t *t_ns;                       /* [slots]: after t0 */
	uint64_t *numbers;                   /* [slots]: of the steps */
	double *wanted, *enforced;           /* [slots, values] */
	const double *in_force;              /* [slots, force_stride], hosts of them */
	uint64_t force_stride;
	const double *values; /* [values]: what to command */
	float *seen;          /* [history, elements] */
	double *rewards;      /* [rewards]: before their weights */
	double *reward;       /* their weighted sum */
	uint8_t *at_work;     /* [flows] */
	double *scratch;      /* 3 x the larger of ports and flows */
	char *message;        /* LAB_MSG_MAX + sizeof(struct lab_msg) bytes */
};

/* Works out what a lab's last slot says; the first slot of an episode begins the observation's history. */
void steps_measure(struct lab *lab);

/* Sums up the rewards anew, with another fair_bps. */
void steps_reward(struct lab *lab);

#endif
