// SPDX-License-Identifier: Apache-2.0
/* Episodes: see episode.h. In a lab a system call is most of what a step costs: this path makes few. */
#include "episode.h"

#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <lab.h>
#include <string.h>
#include <sys/ioctl.h>

static void publish_in_force(const struct agent *a)
{
	for (uint32_t i = 0; i < a->actuators.n; i++)
		if (!actuator_of_flow(&a->actuators.row[i]))
			matrix_in_force(&a->sweeper.matrix, i, enforcer_in_force(&a->enforcer, i));
}

static int check_start(const struct agent *a, uint32_t i, struct fault *f)
{
	const struct actuator_row *r = &a->actuators.row[i];
	const uint64_t *got = enforcer_in_force(&a->enforcer, i);

	for (uint32_t v = 0; v < r->n_values && !actuator_of_flow(r); v++)
		if (got[v] != actuators_enforceable(&a->actuators, i, v, r->start[v]))
			return fault_say(f, -EIO,
					 "port '%s': value %u of its %s was set to %" PRIu64
					 " and the kernel says %" PRIu64 "; does something else set it?",
					 actuators_port(&a->actuators, i), v, r->actuator, r->start[v],
					 got[v]);
	return 0;
}

/* The qdiscs obey: a kernel that rounds, or somebody else who sets them, is found before an episode. */
static int check_starts(const struct agent *a, struct fault *f)
{
	int rc = 0;

	for (uint32_t i = 0; i < a->actuators.n && !rc; i++)
		rc = check_start(a, i, f);
	return rc;
}

/* Nothing of what was commanded before is left, carried out or not. */
static int begin(struct agent *a, uint64_t t0_ns, struct fault *f)
{
	const struct matrix *m = &a->sweeper.matrix;
	int rc = enforcer_reset(&a->enforcer, f);

	if (!rc)
		rc = sweeper_sample(&a->sweeper, f);
	if (!rc)
		rc = check_starts(a, f);
	if (rc)
		return rc;
	commands_clear(&a->pending);
	matrix_begin(m, t0_ns);
	publish_in_force(a);
	for (uint32_t i = 0; i < a->actuators.n; i++)
		matrix_want(m, i, a->actuators.row[i].start);
	a->taken = matrix_disown_commands(m);
	return a->by_packets ? control_forget(&a->control, a->taken, f) : 0;
}

/* The clock is read when the sweep is due. */
static int check_late(struct agent *a, uint64_t t_ns, struct fault *f)
{
	int rc = sleep_until(t_ns);

	if (rc)
		return fault_say(f, -EIO, "sleep until %" PRIu64 ": %s", t_ns, strerror(-rc));
	if (now_ns() >= t_ns + a->timing.interval_ns)
		a->late++;
	return 0;
}

static int sweep(struct agent *a, uint64_t t_ns, struct fault *f)
{
	int rc = a->timing.check_late ? check_late(a, t_ns, f) : 0;

	if (!rc)
		rc = sweeper_sweep(&a->sweeper, t_ns, f);
	if (rc || program_stop)
		return rc;
	rc = enforcer_check(&a->enforcer, f);
	if (!rc)
		publish_in_force(a);
	return rc;
}

/* Straight to the kernel. */
static int enforce(struct agent *a, const struct command *c, struct fault *f)
{
	const struct matrix *m = &a->sweeper.matrix;
	int rc = enforcer_plan(&a->enforcer, c->wanted, f);

	if (!rc && a->channel_fd < 0) /* others act meanwhile */
		rc = enforcer_flush(&a->enforcer, f);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < a->actuators.n; i++)
		matrix_row_acked(m, i, c->seq);
	/* On a virtual clock nothing takes time, and on a real one it does. */
	matrix_acknowledge(m, c->seq, a->channel_fd >= 0 ? c->due_ns : now_ns());
	return 0;
}

static int carry_out(struct agent *a, const struct command *c, struct fault *f)
{
	int rc =
		a->by_packets ? control_send(&a->control, c->seq, c->wanted, c->due_ns, f) : enforce(a, c, f);

	commands_pop(&a->pending);
	return rc;
}

/* Reads all that the hosts' agents have said since the last sweep. */
static int hear_hosts(struct agent *a, uint64_t t_ns, struct fault *f)
{
	const struct matrix *m = &a->sweeper.matrix;
	uint64_t applied_ns, all;
	int rc = control_poll(&a->control, t_ns, f);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < a->actuators.n; i++)
		matrix_row_acked(m, i, control_acked(&a->control, i));
	all = control_all_acked(&a->control, &applied_ns);
	matrix_acknowledge(m, all, applied_ns);
	matrix_timeouts(m, a->control.timeouts);
	return 0;
}

/* Commands that are due before t_ns, each in its time. */
static int carry_out_before(struct agent *a, uint64_t t_ns, struct fault *f)
{
	const struct command *c;
	int rc = 0;

	while (!rc && !program_stop && (c = commands_first(&a->pending)) && c->due_ns < t_ns) {
		rc = enforcer_flush(&a->enforcer, f);
		if (rc)
			return rc;
		rc = sleep_until(c->due_ns);
		if (rc)
			return fault_say(f, -EIO, "sleep until %" PRIu64 ": %s", c->due_ns, strerror(-rc));
		if (!program_stop)
			rc = carry_out(a, c, f);
	}
	return rc;
}

static int carry_out_at(struct agent *a, uint64_t t_ns, struct fault *f)
{
	const struct command *c;
	int rc = 0;

	while (!rc && (c = commands_first(&a->pending)) && c->due_ns <= t_ns)
		rc = carry_out(a, c, f);
	return rc;
}

/* Queue the agent's command, if there is a new one. */
static int take_command(struct agent *a, uint64_t t_ns, struct fault *f)
{
	struct command *c = commands_slot(&a->pending);

	if (!c)
		return fault_say(f, -ENOBUFS, "commands: more than %u wait for their time", a->pending.size);
	c->seq = matrix_take_command(&a->sweeper.matrix, c->wanted);
	if (c->seq % 2 || c->seq == a->taken)
		return 0;
	c->due_ns = t_ns + a->timing.latency_ns;
	a->taken = c->seq;
	commands_push(&a->pending);
	return 0;
}

/*
 * On a real clock, where a decision comes whenever the agent has made it: it is carried out soon after, and
 * not at the next sweep, by which the step that it is meant for may be over.
 */
static int look_until(struct agent *a, uint64_t t_ns, struct fault *f)
{
	uint64_t before = t_ns - a->timing.interval_ns, now = now_ns();
	int rc = 0;

	for (uint64_t at = (now > before ? now : before) + LOOK_NS; !rc && at < t_ns; at += LOOK_NS) {
		rc = carry_out_before(a, at, f);
		if (!rc && !program_stop && sleep_until(at))
			rc = fault_say(f, -EIO, "sleep until %" PRIu64 " failed", at);
		if (program_stop)
			break;
		if (!rc)
			rc = take_command(a, at, f);
		if (!rc)
			rc = carry_out_at(a, at, f);
	}
	return rc;
}

/* On a real clock nobody waits for the agent: it says when the episode is to end. */
static int read_end(const struct agent *a, uint64_t step, int *code, struct fault *f)
{
	uint64_t end = matrix_asked_end(&a->sweeper.matrix);

	if (end >= NR_STEP_CODES)
		return fault_say(f, -EIO,
				 "commands: at step %" PRIu64 " end is %" PRIu64 "; there are codes 0 to %d",
				 step, end, NR_STEP_CODES - 1);
	*code = (int)end;
	return 0;
}

/* The lab stands still until the host has answered. */
static int ask_host(const struct agent *a, uint64_t step, int *code, struct fault *f)
{
	if (a->channel_fd < 0)
		return read_end(a, step, code, f);
	*code = ioctl(a->channel_fd, LAB_IOC_STEP, &step);
	if (*code < 0)
		return fault_say(f, -EIO, "--channel: step %" PRIu64 ": %s", step, strerror(errno));
	if (*code >= NR_STEP_CODES)
		return fault_say(f, -EIO,
				 "--channel: the host answered step %" PRIu64
				 " with code %d; there are 0 to %d",
				 step, *code, NR_STEP_CODES - 1);
	return 0;
}

/* One instant: a sweep, and a step where one falls on it. */
static int tick(struct agent *a, uint64_t t_ns, uint64_t count, bool is_step, struct end *end,
		struct fault *f)
{
	int rc = carry_out_before(a, t_ns, f);

	if (!rc && !program_stop)
		rc = sweep(a, t_ns, f);
	if (!rc && !program_stop && a->by_packets)
		rc = hear_hosts(a, t_ns, f);
	if (!rc && !program_stop)
		rc = carry_out_at(a, t_ns, f);
	if (rc || program_stop)
		return rc;
	if (is_step)
		rc = ask_host(a, end->step, &end->code, f);
	if (rc || (is_step && (end->code != STEP_GO_ON || end->step == count)))
		return rc;
	if (is_step || a->channel_fd < 0)
		rc = take_command(a, t_ns, f);
	return rc ? rc : carry_out_at(a, t_ns, f);
}

int episode_run(struct agent *a, uint64_t t0_ns, uint64_t count, struct end *end, struct fault *f)
{
	const uint64_t sweeps_a_step = a->timing.step_ns / a->timing.interval_ns;
	int rc = begin(a, t0_ns, f);

	*end = (struct end){ 0, STEP_GO_ON };
	for (uint64_t j = 0; !rc; j++) {
		bool is_step = j % sweeps_a_step == 0;

		end->step = j / sweeps_a_step;
		if (j && a->channel_fd < 0)
			rc = look_until(a, t0_ns + j * a->timing.interval_ns, f);
		if (rc)
			break;
		rc = tick(a, t0_ns + j * a->timing.interval_ns, count, is_step, end, f);
		if (program_stop)
			end->code = -1;
		if (end->code != STEP_GO_ON || (is_step && end->step == count))
			break;
	}
	return rc ? rc : enforcer_reset(&a->enforcer, f);
}
