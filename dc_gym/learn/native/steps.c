// SPDX-License-Identifier: Apache-2.0
/* The exchange with many labs: see steps.h. */
#include "steps.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hand.h"

#define SPIN_NS  200000    /* how long a thread looks for what is about to come, before it sleeps */
#define SLEEP_NS 100000000 /* how long it sleeps at most */
#define LOST_NS  500000    /* a gap between two looks after which another had the CPU */
#define CROWDED  256       /* so many pauses then pass without looking */

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
	    question.head.length != sizeof(question.step) || question.step.step == HAND_STEP) {
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

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Looks at a word for a while. Returns whether it has become another.
 *
 * Where others want the CPU, looking takes it from whoever is to change the word: then this thread sleeps
 * instead.
 */
static int spin(const uint32_t *word, uint32_t value)
{
	static __thread unsigned int crowded;
	int64_t now = now_ns(), end_ns = now + SPIN_NS, last;

	if (crowded) {
		crowded--;
		return load(word) != value;
	}
	do {
		last = now;
		for (int i = 0; i < 64; i++) {
			if (load(word) != value)
				return 1;
			__builtin_ia32_pause();
		}
		now = now_ns();
		if (now - last > LOST_NS)
			crowded = CROWDED;
	} while (now < end_ns && !crowded);
	return load(word) != value;
}

/* Sleeps until a word is another, or for SLEEP_NS. Returns -1 after a signal. */
static int doze(const uint32_t *word, uint32_t value)
{
	const struct timespec most = { .tv_nsec = SLEEP_NS };

	return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0) < 0 && errno == EINTR ? -1
													 : 0;
}

static void wake(const uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int is_in(const uint64_t *mask, int cpu)
{
	return cpu >= 0 && cpu < MASK_WORDS * 64 && mask[cpu / 64] >> cpu % 64 & 1;
}

/* Moves this thread to a CPU. */
static void stay_on(int cpu)
{
	uint64_t mask[MASK_WORDS] = { 0 };

	if (cpu < 0 || cpu >= MASK_WORDS * 64)
		return;
	mask[cpu / 64] = UINT64_C(1) << cpu % 64;
	sched_setaffinity(0, sizeof(mask), (const cpu_set_t *)mask);
}

/* Answers the labs of one CPU (-1: of all), and waits for them. */
static void serve(const struct team *team, int cpu)
{
	struct lab *labs = team->labs;

	for (uint32_t i = 0; i < team->count; i++)
		if (labs[i].state == LAB_ANSWERS && (cpu < 0 || labs[i].cpu == cpu))
			answer(&labs[i]);
	/* The last one answered is likely to be the last one to be done: waiting for it first means few
	 * wakes. */
	for (uint32_t i = team->count; i-- > 0;)
		if (labs[i].state == LAB_RUNS && (cpu < 0 || labs[i].cpu == cpu) && !hear(&labs[i]))
			break;
}

void steps_work(struct team *team, struct worker *worker)
{
	uint32_t go = load(&worker->done);
	int spins = 1; /* whether the last pause was short */

	stay_on(worker->cpu);
	while (!load(&worker->stop)) {
		int64_t since_ns = now_ns();

		if (!spins || !spin(&worker->go, go)) {
			store(&worker->asleep, 1);
			while (load(&worker->go) == go && !load(&worker->stop))
				doze(&worker->go, go);
			store(&worker->asleep, 0);
		}
		spins = now_ns() - since_ns < SPIN_NS;
		if (load(&worker->go) == go)
			continue;
		go = load(&worker->go);
		serve(team, worker->cpu);
		store(&worker->done, go);
		if (load(&team->waits))
			wake(&worker->done);
	}
	store(&worker->done, load(&worker->go));
}

/* Returns whether there are labs for the thread of this CPU. */
static int has_work(const struct team *team, int cpu)
{
	for (uint32_t i = 0; i < team->count; i++)
		if (team->labs[i].cpu == cpu &&
		    (team->labs[i].state == LAB_ANSWERS || team->labs[i].state == LAB_RUNS))
			return 1;
	return 0;
}

static int is_idle(const struct worker *worker)
{
	return load(&worker->go) == load(&worker->done);
}

/* Returns whether the caller can serve this CPU's labs: there are some, and no worker is at them. */
static int is_free(const struct team *team, int cpu)
{
	for (uint32_t i = 0; i < team->worker_count; i++)
		if (team->workers[i].cpu == cpu && !is_idle(&team->workers[i]))
			return 0;
	return has_work(team, cpu);
}

/* Returns the CPU whose labs the caller serves itself: the one where it runs, or that of the first lab. -1:
 * none. */
static int own_cpu(const struct team *team)
{
	int here = sched_getcpu();

	if (is_free(team, here))
		return here;
	for (uint32_t i = 0; i < team->count; i++)
		if (is_free(team, team->labs[i].cpu))
			return team->labs[i].cpu;
	return -1;
}

/* Lets the other threads begin. */
static void begin(struct team *team, int own)
{
	for (uint32_t i = 0; i < team->worker_count; i++) {
		struct worker *worker = &team->workers[i];

		if (worker->cpu == own || !is_idle(worker) || !has_work(team, worker->cpu))
			continue;
		store(&worker->go, load(&worker->go) + 1);
		if (load(&worker->asleep))
			wake(&worker->go);
	}
}

/* Waits for one worker. Returns -1 if a signal or the timeout comes first. */
static int wait_for(struct team *team, const struct worker *worker)
{
	int64_t end_ns = now_ns() + SLEEP_NS;
	uint32_t done = load(&worker->done);
	int result = 0;

	if (done == load(&worker->go) || spin(&worker->done, done))
		return 0;
	store(&team->waits, 1);
	while (load(&worker->done) == done && !result)
		result = now_ns() < end_ns ? doze(&worker->done, done) : -1;
	store(&team->waits, 0);
	return result;
}

void steps_settle(struct team *team)
{
	for (uint32_t i = 0; i < team->worker_count; i++)
		while (load(&team->workers[i].done) != load(&team->workers[i].go))
			wait_for(team, &team->workers[i]);
}

void steps_stop(struct team *team)
{
	for (uint32_t i = 0; i < team->worker_count; i++) {
		store(&team->workers[i].stop, 1);
		wake(&team->workers[i].go);
	}
}

static uint32_t flags_of(const struct lab *lab)
{
	switch (lab->state) {
	case LAB_RUNS:
	case LAB_SAID:
		return STEPS_RUN;
	case LAB_ENDED:
		return STEPS_DIED;
	case LAB_STANDS:
		return (lab->ended || lab->step >= lab->steps ? STEPS_OVER : 0) |
		       (lab->work_changed ? STEPS_CHANGED : 0);
	default:
		return 0;
	}
}

uint32_t steps_exchange(struct team *team)
{
	int own = own_cpu(team), pins = is_in(team->mask, own);
	uint32_t flags = 0;

	begin(team, own);
	if (pins)
		stay_on(own);
	if (own >= 0)
		serve(team, team->worker_count ? own : -1);
	for (uint32_t i = 0; i < team->worker_count && !(flags & STEPS_RUN); i++)
		flags |= wait_for(team, &team->workers[i]) < 0 ? STEPS_RUN : 0;
	if (pins)
		sched_setaffinity(0, sizeof(team->mask), (const cpu_set_t *)team->mask);
	for (uint32_t i = 0; i < team->count; i++)
		flags |= flags_of(&team->labs[i]);
	return flags;
}
