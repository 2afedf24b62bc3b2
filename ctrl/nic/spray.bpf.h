/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sending end of transport uec: packets of a flow leave by many paths, so that they arrive in any order.
 *
 * Each packet has an entropy value, which its UDP source port carries and its ACK brings back. ACKs tell what
 * has arrived, packet by packet. A packet is lost if a port has trimmed it (was_trimmed), if others have
 * arrived that left far behind it (count_lost; a packet is counted once), or by timeout. The places named are
 * those of github.com/ultraethernet/uet-htsim at 40ccb05, htsim/sim, whose behaviour this follows.
 */
#ifndef DCGYM_SPRAY_BPF_H
#define DCGYM_SPRAY_BPF_H

#include "window.bpf.h"

#define REORDER_LEAST 5   /* packets: UecSrc::min_retx_config, uec.cpp:83 */
#define PENALTY_MOST  15u /* UecMpBitmap::_max_penalty, uec_mp.cpp:55; 4 bits */
#define PENALTY_MARK  1u  /* UecMpBitmap::processEv, uec_mp.cpp:86-88 */
#define PENALTY_TRIM  4u
#define RECYCLED_MOST 8 /* CircularBufferREPS::repsBufferSize, buffer_reps.cpp:5 */

/* The sender keeps a window of the packets that were lost. */
static __always_inline bool knows_lost(void)
{
	return settings.trims || sprays();
}

static __always_inline bool has_room(const struct nic_sender *s)
{
	uint64_t packets = under_way(s);

	return !packets || !s->window_bytes || (packets + 1) * s->flow.packet_bytes <= s->window_bytes;
}

/* --- entropy values --- */

static __always_inline uint32_t drawn(uint32_t flow, uint32_t number)
{
	return nic_tag(flow ^ (uint32_t)settings.seed, number) & (settings.entropies - 1);
}

/* All values in turn. After a round the order is another (UecMpOblivious::nextEntropy, uec_mp.cpp:30). */
static __always_inline uint32_t in_turn_of_all(struct nic_sender *s, uint32_t flow)
{
	uint32_t number = s->entropy_draws++;

	return (number & (settings.entropies - 1)) ^ drawn(flow, number / settings.entropies);
}

static __always_inline uint32_t penalty_of(struct nic_sender *s, uint32_t value)
{
	return s->penalty[value / 16 % (NIC_ENTROPIES_MAX / 16)] >> (value % 16 * 4) & PENALTY_MOST;
}

static __always_inline void set_penalty(struct nic_sender *s, uint32_t value, uint32_t penalty)
{
	uint64_t *word = &s->penalty[value / 16 % (NIC_ENTROPIES_MAX / 16)];

	*word &= ~((uint64_t)PENALTY_MOST << (value % 16 * 4));
	*word |= (uint64_t)penalty << (value % 16 * 4);
}

/* The next value without a penalty; the first that has one loses a point (UecMpBitmap, uec_mp.cpp:98). */
static __noinline uint32_t without_penalty(struct nic_sender *s, uint32_t flow)
{
	uint32_t value = in_turn_of_all(s, flow), penalty = penalty_of(s, value);

	if (!penalty)
		return value;
	set_penalty(s, value, penalty - 1);
	for (uint32_t i = 0; i < NIC_ENTROPIES_MAX; i++) {
		value = in_turn_of_all(s, flow);
		if (!penalty_of(s, value) || i >= settings.entropies)
			break;
	}
	return value;
}

/* The oldest that was acknowledged without a mark, else any (UecMpReps::nextEntropy, uec_mp.cpp:177). */
static __always_inline uint32_t recycled(struct nic_sender *s, uint32_t flow)
{
	if (!s->recycled)
		return drawn(flow, s->entropy_draws++);
	s->recycled--;
	return s->recycle >> (s->recycled & (RECYCLED_MOST - 1)) * 8 & (NIC_ENTROPIES_MAX - 1);
}

static __always_inline uint32_t next_entropy(struct nic_sender *s, uint32_t flow)
{
	if (settings.balancer == NIC_REPS)
		return recycled(s, flow);
	return settings.balancer == NIC_BITMAP ? without_penalty(s, flow) : in_turn_of_all(s, flow);
}

/* The flow's own port is value 0. */
static __always_inline uint16_t port_of_entropy(const struct nic_sender *s, uint32_t value)
{
	return ((const struct nic_frame *)s->frame)->udp.source ^ bpf_htons((uint16_t)value);
}

/* An answer tells how a packet with its value has fared. */
static __always_inline void learn(struct nic_sender *s, const struct nic_frame *frame)
{
	uint32_t value = bpf_ntohs(port_of_entropy(s, 0) ^ frame->udp.source) & (settings.entropies - 1);
	uint32_t flags = frame->nic.flags, penalty;

	if (settings.balancer == NIC_REPS && !(flags & (NIC_MARKED | NIC_TRIMMED))) {
		s->recycle = s->recycle << 8 | value;
		s->recycled += s->recycled < RECYCLED_MOST;
	}
	if (settings.balancer != NIC_BITMAP || !(flags & (NIC_MARKED | NIC_TRIMMED)))
		return;
	penalty = penalty_of(s, value) + (flags & NIC_TRIMMED ? PENALTY_TRIM : PENALTY_MARK);
	set_penalty(s, value, penalty < PENALTY_MOST ? penalty : PENALTY_MOST);
}

/* --- what has arrived, and what is lost --- */

/* The packets of one word of the window have arrived. Returns how many of them are news. */
static __always_inline uint32_t arrive_in_word(struct nic_sender *s, uint64_t psn, uint64_t bits)
{
	uint64_t *arrived = word_of(s->arrived, psn), *lost = word_of(s->trimmed, psn);

	bits &= ~*arrived;
	*arrived |= bits;
	s->trims -= ones_in(*lost & bits);
	*lost &= ~bits;
	return ones_in(bits);
}

/* Packet `told` is the highest bit of `bits`, and the 63 before it follow. Returns how many of them are news.
 */
static __always_inline uint32_t take_arrivals(struct nic_sender *s, uint32_t told, uint64_t bits)
{
	uint64_t ahead = told - (uint32_t)s->acked, psn = s->acked;
	uint32_t fresh, shift;

	if (ahead >= s->high - s->acked || ahead >= NIC_WINDOW_PACKETS)
		return 0; /* it was acknowledged before, or makes no sense */
	if (bits >> 63 && s->latest <= s->acked + ahead)
		s->latest = s->acked + ahead + 1;
	if (ahead < 63)
		bits >>= 63 - ahead;
	else
		psn += ahead - 63;
	shift = psn & 63;
	fresh = arrive_in_word(s, psn, bits << shift);
	if (shift)
		fresh += arrive_in_word(s, psn + 63, bits >> (64 - shift));
	s->arrivals += fresh;
	return fresh;
}

/* All before `psn` have arrived. Returns how many of them are news. */
static __always_inline uint32_t take_acked(struct nic_sender *s, uint32_t psn)
{
	uint32_t packets = psn - (uint32_t)s->acked, known;
	uint64_t before = s->acked;

	if (!packets || packets > s->high - before)
		return 0;
	s->acked += packets;
	s->trims -= clear_bits(s->trimmed, before, s->acked);
	clear_bits(s->resent, before, s->acked);
	known = clear_bits(s->arrived, before, s->acked);
	s->arrivals -= known;
	return packets - known;
}

/* Those that have not arrived are lost, of the packets from `acked` to before `end`; `again`: also those that
 * left once more. Returns how many they are. */
static __noinline uint32_t declare_lost(struct nic_sender *s, uint64_t end, bool again)
{
	uint64_t psn = s->acked;
	uint32_t count = 0;

	for (int i = 0; i <= (int)WINDOW_WORDS && psn < end; i++) {
		uint64_t *lost = word_of(s->trimmed, psn), next = (psn | 63) + 1;
		uint64_t known = *word_of(s->arrived, psn) | *lost, missing;

		if (!again)
			known |= *word_of(s->resent, psn);
		missing = ~known & ~0ull << (psn & 63);
		if (next > end)
			missing &= bit_of(end) - 1;
		*lost |= missing;
		count += ones_in(missing);
		psn = next;
	}
	s->trims += count;
	return count;
}

/*
 * A packet is lost if one has arrived that left so many behind it: 1.5 windows, as in UecSrc::runSleek
 * (uec.cpp:1433), where the receiver counts what is early, and 1.5 of the largest window is enough. Behind a
 * cut of the window it is what is still under way. Without a window paths may differ by as much as all queues
 * hold.
 */
static __always_inline uint64_t reorder_packets(const struct nic_sender *s)
{
	uint64_t packets = (uint64_t)s->window_bytes * 3 / 2 / s->flow.packet_bytes;

	if (!s->window_bytes)
		return NIC_WINDOW_PACKETS / 2;
	if (packets < under_way(s))
		packets = under_way(s);
	return packets > REORDER_LEAST ? packets : REORDER_LEAST;
}

static __always_inline uint32_t count_lost(struct nic_sender *s)
{
	uint64_t distance = s->latest > s->acked ? s->latest - s->acked : 0, least;

	if (distance <= REORDER_LEAST)
		return 0;
	least = reorder_packets(s);
	return distance > least ? declare_lost(s, s->latest - least, false) : 0;
}

#endif
