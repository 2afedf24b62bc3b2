/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the parser of tgen's list of flows takes any bytes, and what it accepts keeps its promises.
 * A first byte of 1 puts the right header in front, so that rows are reached without finding it by chance.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "flow_csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static void check_table(const struct flow_table *t)
{
	for (uint32_t i = 0; i < t->flows; i++) {
		const struct flow_spec *f = &t->flow[i];

		require(f->src_ns < t->namespaces && f->dst_ns < t->namespaces);
		require(f->listener <= i && strcmp(t->flow[f->listener].cc, f->cc) == 0);
		require(f->src_port && f->dst_port && f->cc[0]);
		require(f->path_start <= t->nrows && f->path_len <= t->nrows - f->path_start);
		require(!f->stop_ns || f->stop_ns > f->start_ns || f->gate != FLOW_NO_GATE);
		require(f->gate == FLOW_NO_GATE || (f->gate < t->gates && t->needs[f->gate]));
		require(f->opens_start <= t->nopens && f->opens_len <= t->nopens - f->opens_start);
		require(f->transport < NR_TRANSPORTS && f->gaps < NR_GAPS);
		require(f->transport != FLOW_UDP || f->rate_bps);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char header[] = FLOW_CSV_HEADER "\n";
	size_t prefix = size && data[0] == 1 ? sizeof(header) - 1 : 0, skip = prefix ? 1 : 0;
	size_t len = prefix + size - skip;
	char *text = malloc(len ? len : 1);
	struct flow_csv_error error;
	struct flow_table table;

	memcpy(text, header, prefix);
	if (size > skip)
		memcpy(text + prefix, data + skip, size - skip);
	if (flow_csv_parse(text, len, &table, &error) == 0) {
		check_table(&table);
		flow_table_free(&table);
	} else {
		require(!table.flow && memchr(error.why, '\0', sizeof(error.why)) != NULL);
	}
	free(text);
	return 0;
}
