/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * RL-CC (Fuhrer et al. 2023) without its policy: what a flow observes, and what an action does to its rate.
 *
 *   error   e = gain (max(inflation - beta, 0) sqrt(rate) - target)     -delta of eq. 4, scaled
 *   inputs  a(t-2), e(t-1), a(t-1), e(t)                                the last decision's and this one's
 *   action  rate *= a(t), 1/1.2 <= a <= 1.2                             at each probe that comes back
 *
 * with inflation = RTT / base RTT and rate in fractions of the line. e < 0: the path is under-utilized.
 * The answer to each probe asks for the next; a packet that leaves asks for the first, and for another where
 * none came back for long. A probe that is overdue when a packet leaves is a round trip of so long at least,
 * and cuts. Nothing else moves the rate: no CNP, no NACK.
 *
 * A header that includes this one defines CC_NAME, CC_HELP, CC_TABLE and rlcc_policy().
 */
#ifndef DCGYM_RLCC_H
#define DCGYM_RLCC_H

#include "bits.h"
#include "policy.h"

/* The context. Actions are kept less 1, so that a new flow, all zeros, was on target and kept its rate. */
enum rlcc_word {
	RLCC_A_OLD, /* the four inputs, Q16 */
	RLCC_E_OLD,
	RLCC_A_NEW,
	RLCC_E_NEW,
	RLCC_A_LAST, /* the latest action, an input next time */
	RLCC_RATE,  /* Q31: at 2^-11 of the line a step of Q20 is 0.2 %, more than most actions change; 0: new
		     */
	RLCC_HEARD, /* time of the last decision, ns */
	RLCC_STATE_WORDS,
};

/* Words that a policy adds to the context, zeros for a new flow; it defines this before it includes us. */
#ifndef RLCC_MEMORY_WORDS
#define RLCC_MEMORY_WORDS 0
#endif

#define RLCC_ONE  (1 << 16)
#define RLCC_FINE 11          /* bits of RLCC_RATE beyond Q20 */
#define RLCC_OWN  0xffffffffu /* a parameter: as the policy was made for */
/* clang-format off */
#if RLCC_MEMORY_WORDS /* BPF's stack has no room for a memory and for what takes a cut back: only answers count */
#define RLCC_PATIENCE(X)
#define RLCC_PATIENCE_OF(parameter) ((void)(parameter), 0u)
#else
#define RLCC_PATIENCE_OF(parameter) (parameter)[P_patience]
#define RLCC_PATIENCE(X)                                                                                     \
	X(patience, "base RTTs", 4, 0, 65535, "ours: what 1500 flows settle at", "a probe that is not back by then is a round trip of so long at least, and again after half as long again; 0: only answers count")
#endif
#define CC_PARAMETERS(X)                                                                                     \
	X(target, "Q16", RLCC_OWN, 0, RLCC_OWN, "RL-CC sec. IV: 0.064", "of (inflation - beta) sqrt(rate); 4294967295: as the policy was made for") \
	X(beta, "Q16", RLCC_OWN, 0, RLCC_OWN, "RL-CC sec. IV: 1.5", "inflation of the RTT that is free; 4294967295: as the policy was made for") \
	X(rate_initial, "Q20", CC_LINE_RATE, CC_MIN_RATE, CC_LINE_RATE, "ours", "what a new flow starts at, of the line") \
	RLCC_PATIENCE(X)
/* clang-format on */
enum { CC_PARAMETERS(CC_INDEX) };

#define CC_EVENTS      (CC_MASK(CC_RTT) | CC_MASK(CC_TX))
#define CC_STATE_WORDS (RLCC_STATE_WORDS + RLCC_MEMORY_WORDS)
#define CC_PRESETS(X)

#define RLCC_SILENCE         16    /* base RTTs without an answer, and a probe is asked for again */
#define RLCC_ACTION_LEAST    54613 /* 1/1.2 */
#define RLCC_ACTION_GREATEST 78643
#define RLCC_MOST_EXCESS     (1ull << 40) /* Q16: 2^24 base RTTs; beyond it products would not fit */
#define RLCC_MOST_MEASURED   (1ull << 32) /* Q16: with a gain below 2^8 the product fits 63 bits */

/* The whole part of the square root of a number from 1 to 2^32: Newton from a power of two, exact after four.
 */
static inline uint32_t rlcc_sqrt(uint64_t n)
{
	uint32_t half = bits_sign(-(int64_t)(n >> 16)) << 3; /* half of the bits of n */
	uint64_t x;

	half += bits_sign(-(int64_t)(n >> (2 * half + 8))) << 2;
	half += bits_sign(-(int64_t)(n >> (2 * half + 4))) << 1;
	half += bits_sign(-(int64_t)(n >> (2 * half + 2)));
	half += bits_sign(-(int64_t)(n >> 32));
	x = ((1ull << half) + (n >> half)) >> 1; /* at most 25 % above the root */
	x = (x + n / x) >> 1;
	x = (x + n / x) >> 1;
	x = (x + n / x) >> 1;
	x = (x + n / x) >> 1;
	return (uint32_t)(x - bits_sign((int64_t)(n - x * x)));
}

static inline int32_t rlcc_cut(int64_t value, int64_t least, int64_t greatest)
{
	return (int32_t)(value < least ? least : value > greatest ? greatest : value);
}

static inline uint32_t rlcc_target(const uint32_t *parameter, const uint32_t *table)
{
	return parameter[P_target] == RLCC_OWN ? table[POLICY_WORD_TARGET] : parameter[P_target];
}

/* e of this round trip, Q16. */
static inline int32_t rlcc_error(uint32_t rtt_ns, uint32_t base_rtt_ns, uint32_t rate_q31,
				 const uint32_t *parameter, const uint32_t *table)
{
	uint32_t beta = parameter[P_beta] == RLCC_OWN ? table[POLICY_WORD_BETA] : parameter[P_beta];
	uint64_t inflation = ((uint64_t)rtt_ns << 16) / (base_rtt_ns ? base_rtt_ns : 1);
	uint64_t excess = inflation > beta ? inflation - beta : 0;
	uint64_t measured;
	int64_t limit = table[POLICY_WORD_LIMIT];

	if (excess > RLCC_MOST_EXCESS)
		excess = RLCC_MOST_EXCESS;
	measured = excess * rlcc_sqrt((uint64_t)rate_q31 << 1) >> 16;
	if (measured > RLCC_MOST_MEASURED)
		measured = RLCC_MOST_MEASURED;
	return rlcc_cut(((int64_t)measured - rlcc_target(parameter, table)) * table[POLICY_WORD_GAIN] >> 16,
			-limit, limit);
}

/* A new flow. */
static inline void rlcc_begin(uint32_t *state, const struct cc_event *event, const uint32_t *parameter,
			      struct cc_result *result)
{
	result->rate = cc_clamp(parameter[P_rate_initial]);
	result->probe = true;
	state[RLCC_RATE] = result->rate << RLCC_FINE;
	state[RLCC_HEARD] = event->now_ns;
}

/* A packet has left: is a probe to follow it? */
static inline bool rlcc_silent(const uint32_t *state, const struct cc_event *event,
			       const struct cc_flow *flow)
{
	uint32_t since_ns = event->now_ns - state[RLCC_HEARD];

	return since_ns > (uint64_t)flow->base_rtt_ns * RLCC_SILENCE;
}

/*
 * A packet has left, and the answer to a probe is overdue: the round trip is what has passed at least. Else a
 * flow in a flood, whose probes are lost with all else, would not cut before one comes through. Waits grow,
 * so that one lost probe does not end in the least rate.
 */
static inline bool rlcc_overdue(const uint32_t *state, const struct cc_event *event,
				const struct cc_flow *flow, const uint32_t *parameter)
{
	uint64_t patience_ns = (uint64_t)flow->base_rtt_ns * RLCC_PATIENCE_OF(parameter);
	uint32_t passed_ns = event->now_ns - event->sent_ns;
	uint32_t since_ns = event->now_ns - state[RLCC_HEARD];
	uint64_t waited_ns = since_ns < passed_ns ? passed_ns - since_ns : 0;

	if (!(event->flags & CC_PROBING) || !patience_ns || passed_ns <= patience_ns)
		return false;
	return passed_ns > waited_ns + waited_ns / 2;
}

/* It is congestion for certain, twice the target, and there is something to cut. */
static inline bool rlcc_late(int32_t error, uint32_t rate, const uint32_t *parameter, const uint32_t *table)
{
	int64_t unit = (int64_t)rlcc_target(parameter, table) * table[POLICY_WORD_GAIN] >> 16;

	return error >= unit && rate > CC_MIN_RATE;
}

/* Moves the window of inputs on: the state's first four words are the policy's inputs then. */
static inline void rlcc_observe(uint32_t *state, uint32_t now_ns, int32_t error)
{
	state[RLCC_HEARD] = now_ns;
	state[RLCC_A_OLD] = state[RLCC_A_NEW];
	state[RLCC_E_OLD] = state[RLCC_E_NEW];
	state[RLCC_A_NEW] = state[RLCC_A_LAST];
	state[RLCC_E_NEW] = (uint32_t)error;
}

/* action: Q16, 1.0 keeps the rate. */
static inline void rlcc_apply(uint32_t *state, int32_t action, struct cc_result *result)
{
	uint32_t factor = (uint32_t)rlcc_cut(action, RLCC_ACTION_LEAST, RLCC_ACTION_GREATEST);
	uint64_t rate = ((uint64_t)state[RLCC_RATE] * factor + RLCC_ONE / 2) >> 16;

	if (rate > (uint64_t)CC_LINE_RATE << RLCC_FINE)
		rate = (uint64_t)CC_LINE_RATE << RLCC_FINE;
	if (rate < (uint64_t)CC_MIN_RATE << RLCC_FINE)
		rate = (uint64_t)CC_MIN_RATE << RLCC_FINE;
	state[RLCC_A_LAST] = factor - RLCC_ONE;
	state[RLCC_RATE] = (uint32_t)rate;
	result->rate = (uint32_t)(rate >> RLCC_FINE);
	result->probe = true;
}

/*
 * The action, Q16, for the inputs in the state's first words; what it remembers is behind the others. Inlined
 * by all compilers: each call takes a frame of its own off the 512 bytes of stack that BPF gives to all
 * together.
 */
__attribute__((always_inline)) static inline int32_t rlcc_policy(uint32_t *state, const uint32_t *table);

/*
 * answered: or overdue, which cuts or says nothing. Behind a far longer round trip a policy may raise at one
 * that is too long still; not at one of which nobody knows how long it will be. Then all is as it was.
 * Inlined by all compilers, since a call in BPF has five arguments.
 */
__attribute__((always_inline)) static inline void
rlcc_decide(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
	    const uint32_t *parameter, const uint32_t *table, bool answered, struct cc_result *result)
{
	uint32_t rtt_ns = answered ? cc_rtt_ns(event) : event->now_ns - event->sent_ns;
	uint32_t before[RLCC_STATE_WORDS], rate = result->rate;
	int32_t error;

	if (state[RLCC_RATE] >> RLCC_FINE != rate) /* the NIC knows better */
		state[RLCC_RATE] = cc_clamp(rate) << RLCC_FINE;
	error = rlcc_error(rtt_ns, flow->base_rtt_ns, state[RLCC_RATE], parameter, table);
	if (!answered && !rlcc_late(error, rate, parameter, table))
		return;
	__builtin_memcpy(before, state, sizeof(before));
	rlcc_observe(state, event->now_ns, error);
	rlcc_apply(state, rlcc_policy(state, table), result);
	if (answered || result->rate < rate)
		return;
	__builtin_memcpy(state, before, sizeof(before));
	result->rate = rate;
}

static inline void cc_on_event(uint32_t *state, const struct cc_event *event, const struct cc_flow *flow,
			       const uint32_t *parameter, const uint32_t *table, struct cc_result *result)
{
	bool answered = event->type == CC_RTT;

	if (!state[RLCC_RATE])
		rlcc_begin(state, event, parameter, result);
	if (event->type == CC_TX && rlcc_silent(state, event, flow))
		result->probe = true;
	if (table && (answered || (event->type == CC_TX && rlcc_overdue(state, event, flow, parameter))))
		rlcc_decide(state, event, flow, parameter, table, answered, result);
}

#endif
