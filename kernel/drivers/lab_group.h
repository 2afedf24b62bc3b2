/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a group port among equal next hops: topologies/ecmp.py makes the same one before a frame is
 * sent.
 *
 * The hash takes the 13 bytes of the 5-tuple as two numbers through splitmix64 (lab_draw.h). Each step is one
 * to one in its number, and every bit of the number moves half of the result's bits. All 64 bits take part in
 * the choice.
 */
#ifndef LAB_GROUP_H
#define LAB_GROUP_H

#include "lab_draw.h"

/* In host byte order. The ports are 0 in frames that have none: other protocols, and fragments. */
struct lab_tuple {
	u32 src, dst;
	u16 src_port, dst_port;
	u8 protocol;
};

static inline u64 lab_group_hash(u64 seed, const struct lab_tuple *t)
{
	u64 ends = (u64)t->src << 32 | t->dst;
	u64 rest = (u64)t->src_port << 24 | (u64)t->dst_port << 8 | t->protocol;

	return lab_draw(lab_draw(seed, ends), rest);
}

/* Returns a place in 0 .. members - 1; `members` is at least 1. */
static inline u32 lab_group_choose(u64 hash, u32 members)
{
	return ((hash >> 32) * members + (((hash & 0xffffffffu) * members) >> 32)) >> 32;
}

#endif
