/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What DOCA PCC calls, around an algorithm of cc.h. `dcgym nic export` writes this behind the algorithm's
 * headers. Before it stand DEVICE_PARAMETERS, the number of the algorithm's parameters, which those of the
 * path follow, and DEVICE_SETTINGS(X), rows X(number, initial, least, greatest, text) of all.
 */
#ifndef DCGYM_DEVICE_H
#define DCGYM_DEVICE_H

#define PATH   DEVICE_PARAMETERS /* first parameter of the path */
#define RATE   CC_STATE_WORDS    /* word of the context: the rate in force; 0: a new flow */
#define EVENTS (CC_MASK(CC_CNP) | CC_MASK(CC_TX) | CC_MASK(CC_ACK) | CC_MASK(CC_NACK) | CC_MASK(CC_RTT))

static inline void times_of(doca_pcc_dev_event_t *event, struct cc_event *seen)
{
	seen->now_ns = doca_pcc_dev_get_timestamp(event);
	if (seen->type != CC_RTT) {
		seen->first_ns = doca_pcc_dev_get_roce_first_timestamp(event);
		return;
	}
	seen->first_ns = seen->now_ns;
	seen->sent_ns = doca_pcc_dev_get_rtt_req_send_timestamp(event);
	seen->received_ns = doca_pcc_dev_get_rtt_req_recv_timestamp(event);
	seen->answered_ns = doca_pcc_dev_get_rtt_resp_send_timestamp(event);
}

static inline void counts_of(doca_pcc_dev_event_t *event, const struct cc_flow *flow, struct cc_event *seen)
{
	seen->coalesced = 1;
	if (seen->type == CC_TX) {
		doca_pcc_dev_roce_tx_cntrs_t sent = doca_pcc_dev_get_roce_tx_cntrs(event);

		seen->bytes = 32u * sent.sent_32bytes;
		seen->packets = sent.sent_pkts;
	} else if (seen->type == CC_ACK) {
		seen->packets = 1;
		seen->bytes = flow->packet_bytes;
	}
}

static inline bool is_wanted(const struct cc_event *seen)
{
	if (seen->type >= 32 || !((CC_EVENTS)&CC_MASK(seen->type)))
		return false;
#ifdef CC_FIRST_TX
	if (seen->type == CC_TX && !(seen->flags & CC_NEW_FLOW))
		return false;
#endif
	return true;
}

void doca_pcc_dev_user_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt, doca_pcc_dev_event_t *event,
			    const doca_pcc_dev_attr_t *attr, doca_pcc_dev_results_t *results)
{
	doca_pcc_dev_event_general_attr_t general = doca_pcc_dev_get_ev_attr(event);
	const uint32_t *parameter = doca_pcc_dev_get_algo_params(general.port_num, attr->algo_slot);
	uint32_t *state = (uint32_t *)algo_ctxt;
	struct cc_flow flow = { parameter[PATH], parameter[PATH + 1], parameter[PATH + 2],
				parameter[PATH + 3] };
	struct cc_event seen = { .type = general.ev_type };
	struct cc_result result = { .rate = state[RATE] ? state[RATE] : CC_LINE_RATE };

	if (attr->algo_slot != 0) {
		doca_pcc_dev_default_internal_algo(algo_ctxt, event, attr, results);
		return;
	}
	times_of(event, &seen);
	counts_of(event, &flow, &seen);
	seen.flags = state[RATE] ? 0 : CC_NEW_FLOW;
	if (seen.type == CC_TX && general.flags & DOCA_PCC_DEV_TX_FLAG_RTT_REQ_SENT) {
		seen.flags |= CC_PROBING;
		seen.sent_ns = seen.now_ns;
	}
	if (is_wanted(&seen))
		cc_on_event(state, &seen, &flow, parameter, NULL, &result);
	state[RATE] = cc_clamp(result.rate);
	results->rate = state[RATE];
	results->rtt_req = result.probe;
}

#define DEVICE_SETTING(number, initial, least, greatest, text)                                               \
	{                                                                                                    \
		static const char told[] = text;                                                             \
                                                                                                             \
		doca_pcc_dev_algo_init_param(0, number, initial, greatest, least, 1, sizeof(told),           \
					     (uint64_t)(uintptr_t)told);                                     \
	}

void doca_pcc_dev_user_init(uint32_t *disable_event_bitmask)
{
	static const char told[] = CC_HELP;
	struct doca_pcc_dev_algo_meta_data meta_data = {
		.algo_id = 0xDC00,
		.algo_major_version = 1,
		.algo_desc_size = sizeof(told),
		.algo_desc_addr = (uint64_t)(uintptr_t)told,
	};

	doca_pcc_dev_algo_init_metadata(0, &meta_data, PATH + 4, 0);
	DEVICE_SETTINGS(DEVICE_SETTING)
	for (uint32_t port = 0; port < DOCA_PCC_DEV_MAX_NUM_PORTS; port++)
		doca_pcc_dev_init_algo_slot(port, 0, 0, 1);
	*disable_event_bitmask = EVENTS & ~(CC_EVENTS);
	if (DOCA_PCC_DEV_ACK_NACK_TX_EVENT_DISABLED_SUPPORTED)
		*disable_event_bitmask |= 1u << DOCA_PCC_DEV_EVNT_ROCE_TX_FOR_ACK_NACK;
}

doca_pcc_dev_error_t doca_pcc_dev_user_set_algo_params(uint32_t port_num, uint32_t algo_slot,
						       uint32_t param_id_base, uint32_t param_num,
						       const uint32_t *new_param_values, uint32_t *params)
{
	(void)port_num;
	if (algo_slot != 0 || param_id_base + param_num > PATH + 4)
		return DOCA_PCC_DEV_STATUS_FAIL;
	for (uint32_t i = 0; i < param_num; i++)
		params[i] = new_param_values[i];
	return DOCA_PCC_DEV_STATUS_OK;
}

#endif
