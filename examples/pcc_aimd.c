/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device file for NVIDIA's DOCA PCC, an input of `dcgym nic import`: a share of the line more for each round trip
 * that is short, half of the rate at the first mark after one, a share less when it is long. A lost packet
 * halves, too.
 */
#include <doca_pcc_dev.h>
#include <doca_pcc_dev_algo_access.h>
#include <doca_pcc_dev_event.h>

enum setting { RAISE, CUT, LONG_NS, PARAMETERS };

struct context {
	uint32_t rate; /* 0: a new flow */
	uint32_t probed_ns;
	uint16_t probes;
	bool was_cut; /* since the last round trip */
};

static const char raise_text[] = "raise, share of the line that a short round trip adds, Q20";
static const char cut_text[] = "cut, share of the rate that a long round trip takes, Q16";
static const char long_text[] = "long_ns, round trips that are long";

static uint32_t within(uint64_t rate, uint32_t least)
{
	return rate < least ? least : rate > DOCA_PCC_DEV_MAX_RATE ? DOCA_PCC_DEV_MAX_RATE : (uint32_t)rate;
}

static void halve(struct context *flow)
{
	if (!flow->was_cut)
		flow->rate = within(flow->rate / 2, 64);
	flow->was_cut = true;
}

static void on_round_trip(struct context *flow, const uint32_t *parameter, doca_pcc_dev_event_t *event)
{
	uint32_t rtt_ns = doca_pcc_dev_get_timestamp(event) - doca_pcc_dev_get_rtt_req_send_timestamp(event);
	uint32_t inside_ns = doca_pcc_dev_get_rtt_resp_send_timestamp(event) -
			     doca_pcc_dev_get_rtt_req_recv_timestamp(event);

	flow->probes++;
	flow->was_cut = false;
	flow->probed_ns = doca_pcc_dev_get_timestamp(event);
	if (rtt_ns - inside_ns >= parameter[LONG_NS])
		flow->rate = within(doca_pcc_dev_fxp_mult(flow->rate, 65536 - parameter[CUT]), 64);
	else
		flow->rate = within((uint64_t)flow->rate + parameter[RAISE], 64);
}

void doca_pcc_dev_user_algo(doca_pcc_dev_algo_ctxt_t *algo_ctxt, doca_pcc_dev_event_t *event,
			    const doca_pcc_dev_attr_t *attr, doca_pcc_dev_results_t *results)
{
	struct context *flow = (struct context *)algo_ctxt;
	doca_pcc_dev_event_general_attr_t general = doca_pcc_dev_get_ev_attr(event);
	const uint32_t *parameter = doca_pcc_dev_get_algo_params(general.port_num, attr->algo_slot);

	if (flow->rate == 0)
		flow->rate = DOCA_PCC_DEV_MAX_RATE;
	switch (general.ev_type) {
	case DOCA_PCC_DEV_EVNT_RTT:
		on_round_trip(flow, parameter, event);
		break;
	case DOCA_PCC_DEV_EVNT_ROCE_CNP:
	case DOCA_PCC_DEV_EVNT_ROCE_NACK:
		halve(flow);
		break;
	default:
		break;
	}
	results->rate = flow->rate;
	results->rtt_req = 1;
}

static void describe(uint32_t parameter, uint32_t initial, uint32_t most, const char *text, uint32_t size)
{
	doca_pcc_dev_algo_init_param(0, parameter, initial, most, 0, 1, size, (uint64_t)(uintptr_t)text);
}

void doca_pcc_dev_user_init(uint32_t *disable_event_bitmask)
{
	struct doca_pcc_dev_algo_meta_data meta_data = { .algo_id = 0xDC01, .algo_major_version = 1 };

	doca_pcc_dev_algo_init_metadata(0, &meta_data, PARAMETERS, 0);
	describe(RAISE, 10486, DOCA_PCC_DEV_MAX_RATE, raise_text, sizeof(raise_text));
	describe(CUT, 6554, 65536, cut_text, sizeof(cut_text));
	describe(LONG_NS, 40000, 1u << 31, long_text, sizeof(long_text));
	for (uint32_t port = 0; port < DOCA_PCC_DEV_MAX_NUM_PORTS; port++)
		doca_pcc_dev_init_algo_slot(port, 0, 0, 1);
	*disable_event_bitmask = 1u << DOCA_PCC_DEV_EVNT_ROCE_ACK;
}

doca_pcc_dev_error_t doca_pcc_dev_user_set_algo_params(uint32_t port_num, uint32_t algo_slot,
						       uint32_t param_id_base, uint32_t param_num,
						       const uint32_t *new_param_values, uint32_t *params)
{
	(void)port_num;
	if (algo_slot != 0 || param_id_base + param_num > PARAMETERS)
		return DOCA_PCC_DEV_STATUS_FAIL;
	for (uint32_t i = 0; i < param_num; i++)
		params[i] = new_param_values[i];
	return DOCA_PCC_DEV_STATUS_OK;
}
