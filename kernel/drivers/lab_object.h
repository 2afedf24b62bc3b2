/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * An object of the lab kernel: congestion controls that were compiled apart from it (kernel/objects.py). The
 * kernel reads it at boot (lab_object.c).
 *
 * A file is a struct lab_object_head, which the linker script writes, and code and data that are linked to
 * one place, the kernel's array lab_object_region, and to the addresses of one kernel's symbols. So it fits
 * the kernel with that build id, and no other.
 */
#ifndef LAB_OBJECT_H
#define LAB_OBJECT_H

#include <linux/types.h>

#define LAB_OBJECT_MAGIC    0x4354424f59474344ull /* "DCGYOBTC", little-endian */
#define LAB_OBJECT_ABI      1
#define LAB_OBJECT_BYTES    (512u << 10) /* of the region */
#define LAB_OBJECT_ID_BYTES 20           /* of a kernel's build id */

/* Offsets count from the head. */
struct lab_object_head {
	__u64 magic;
	__u64 abi;
	__u64 base; /* the region's address */
	__u64 file_bytes;
	__u64 memory_bytes; /* bytes beyond the file are zero at first */
	__u64 calls_at;     /* table of the initcalls: addresses of functions */
	__u64 calls_bytes;
	__u8 kernel[LAB_OBJECT_ID_BYTES];
	__u32 reserved;
};

#endif
