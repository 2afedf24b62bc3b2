/* SPDX-License-Identifier: GPL-2.0-only */
/* Random numbers by their place in a sequence, so that no draw changes another. */
#ifndef LAB_DRAW_H
#define LAB_DRAW_H

#include <linux/types.h>

/* Returns number `n`, from 0, of the sequence splitmix64 of that seed (Steele, Lea, Flood: OOPSLA 2014). */
static inline u64 lab_draw(u64 seed, u64 n)
{
	u64 z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

#endif
