/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A native object: the data path of the NICs with one algorithm as machine code (ctrl/nic/native.c). The lab
 * kernel reads it at boot (nic_native.c), and nicd asks for it by the hash of its bytes.
 *
 * A file is a struct nic_native_head, which the linker script writes, and an image that runs anywhere: all
 * its pointers are listed in a table of relocations. Machine code and kernel call each other through
 * pointers alone, so a change of an algorithm does not concern the kernel.
 */
#ifndef NIC_NATIVE_H
#define NIC_NATIVE_H

#include <linux/types.h>

#define NIC_NATIVE_MAGIC     0x5654414e59474344ull /* "DCGYNATV", little-endian */
#define NIC_NATIVE_ABI       1                     /* version of everything in this header */
#define NIC_NATIVE_BYTES_MAX (1u << 20)            /* largest object in memory */
#define NIC_NATIVE_NAME_LEN  16                    /* names of programs and maps; BPF's length */
#define NIC_NATIVE_ENTRIES   5
#define NIC_NATIVE_MAPS_MAX  10

/* All offsets count from the head. */
struct nic_native_head {
	__u64 magic;
	__u64 abi;
	__u64 file_bytes;
	__u64 memory_bytes; /* bytes beyond the file are zero at first */
	__u64 relocations_at;
	__u64 relocations_bytes;
	__u64 image_at; /* struct nic_native_image */
};

/* Elf64_Rela of type R_X86_64_RELATIVE: a pointer to `addend` lies at `offset`. */
struct nic_native_relocation {
	__u64 offset, info;
	__s64 addend;
};
#define NIC_NATIVE_RELATIVE 8

/* A packet as a program sees it. The kernel knows what is behind it. */
struct nic_native_frame {
	__u8 *data, *data_end; /* its linear part */
	__u32 len, mark, ifindex;
};

/* The kernel's functions, each as the BPF helper of that name. `map` is the kernel's. */
struct nic_native_calls {
	__u64 (*ktime_get_ns)(void);
	void *(*map_lookup_elem)(void *map, const void *key);
	long (*skb_set_tstamp)(struct nic_native_frame *frame, __u64 tstamp, __u32 type);
	void (*set_hash)(struct nic_native_frame *frame, __u32 hash);
	long (*skb_change_tail)(struct nic_native_frame *frame, __u32 len, __u64 flags);
	long (*skb_store_bytes)(struct nic_native_frame *frame, __u32 offset, const void *from, __u32 len,
				__u64 flags);
	long (*skb_load_bytes)(const struct nic_native_frame *frame, __u32 offset, void *to, __u32 len);
	long (*clone_redirect)(struct nic_native_frame *frame, __u32 ifindex, __u64 flags);
	long (*redirect)(__u32 ifindex, __u64 flags);
	long (*ringbuf_output)(void *map, void *data, __u64 size, __u64 flags);
	void *(*ringbuf_reserve)(void *map, __u64 size, __u64 flags);
	void (*ringbuf_submit)(void *data, __u64 flags);
};

/* A program. One that writes to packets gets them unshared, as the verifier arranges for BPF. */
struct nic_native_entry {
	char name[NIC_NATIVE_NAME_LEN];
	int (*run)(struct nic_native_frame *frame);
	__u64 writes;
};

/* A map, and where the image wants to have it: the kernel's own, its entries, and the first row of an array.
 */
struct nic_native_map {
	char name[NIC_NATIVE_NAME_LEN];
	__u32 type, value_bytes;
	void **map, **entries, **rows;
};

struct nic_native_image {
	char algorithm[32];
	struct nic_native_calls *calls;
	void *settings; /* a copy of the map with their name */
	__u64 settings_bytes;
	struct nic_native_entry entry[NIC_NATIVE_ENTRIES];
	struct nic_native_map map[NIC_NATIVE_MAPS_MAX]; /* an empty name ends them */
};

/* Returns the id of an object: FNV-1a over all bytes of its file. */
static inline __u64 nic_native_id(const void *file, __u64 bytes)
{
	__u64 hash = 0xcbf29ce484222325ull, i;

	for (i = 0; i < bytes; i++)
		hash = (hash ^ ((const __u8 *)file)[i]) * 0x100000001b3ull;
	return hash;
}

#endif
