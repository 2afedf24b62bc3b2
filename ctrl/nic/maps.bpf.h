/* SPDX-License-Identifier: GPL-2.0 */
/* The maps that the programs of the data path share: rows by flow and by NIC, settings, records. nicd.c sizes
 * them. */
#ifndef DCGYM_MAPS_BPF_H
#define DCGYM_MAPS_BPF_H

#include "shim.h"

#define BPF_F_MMAPABLE_ARRAY (1U << 10)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct nic_sender);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct nic_receiver);
} receivers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct nic_port);
} ports SEC(".maps");

/* The event that an algorithm decides on, and its answer. They lie off the stack, which has 512 bytes for all
 * functions. */
struct consultation {
	struct cc_event event;
	struct cc_result result;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct consultation);
} consultations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} decisions SEC(".maps");

#ifdef CC_TABLE
struct nic_table {
	uint32_t word[CC_TABLE_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct nic_table);
} table SEC(".maps");
#endif

/* Read-only once loaded, so the verifier knows the values and removes what they switch off. */
const volatile struct nic_settings settings SEC(".rodata.settings");

static __always_inline struct nic_sender *sender_of(uint32_t flow)
{
	return bpf_map_lookup_elem(&senders, &flow);
}

static __always_inline struct nic_receiver *receiver_of(uint32_t flow)
{
	return bpf_map_lookup_elem(&receivers, &flow);
}

static __always_inline struct nic_port *port_of(uint32_t number)
{
	return bpf_map_lookup_elem(&ports, &number);
}

#endif
