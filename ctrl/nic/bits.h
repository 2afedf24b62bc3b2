/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What code needs that the verifier of BPF has to walk: the sign bit of a number without a branch (it walks
 * both sides of each, one after the other, and a network has hundreds), and functions that stay calls.
 */
#ifndef DCGYM_BITS_H
#define DCGYM_BITS_H

#include "cc.h"

/* A function that BPF calls: inlined, each call would be as many instructions again. */
#ifdef __bpf__
#define BITS_CALLED __attribute__((noinline))
#else
#define BITS_CALLED inline
#endif

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
