// SPDX-License-Identifier: Apache-2.0
/* The exchange with many labs: see steps.h. */
#include "steps.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

struct question {
	struct lab_msg head;
	struct lab_step step;
};

uint32_t steps_version(void)
{
	return STEPS_VERSION << 24 | sizeof(struct network) << 12 | sizeof(struct lab);
}

/* Commands as Commands.send of state_matrix.py does. The lab stands still, so that plain stores do. */
static void command(struct lab *lab)
{
	const struct network *network = lab->network;
	double *kept = lab->wanted + (size_t)(lab->slot + 1) * network->values;
	struct sm_commands *to = lab->commands;
	uint64_t seq = to->seq / 2 * 2;

	to->seq = seq + 1;
	for (uint32_t i = 0; i < network->values; i++) {
		double value = lab->values[i];
		uint64_t *wanted = (uint64_t *)((char *)to + network->command[i]);

		kept[i] = value;
		value = value > 0 ? value : 0;
		*wanted = value < 0x1p63 ? (uint64_t)value : UINT64_C(1) << 63;
	}
	to->seq = seq + 2;
}

/* Lets a lab go on. If it has died, the next receive says so. */
static void answer(struct lab *lab)
{
	struct {
		struct lab_msg head;
		struct lab_step_reply reply;
	} out = {
		.head = { .type = LAB_MSG_STEP, .length = sizeof(out.reply) },
		.reply = { .step = lab->step, .code = lab->code },
	};

	command(lab);
	lab->state = LAB_RUNS;
	while (send(lab->fd, &out, sizeof(out), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

/* Copies what the lab shows into its next slot. */
static void record(struct lab *lab)
{
	const struct network *network = lab->network;
	size_t slot = ++lab->slot, cells = (size_t)network->rows * SM_NR_COLUMNS;
	double *enforced = lab->enforced + slot * network->values;

	memcpy(lab->cells + slot * cells, lab->live_cells, cells * sizeof(*lab->cells));
	memcpy(lab->recorded + slot * lab->flows, lab->live_flows, lab->flows * sizeof(*lab->recorded));
	lab->t_ns[slot] = (int64_t)(lab->header->t_ns - lab->header->t0_ns);
	lab->numbers[slot] = lab->step;
	for (uint32_t i = 0; i < network->values; i++) {
		const char *wanted = (const char *)lab->commands + network->command[i];

		enforced[i] = (double)((const uint64_t *)wanted)[SM_MAX_VALUES];
	}
}

/* Waits for a lab's next message. Returns 0 if there is none yet. */
static int hear(struct lab *lab)
{
	const size_t room = sizeof(struct lab_msg) + LAB_MSG_MAX;
	ssize_t length = recv(lab->fd, lab->message, room, 0);
	struct question question;

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (length <= 0) {
		lab->state = LAB_ENDED;
		return 1;
	}
	memcpy(&question, lab->message, sizeof(question));
	if (length != sizeof(question) || question.head.type != LAB_MSG_STEP ||
	    question.head.length != sizeof(question.step)) {
		lab->said = (uint32_t)length;
		lab->state = LAB_SAID;
		return 1;
	}
	lab->step = question.step.step;
	lab->virtual_ns = question.step.virtual_ns;
	lab->state = LAB_STANDS;
	record(lab);
	steps_measure(lab);
	return 1;
}

void steps_answer(struct lab *labs, uint32_t count)
{
	int here = sched_getcpu();

	/* Labs on other CPUs go first: one on this CPU may take it at once, and the others would wait. */
	for (int mine = 0; mine < 2; mine++)
		for (uint32_t i = 0; i < count; i++)
			if (labs[i].state == LAB_ANSWERS && (mine || labs[i].cpu != here))
				answer(&labs[i]);
}

uint32_t steps_wait(struct lab *labs, uint32_t count)
{
	uint32_t flags = 0;

	/* The last one answered is likely to be the last one to be done: waiting for it first means few
	 * wakes. */
	for (uint32_t i = count; i-- > 0;)
		if (labs[i].state == LAB_RUNS && !hear(&labs[i]))
			break;
	for (uint32_t i = 0; i < count; i++) {
		const struct lab *lab = &labs[i];

		if (lab->state == LAB_RUNS || lab->state == LAB_SAID)
			flags |= STEPS_RUN;
		else if (lab->state == LAB_ENDED)
			flags |= STEPS_DIED;
		else if (lab->state == LAB_STANDS)
			flags |= (lab->ended || lab->step >= lab->steps ? STEPS_OVER : 0) |
				 (lab->work_changed ? STEPS_CHANGED : 0);
	}
	return flags;
}

uint32_t steps_exchange(struct lab *labs, uint32_t count)
{
	steps_answer(labs, count);
	return steps_wait(labs, count);
}
