/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * An algorithm of the NIC and nothing else, compiled to see what it needs (build.py, contract.py). CC_ALONE
 * leaves out BPF's helpers. Context and event have just what the header states, so that the compiler sees who
 * uses more.
 */
#include CC_ALGORITHM

struct cc_call {
	uint32_t *state;
	const struct cc_event *event;
	const struct cc_flow *flow;
	const uint32_t *parameter, *table;
	struct cc_result *result;
};

#ifdef CC_TELEMETRY
#define EVENT_BYTES sizeof(struct cc_event)
#else
#define EVENT_BYTES CC_EVENT_HEAD_BYTES
#endif

void cc_alone(const struct cc_call *call);

__attribute__((flatten)) void cc_alone(const struct cc_call *call)
{
	uint32_t state[CC_STATE_WORDS];
	struct cc_event event;

	__builtin_memcpy(state, call->state, sizeof(state));
	__builtin_memcpy(&event, call->event, EVENT_BYTES);
	cc_on_event(state, &event, call->flow, call->parameter, call->table, call->result);
	__asm__ volatile("" : : "r"(state) : "memory"); /* all writes matter */
	__builtin_memcpy(call->state, state, sizeof(state));
}
