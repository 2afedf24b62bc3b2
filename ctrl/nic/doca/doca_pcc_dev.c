// SPDX-License-Identifier: Apache-2.0
/*
 * The device API as far as a device file calls it to set up, and a program that does it: it calls the file's
 * doca_pcc_dev_user_init() and prints "parameter ID DEFAULT LEAST GREATEST DESCRIPTION" for each parameter of
 * algorithm 0, then "counters N", "slot N" and "disabled MASK". `dcgym nic import` links it with the file.
 */
#include <inttypes.h>
#include <stdio.h>

#include "doca_pcc_dev.h"

static uint32_t counters, slot;

void doca_pcc_dev_algo_init_metadata(uint32_t algo_idx, const struct doca_pcc_dev_algo_meta_data *meta_data,
				     uint32_t param_num, uint32_t counter_num)
{
	(void)meta_data, (void)param_num;
	if (algo_idx == 0)
		counters = counter_num;
}

void doca_pcc_dev_algo_init_param(uint32_t algo_idx, uint32_t param_id, uint32_t initial, uint32_t greatest,
				  uint32_t least, uint32_t writable, uint32_t text_bytes, uint64_t text)
{
	(void)writable;
	if (algo_idx == 0)
		printf("parameter %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %.*s\n", param_id, initial,
		       least, greatest, (int)text_bytes, text ? (const char *)(uintptr_t)text : "");
}

void doca_pcc_dev_algo_init_counter(uint32_t algo_idx, uint32_t counter_id, uint32_t greatest,
				    uint32_t writable, uint32_t text_bytes, uint64_t text)
{
	(void)algo_idx, (void)counter_id, (void)greatest, (void)writable, (void)text_bytes, (void)text;
}

void doca_pcc_dev_init_algo_slot(uint32_t port_num, uint32_t algo_slot, uint32_t algo_idx, uint32_t algo_en)
{
	(void)port_num, (void)algo_en;
	if (algo_idx == 0)
		slot = algo_slot;
}

uint32_t doca_pcc_dev_get_algo_index(uint32_t port_num, uint32_t algo_slot)
{
	(void)port_num, (void)algo_slot;
	return 0;
}

void doca_pcc_dev_printf(const char *format, ...)
{
	(void)format;
}

void doca_pcc_dev_trace_5(uint32_t format_id, uint64_t arg1, uint64_t arg2, uint64_t arg3, uint64_t arg4,
			  uint64_t arg5)
{
	(void)format_id, (void)arg1, (void)arg2, (void)arg3, (void)arg4, (void)arg5;
}

void doca_pcc_dev_trace_flush(void)
{
}

int main(void)
{
	uint32_t disabled = 0;

	doca_pcc_dev_user_init(&disabled);
	printf("counters %" PRIu32 "\nslot %" PRIu32 "\ndisabled %" PRIu32 "\n", counters, slot, disabled);
	return 0;
}
