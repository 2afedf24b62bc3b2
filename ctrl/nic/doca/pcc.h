/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The device API of doca_pcc_dev.h over the events of cc.h. A header that `dcgym nic import` writes is this
 * file, the functions of the user's device file, and PCC_ON_EVENT(). It defines PCC_SLOT, the slot of the
 * algorithm.
 *
 * Each of those functions has a first parameter more, pcc_here: what DOCA's functions reach without an
 * argument.
 */
#ifndef DCGYM_PCC_H
#define DCGYM_PCC_H

#include "../cc.h"

#if defined(__bpf__) || defined(NIC_NATIVE)
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#endif
#define memcpy  __builtin_memcpy
#define memmove __builtin_memmove
#define memset  __builtin_memset

#define DOCA_PCC_DEV_API static inline
#define DOCA_PCC_DEV_HERE
#include "doca_pcc_dev.h"

_Static_assert(sizeof(doca_pcc_dev_algo_ctxt_t) == CC_CONTEXT_WORDS * sizeof(uint32_t), "context");

#define PCC_COUNTERS 16

struct doca_pcc_dev_event {
	const struct cc_event *event;
	uint32_t *parameter;
	uint32_t counter[PCC_COUNTERS]; /* nobody reads them */
};

#define doca_pcc_dev_get_algo_params(port_num, algo_slot)                                                    \
	((void)(port_num), (void)(algo_slot), pcc_here->parameter)
#define doca_pcc_dev_get_counters(port_num, algo_slot)                                                       \
	((void)(port_num), (void)(algo_slot), pcc_here->counter)
#define doca_pcc_dev_get_timer_lo() (pcc_here->event->now_ns / 1000)
#define doca_pcc_dev_printf(...)    ((void)0)
#define doca_pcc_dev_trace_5(...)   ((void)0)
#define doca_pcc_dev_trace_flush()  ((void)0)

static inline doca_pcc_dev_event_general_attr_t doca_pcc_dev_get_ev_attr(const doca_pcc_dev_event_t *event)
{
	const struct cc_event *seen = event->event;
	doca_pcc_dev_event_general_attr_t attr = {
		.ev_type = (uint8_t)seen->type,
		.flags = seen->flags & CC_PROBING ? DOCA_PCC_DEV_TX_FLAG_RTT_REQ_SENT : 0,
	};

	return attr;
}

/* A probe's is when it came back. */
static inline uint32_t doca_pcc_dev_get_timestamp(const doca_pcc_dev_event_t *event)
{
	return event->event->type == CC_RTT ? event->event->first_ns : event->event->now_ns;
}

static inline uint32_t doca_pcc_dev_get_roce_first_timestamp(const doca_pcc_dev_event_t *event)
{
	return event->event->first_ns;
}

static inline uint16_t pcc_16_bits(uint32_t number)
{
	return number < 65535 ? (uint16_t)number : 65535;
}

static inline doca_pcc_dev_roce_tx_cntrs_t doca_pcc_dev_get_roce_tx_cntrs(const doca_pcc_dev_event_t *event)
{
	doca_pcc_dev_roce_tx_cntrs_t counters = {
		.sent_32bytes = pcc_16_bits(event->event->bytes / 32),
		.sent_pkts = pcc_16_bits(event->event->packets),
	};

	return counters;
}

static inline uint32_t doca_pcc_dev_get_rtt_req_send_timestamp(const doca_pcc_dev_event_t *event)
{
	return event->event->sent_ns;
}

static inline uint32_t doca_pcc_dev_get_rtt_req_recv_timestamp(const doca_pcc_dev_event_t *event)
{
	return event->event->received_ns;
}

static inline uint32_t doca_pcc_dev_get_rtt_resp_send_timestamp(const doca_pcc_dev_event_t *event)
{
	return event->event->answered_ns;
}

/* NVIDIA's own algorithm, of which nothing is known: the rate stays. No flow here is in its slot. */
static inline void doca_pcc_dev_default_internal_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt,
						      doca_pcc_dev_event_t *event,
						      const doca_pcc_dev_attr_t *attr,
						      doca_pcc_dev_results_t *results)
{
	(void)algo_ctxt, (void)event, (void)attr, (void)results;
}

static inline uint64_t doca_pcc_dev_mult(uint32_t a, uint32_t b)
{
	return (uint64_t)a * b;
}

static inline uint32_t doca_pcc_dev_fxp_mult(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 16);
}

static inline uint32_t doca_pcc_dev_fxp_recip(uint32_t a)
{
	return a > 1 ? (uint32_t)((1ull << 32) / a) : 0xffffffffu;
}

/*
 * Defines cc_on_event() around a file's doca_pcc_dev_user_algo(). The file may see its context as bytes and
 * halves of words, so the compiler knows nothing of it before and after.
 */
#define PCC_ON_EVENT(algo)                                                                                   \
	static inline void cc_on_event(uint32_t *state, const struct cc_event *event,                        \
				       const struct cc_flow *flow, const uint32_t *parameter,                \
				       const uint32_t *table, struct cc_result *result)                      \
	{                                                                                                    \
		doca_pcc_dev_event_t here = { .event = event,                                                \
					      .parameter = (uint32_t *)(uintptr_t)parameter };               \
		const doca_pcc_dev_attr_t attr = { .algo_slot = PCC_SLOT };                                  \
		doca_pcc_dev_results_t results = { .rate = result->rate };                                   \
                                                                                                             \
		(void)flow, (void)table;                                                                     \
		__asm__ volatile("" : "+r"(state) : : "memory");                                             \
		algo(&here, (doca_pcc_dev_algo_ctxt_t *)state, &here, &attr, &results);                      \
		__asm__ volatile("" : : "r"(state) : "memory");                                              \
		result->rate = cc_clamp(results.rate);                                                       \
		result->window_bytes = 0;                                                                    \
		result->probe = results.rtt_req & 1;                                                         \
	}

#endif
