// SPDX-License-Identifier: GPL-2.0
/*
 * The shim with one algorithm as machine code of the lab kernel (docs/nic.md): the same lines as in BPF,
 * compiled with -DNIC_NATIVE -DCC_ALGORITHM='"algorithms/X/X.h"' and linked by native.ld.
 */
#include "shim.bpf.c"

struct nic_native_calls native_calls;

#define ENTRY(program, writes)                                                                               \
	{                                                                                                    \
#program, program, writes                                                                    \
	}

#define MAP(declared)                                                                                        \
	{                                                                                                    \
		.name = #declared, .type = NATIVE_TYPE(&declared), .value_bytes = sizeof(*declared.value),   \
		.map = (void **)&declared.type, .entries = (void **)&declared.max_entries,                   \
		.rows = NATIVE_TYPE(&declared) == BPF_MAP_TYPE_ARRAY ||                                      \
					NATIVE_TYPE(&declared) == BPF_MAP_TYPE_PERCPU_ARRAY                  \
				? (void **)&declared.value                                                   \
				: NULL                                                                       \
	}

struct nic_native_image native_image __attribute__((section(".image"), used)) = {
	.algorithm = CC_NAME,
	.calls = &native_calls,
	.settings = (void *)&settings,
	.settings_bytes = sizeof(settings),
	/* nic_turn writes its token, nic_cap an ECN codepoint for algorithms that want CNPs. */
	.entry = { ENTRY(nic_depart, 0), ENTRY(nic_turn, 1), ENTRY(nic_receive, 0),
		   ENTRY(nic_cap, (CC_EVENTS & CC_MASK(CC_CNP)) != 0), ENTRY(nic_test, 0) },
	.map = { MAP(senders),
		 MAP(receivers),
		 MAP(ports),
		 MAP(consultations),
		 MAP(capped),
		 MAP(test),
#ifdef CC_TABLE
		 MAP(table),
#endif
		 { .name = "decisions",
		   .type = NATIVE_TYPE(&decisions),
		   .map = (void **)&decisions.type,
		   .entries = (void **)&decisions.max_entries } },
};

/* Compilers call these for what is written as assignments. */

void *memcpy(void *to, const void *from, unsigned long bytes)
{
	void *start = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
	return start;
}

void *memset(void *to, int byte, unsigned long bytes)
{
	void *start = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
	return start;
}
