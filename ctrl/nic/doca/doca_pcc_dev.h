/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Declares documented names of DOCA PCC's device API, so that a device file compiles here: one that `dcgym
 * nic import` reads, or one that `dcgym nic export` wrote.
 *
 * Functions, types, events and constants are named by NVIDIA's public documentation ("DOCA PCC" on
 * docs.nvidia.com and the index of its reference), the order of arguments and most members by calls in public
 * device files: NVIDIA's samples (github.com/NVIDIA-DOCA/doca-samples, applications/pcc, at 03a76cf) and, for
 * sent_32bytes and sent_pkts, one of a user. Types of values, the order of members and all text are ours. The
 * numbers of events are those of cc.h. Nothing here ran on a NIC.
 */
#ifndef DCGYM_DOCA_PCC_DEV_H
#define DCGYM_DOCA_PCC_DEV_H

#ifndef DCGYM_CC_H /* it has them for programs without libc, too */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifndef DOCA_PCC_DEV_API
#define DOCA_PCC_DEV_API extern
#endif

#define FORCE_INLINE  static inline __attribute__((always_inline)) /* sample files use these two */
#define ALWAYS_INLINE FORCE_INLINE

#define DOCA_PCC_DEV_LOG_MAX_RATE  20 /* rates are in 2^-20 of the line */
#define DOCA_PCC_DEV_MAX_RATE      (1u << DOCA_PCC_DEV_LOG_MAX_RATE)
#define DOCA_PCC_DEV_MAX_NUM_PORTS 1 /* of a NIC here */

enum doca_pcc_dev_event_type_enum {
	DOCA_PCC_DEV_EVNT_NULL,
	DOCA_PCC_DEV_EVNT_FW,
	DOCA_PCC_DEV_EVNT_ROCE_CNP,
	DOCA_PCC_DEV_EVNT_ROCE_TX,
	DOCA_PCC_DEV_EVNT_ROCE_ACK,
	DOCA_PCC_DEV_EVNT_ROCE_NACK,
	DOCA_PCC_DEV_EVNT_RTT,
	DOCA_PCC_DEV_EVNT_ROCE_TX_FOR_ACK_NACK = 31, /* does not come here */
};
#define DOCA_PCC_DEV_ACK_NACK_TX_EVENT_DISABLED_SUPPORTED 0

/* Flags of a TX event. Here it is set while a probe is under way. */
#define DOCA_PCC_DEV_TX_FLAG_RTT_REQ_SENT 4

typedef enum { DOCA_PCC_DEV_STATUS_OK, DOCA_PCC_DEV_STATUS_FAIL } doca_pcc_dev_error_t;

/* A flow's context: zeros for a new flow. */
typedef struct {
	uint32_t word[12];
} doca_pcc_dev_algo_ctxt_t;

typedef struct doca_pcc_dev_event doca_pcc_dev_event_t;

typedef struct {
	uint32_t algo_slot;
} doca_pcc_dev_attr_t;

typedef struct {
	uint32_t rate;    /* 2^-20 of the line */
	uint32_t rtt_req; /* 1: measure the round trip */
} doca_pcc_dev_results_t;

typedef struct {
	uint8_t ev_type, port_num, flags;
} doca_pcc_dev_event_general_attr_t;

typedef struct {
	uint16_t sent_32bytes, sent_pkts;
} doca_pcc_dev_roce_tx_cntrs_t;

struct doca_pcc_dev_algo_meta_data {
	uint32_t algo_id, algo_major_version, algo_minor_version, algo_desc_size;
	uint64_t algo_desc_addr;
};

/* What a device file defines. */
extern void doca_pcc_dev_user_init(uint32_t *disable_event_bitmask);
extern void doca_pcc_dev_user_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt, doca_pcc_dev_event_t *event,
				   const doca_pcc_dev_attr_t *attr, doca_pcc_dev_results_t *results);
extern doca_pcc_dev_error_t doca_pcc_dev_user_set_algo_params(uint32_t port_num, uint32_t algo_slot,
							      uint32_t param_id_base, uint32_t param_num,
							      const uint32_t *new_param_values,
							      uint32_t *params);

/* What it calls in doca_pcc_dev_user_init(). */
extern void doca_pcc_dev_algo_init_metadata(uint32_t algo_idx,
					    const struct doca_pcc_dev_algo_meta_data *meta_data,
					    uint32_t param_num, uint32_t counter_num);
extern void doca_pcc_dev_algo_init_param(uint32_t algo_idx, uint32_t param_id, uint32_t initial,
					 uint32_t greatest, uint32_t least, uint32_t writable,
					 uint32_t text_bytes, uint64_t text);
extern void doca_pcc_dev_algo_init_counter(uint32_t algo_idx, uint32_t counter_id, uint32_t greatest,
					   uint32_t writable, uint32_t text_bytes, uint64_t text);
extern void doca_pcc_dev_init_algo_slot(uint32_t port_num, uint32_t algo_slot, uint32_t algo_idx,
					uint32_t algo_en);
extern uint32_t doca_pcc_dev_get_algo_index(uint32_t port_num, uint32_t algo_slot);

/* What it calls for an event. */
DOCA_PCC_DEV_API doca_pcc_dev_event_general_attr_t
doca_pcc_dev_get_ev_attr(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_get_timestamp(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_get_roce_first_timestamp(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API doca_pcc_dev_roce_tx_cntrs_t
doca_pcc_dev_get_roce_tx_cntrs(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_get_rtt_req_send_timestamp(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_get_rtt_req_recv_timestamp(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_get_rtt_resp_send_timestamp(const doca_pcc_dev_event_t *event);
DOCA_PCC_DEV_API void doca_pcc_dev_default_internal_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt,
							 doca_pcc_dev_event_t *event,
							 const doca_pcc_dev_attr_t *attr,
							 doca_pcc_dev_results_t *results);
DOCA_PCC_DEV_API uint64_t doca_pcc_dev_mult(uint32_t a, uint32_t b);
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_fxp_mult(uint32_t a, uint32_t b); /* 16 fraction bits */
DOCA_PCC_DEV_API uint32_t doca_pcc_dev_fxp_recip(uint32_t a);            /* 16 fraction bits */

/* pcc.h makes macros of these: they reach what is not among their arguments. */
#ifndef DOCA_PCC_DEV_HERE
extern uint32_t *doca_pcc_dev_get_algo_params(uint32_t port_num, uint32_t algo_slot);
extern uint32_t *doca_pcc_dev_get_counters(uint32_t port_num, uint32_t algo_slot);
extern uint32_t doca_pcc_dev_get_timer_lo(void); /* us */
extern void doca_pcc_dev_printf(const char *format, ...);
extern void doca_pcc_dev_trace_5(uint32_t format_id, uint64_t arg1, uint64_t arg2, uint64_t arg3,
				 uint64_t arg4, uint64_t arg5);
extern void doca_pcc_dev_trace_flush(void);
#endif

#endif
