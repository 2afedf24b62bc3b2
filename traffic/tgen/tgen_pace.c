/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_pace.h"

#include "tgen_clock.h"

#define CHUNK_MAX   65536u /* bytes; at least one packet */
#define CHUNK_PER_S 1000u  /* a TCP application writes about once a millisecond */
#define PS_PER_NS   1000
#define LN2_Q64     UINT64_C(0xb17217f7d1cf79ac)
#define LONGEST_PS  (INT64_C(1) << 61)

static uint64_t chunk_of(const struct flow_spec *spec)
{
	uint64_t unit = spec->packet_bytes, units = spec->rate_bps / 8 / CHUNK_PER_S / unit;
	uint64_t most = CHUNK_MAX / unit;

	if (spec->transport == FLOW_UDP)
		return unit;
	units = units > most ? most : units;
	return (units ? units : 1) * unit;
}

static uint64_t limit_of(const struct flow_spec *spec)
{
	return spec->size_bytes ? spec->size_bytes : UINT64_MAX;
}

uint64_t offered_bytes(const struct flow_spec *spec, int64_t elapsed)
{
	unsigned __int128 bits;
	uint64_t bytes;

	if (!spec->rate_bps)
		return limit_of(spec);
	bits = (unsigned __int128)spec->rate_bps * (uint64_t)elapsed / NS_PER_S;
	bytes = bits / 8 > UINT64_MAX ? UINT64_MAX : (uint64_t)(bits / 8);
	if (bytes >= limit_of(spec))
		return limit_of(spec);
	return bytes - bytes % chunk_of(spec);
}

int64_t offered_next(const struct flow_spec *spec, uint64_t queued)
{
	uint64_t chunk = chunk_of(spec), next = queued - queued % chunk + chunk;
	unsigned __int128 ns;

	if (next > limit_of(spec))
		next = limit_of(spec);
	ns = ((unsigned __int128)next * 8 * NS_PER_S + spec->rate_bps - 1) / spec->rate_bps;
	return ns > FLOW_TIME_MAX ? FLOW_TIME_MAX : (int64_t)ns;
}

/* -log2((random + 1/2) / 2^64) with 32 binary places, from 0 to 65: the logarithm's bits by repeated
 * squaring. */
static uint64_t minus_log2_q32(uint64_t random)
{
	uint64_t x = random | 1, fraction = 0;
	int zeros = __builtin_clzll(x);

	x <<= zeros; /* x / 2^63 is in [1, 2) */
	for (int i = 0; i < 32; i++) {
		unsigned __int128 square = (unsigned __int128)x * x;
		unsigned carry = (unsigned)(square >> 127);

		x = (uint64_t)(square >> (63 + carry));
		fraction = fraction << 1 | carry;
	}
	return ((uint64_t)(zeros + 1) << 32) - fraction;
}

int64_t gap_ps(const struct flow_spec *spec, uint64_t random)
{
	unsigned __int128 mean, gap;

	mean = (unsigned __int128)chunk_of(spec) * 8 * NS_PER_S * PS_PER_NS / spec->rate_bps;
	if (spec->gaps == GAPS_UNIFORM)
		gap = 2 * mean * (random >> 32) >> 32;
	else
		gap = (mean * minus_log2_q32(random) >> 32) * (LN2_Q64 >> 32) >> 32;
	return gap > LONGEST_PS ? LONGEST_PS : (int64_t)gap;
}

static uint64_t mix(uint64_t x) /* splitmix64 */
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t pace_seed(uint64_t seed, uint32_t flow)
{
	return mix(mix(seed) ^ flow);
}

static void plan_next(struct pace *pace, const struct flow_spec *spec)
{
	pace->next_ps += gap_ps(spec, mix(pace->seed ^ pace->draws));
	if (pace->next_ps > LONGEST_PS)
		pace->next_ps = LONGEST_PS;
	pace->draws++;
}

uint64_t pace_offered(struct pace *pace, const struct flow_spec *spec, int64_t elapsed)
{
	uint64_t limit = limit_of(spec), chunk;

	if (!spec->rate_bps || spec->gaps == GAPS_EXACT)
		return offered_bytes(spec, elapsed);
	if (!pace->draws)
		plan_next(pace, spec);
	chunk = chunk_of(spec);
	while (pace->bytes < limit && (pace->next_ps + PS_PER_NS - 1) / PS_PER_NS <= elapsed) {
		pace->bytes += limit - pace->bytes < chunk ? limit - pace->bytes : chunk;
		plan_next(pace, spec);
	}
	return pace->bytes;
}

int64_t pace_next(const struct pace *pace, const struct flow_spec *spec, uint64_t queued)
{
	if (spec->gaps == GAPS_EXACT)
		return offered_next(spec, queued);
	return (pace->next_ps + PS_PER_NS - 1) / PS_PER_NS;
}
