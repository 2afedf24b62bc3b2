// SPDX-License-Identifier: Apache-2.0
/*
 * An algorithm of the NIC as code of RV32I, for rv32_cost.py: the header that CC_ALGORITHM names, and the
 * functions that a compiler calls for what RV32I lacks. Its caller writes the variables, calls decide() or
 * policy(), and reads the variables.
 *
 * Products add and shift, as many times as the smaller factor has bits. Quotients take a bit at a time, from
 * the dividend's highest on.
 */
#include CC_ALGORITHM

uint32_t state[CC_STATE_WORDS_MAX], parameter[CC_PARAMETERS_MAX], table[CC_TABLE_WORDS];
struct cc_event event;
struct cc_flow flow;
struct cc_result result;
int32_t action;

void decide(void)
{
	cc_on_event(state, &event, &flow, parameter, table, &result);
}

/* The policy alone, on the inputs of the decision before. */
void policy(void)
{
	action = rlcc_policy(state, table);
}

uint32_t __mulsi3(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; b; b >>= 1, a <<= 1)
		if (b & 1)
			product += a;
	return product;
}

uint64_t __muldi3(uint64_t a, uint64_t b)
{
	uint64_t product = 0, smaller;
	bool negative = (a ^ b) >> 63;

	a = a >> 63 ? -a : a;
	b = b >> 63 ? -b : b;
	smaller = a < b ? a : b;
	a = a < b ? b : a;
	for (; smaller; smaller >>= 1, a <<= 1)
		if (smaller & 1)
			product += a;
	return negative ? -product : product;
}

uint64_t __udivdi3(uint64_t dividend, uint64_t divisor)
{
	uint64_t quotient = 0, left = 0;
	int bit = 63;

	while (bit >= 0 && !(dividend >> bit))
		bit--;
	for (; bit >= 0; bit--) {
		left = left << 1 | (dividend >> bit & 1);
		quotient <<= 1;
		if (left >= divisor) {
			left -= divisor;
			quotient |= 1;
		}
	}
	return quotient;
}

void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes)
{
	for (volatile char *end = to; bytes; bytes--)
		end[bytes - 1] = ((const char *)from)[bytes - 1];
	return to;
}

void *memset(void *to, int byte, __SIZE_TYPE__ bytes)
{
	for (volatile char *end = to; bytes; bytes--)
		end[bytes - 1] = (char)byte;
	return to;
}
