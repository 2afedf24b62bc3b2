/* SPDX-License-Identifier: GPL-2.0 */
/* Windows with a bit for each packet, from the first missing on, as selective repeat and transport uec keep.
 */
#ifndef DCGYM_WINDOW_BPF_H
#define DCGYM_WINDOW_BPF_H

#include "events.bpf.h"

#define WINDOW_WORDS (NIC_WINDOW_PACKETS / 64)

static __always_inline uint64_t *word_of(uint64_t *window, uint64_t psn)
{
	return &window[psn / 64 % WINDOW_WORDS];
}

static __always_inline uint64_t bit_of(uint64_t psn)
{
	return 1ull << (psn & 63);
}

static __always_inline uint32_t ones_in(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555;
	word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return word * 0x0101010101010101 >> 56;
}

/* Clears the bits of packets from `psn` to before `end`, and returns how many were set. */
static __noinline uint32_t clear_bits(uint64_t *window, uint64_t psn, uint64_t end)
{
	uint32_t count = 0;

	for (int i = 0; i <= (int)WINDOW_WORDS && psn < end; i++) {
		uint64_t *word = word_of(window, psn), next = (psn | 63) + 1;
		uint64_t gone = *word & ~0ull << (psn & 63);

		if (next > end)
			gone &= bit_of(end) - 1;
		*word &= ~gone;
		count += ones_in(gone);
		psn = next;
	}
	return count;
}

#endif
