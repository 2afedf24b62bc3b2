/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Types and helpers for programs of the data path, which have no libc: BPF's, or those of native code. */
#ifndef DCGYM_BPF_H
#define DCGYM_BPF_H

#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#if !defined(NIC_NATIVE) && !defined(CC_ALONE)
#include <bpf/bpf_helpers.h>
#endif

typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s8 int8_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;

#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#define bool _Bool
#define true 1
#define false 0
#define NULL ((void *)0)

#ifdef NIC_NATIVE
#include "native_helpers.h"
#endif

#endif
