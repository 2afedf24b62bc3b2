/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer entry: tgen's flows. What is accepted must keep its promises. */
#include "flow_table.h"
#include "fuzz.h"
#include "record_bytes.h"

static void check_table(const struct flow_table *t)
{
	for (uint32_t i = 0; i < t->flows; i++) {
		const struct flow_spec *f = &t->flow[i];

		require(f->src_ns < t->namespaces && f->dst_ns < t->namespaces);
		require(memchr(t->netns[f->src_ns].path, 0, FLOW_NETNS_LEN) != NULL);
		require(f->listener <= i && t->flow[f->listener].listener == f->listener);
		require(strcmp(t->flow[f->listener].cc, f->cc) == 0);
		require(f->src_port && f->dst_port && f->cc[0] && memchr(f->cc, 0, FLOW_CC_MAX));
		require(f->path_start <= t->nrows && f->path_len <= t->nrows - f->path_start);
		require(f->start_ns >= 0 && f->start_ns <= FLOW_TIME_MAX && f->stop_ns <= FLOW_TIME_MAX);
		require(!f->stop_ns || f->stop_ns > f->start_ns || f->gate != FLOW_NO_GATE);
		require(f->gate == FLOW_NO_GATE || (f->gate < t->gates && t->needs[f->gate]));
		require(f->opens_start <= t->nopens && f->opens_len <= t->nopens - f->opens_start);
		for (uint32_t k = 0; k < f->opens_len; k++)
			require(t->opens[f->opens_start + k] < t->gates);
		require(f->transport < NR_TRANSPORTS && f->gaps < NR_GAPS);
		require(f->transport != FLOW_UDP || f->rate_bps);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flow_table table = { .file = file_of((struct bytes){ (unsigned char *)data, size }) };
	struct fault f;
	int rc = flow_table_take(&table, &f);

	if (!rc)
		check_table(&table);
	else
		require(memchr(f.text, '\0', sizeof(f.text)) != NULL);
	fuzz_count(rc ? 0 : table.flows);
	table.file.at = NULL; /* no mapping of a file */
	flow_table_free(&table);
	return 0;
}
