/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The sign of a number without a branch, for algorithms that the BPF verifier walks. */
#ifndef DCGYM_SIGN_H
#define DCGYM_SIGN_H

#if defined(__bpf__) || defined(NIC_NATIVE)
#include "bpf.h"
#else
#include <stdint.h>
#endif

/*
 * The sign bit, 1 for negative numbers. Opaque, else the compiler makes a branch of it, and the verifier
 * walks both sides of each, one after the other: of a tree 16 ways. The number must be opaque, else the shift
 * is a comparison, and the bit as well, else clang 15 and later branch on what is made of it.
 */
static inline uint32_t rlcc_sign(int64_t n)
{
	uint32_t sign;

	__asm__("" : "+r"(n));
	sign = (uint32_t)((uint64_t)n >> 63);
	__asm__("" : "+r"(sign));
	return sign;
}

#endif
