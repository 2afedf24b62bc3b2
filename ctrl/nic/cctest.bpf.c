// SPDX-License-Identifier: GPL-2.0
/*
 * An algorithm of the NIC alone, in the kernel: cctest-NAME.bpf.o is this file and one header of
 * algorithms/X/. cctest.c loads it and hands it events by BPF_PROG_TEST_RUN, so that what it decides can be
 * held against ccrun's, and its time measured. As in the NIC the state is a map's and parameters are
 * read-only data.
 */
#include CC_ALGORITHM

#include "cctest.h"

char LICENSE[] SEC("license") = "GPL";

struct row {
	uint32_t state[CC_STATE_WORDS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct row);
} rows SEC(".maps");

#ifdef CC_TABLE
struct table {
	uint32_t word[CC_TABLE_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct table);
} table SEC(".maps");
#endif

const volatile uint32_t parameter[CC_SETTING_WORDS] SEC(".rodata.parameter");
const volatile uint32_t state_words SEC(".rodata.words") = CC_STATE_WORDS;

static __always_inline const uint32_t *the_table(void)
{
#ifdef CC_TABLE
	uint32_t zero = 0;
	const struct table *found = bpf_map_lookup_elem(&table, &zero);

	return found ? found->word : NULL;
#else
	return NULL;
#endif
}

static __noinline int decide(struct row *row, struct cctest_step *step)
{
	const uint32_t *first = (const uint32_t *)parameter, *words = the_table();
	struct cc_event event;
	struct cc_flow flow = step->flow;
	struct cc_result result = { .rate = step->rate,
				    .window_bytes = step->window_bytes,
				    .probe = step->probe };

#ifdef CC_TELEMETRY
	event = step->event;
#else
	__builtin_memcpy(&event, &step->event, CC_EVENT_HEAD_BYTES);
#endif
	barrier_var(first); /* or the compiler takes the zeros that stand here for their values */
#ifdef CC_TABLE
	if (!words)
		return 0;
#endif
	cc_on_event(row->state, &event, &flow, first, words, &result);
	step->rate = cc_clamp(result.rate);
	step->window_bytes = result.window_bytes;
	step->probe = result.probe;
	return 0;
}

static __always_inline int run(struct __sk_buff *skb, bool real)
{
	struct cctest_step *step = (void *)(long)skb->data;
	uint32_t zero = 0;
	struct row *row = bpf_map_lookup_elem(&rows, &zero);

	if (!row || (void *)(step + 1) > (void *)(long)skb->data_end)
		return CCTEST_FAILED;
	if (step->event.flags & CC_NEW_FLOW) {
		__builtin_memset(row, 0, sizeof(*row));
		step->rate = CC_LINE_RATE;
		step->window_bytes = 0;
		step->probe = 0;
	}
	if (real && step->event.type < 32 && CC_EVENTS & CC_MASK(step->event.type))
		decide(row, step);
	__builtin_memcpy(step->state, row->state, sizeof(row->state));
	return 0;
}

SEC("tc")
int nic_test(struct __sk_buff *skb)
{
	return run(skb, true);
}

/* All of it but the decision: what to take off its time. */
SEC("tc")
int nic_null(struct __sk_buff *skb)
{
	return run(skb, false);
}
