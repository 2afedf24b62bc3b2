/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The sign bit of a number, without a branch: the verifier of BPF walks both sides of each branch, one after
 * the other, and a network has hundreds.
 */
#ifndef DCGYM_BITS_H
#define DCGYM_BITS_H

#include "cc.h"

/*
 * The sign bit, 1 for negative numbers. Opaque, else the compiler makes a branch of it: of a tree 16 ways.
 * The number must be opaque, else the shift is a comparison, and the bit as well, else clang 15 and later
 * branch on what is made of it.
 */
static inline uint32_t bits_sign(int64_t n)
{
	uint32_t sign;

	__asm__("" : "+r"(n));
	sign = (uint32_t)((uint64_t)n >> 63);
	__asm__("" : "+r"(sign));
	return sign;
}

#endif
