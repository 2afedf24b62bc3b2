/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The shim as machine code of the lab kernel: what <bpf/bpf_helpers.h> is to BPF. Helpers are the kernel's
 * functions, behind pointers. A map is the variable that BPF's loader would read its declaration from; the
 * kernel writes into its fields where the map is (nic_native.h), so a row of an array is found without a
 * call.
 */
#ifndef DCGYM_NATIVE_HELPERS_H
#define DCGYM_NATIVE_HELPERS_H

#include "nic_native.h"

#define __sk_buff nic_native_frame /* its pointers have 64 bits */

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#undef __always_inline /* <linux/stddef.h> has one */
#define __always_inline    inline __attribute__((always_inline))
#define __noinline         __attribute__((noinline))
#define barrier_var(value) __asm__ volatile("" : "+r"(value))

extern struct nic_native_calls native_calls;

#define NATIVE_TYPE(declared) (sizeof(*(declared)->type) / sizeof(int))

/* Rows of arrays begin at multiples of 8 bytes. */
static inline void *native_row(void *first, uint64_t entries, uint64_t bytes, const uint32_t *key)
{
	return *key < entries ? (uint8_t *)first + *key * ((bytes + 7) & ~7ull) : NULL;
}

#define bpf_map_lookup_elem(declared, key)                                                                   \
	((typeof((declared)->value))(NATIVE_TYPE(declared) == BPF_MAP_TYPE_HASH                              \
					     ? native_calls.map_lookup_elem((declared)->type, (key))         \
					     : native_row((declared)->value,                                 \
							  (uint64_t)(declared)->max_entries,                 \
							  sizeof(*(declared)->value), (const void *)(key))))
#define bpf_ktime_get_ns                       native_calls.ktime_get_ns
#define bpf_skb_set_tstamp                     native_calls.skb_set_tstamp
#define bpf_set_hash                           native_calls.set_hash
#define bpf_skb_change_tail                    native_calls.skb_change_tail
#define bpf_skb_store_bytes                    native_calls.skb_store_bytes
#define bpf_skb_load_bytes                     native_calls.skb_load_bytes
#define bpf_clone_redirect                     native_calls.clone_redirect
#define bpf_redirect                           native_calls.redirect
#define bpf_ringbuf_output(ring, data, ...)    native_calls.ringbuf_output((ring)->type, (data), __VA_ARGS__)
#define bpf_ringbuf_reserve(ring, size, flags) native_calls.ringbuf_reserve((ring)->type, (size), (flags))
#define bpf_ringbuf_submit                     native_calls.ringbuf_submit

#endif
