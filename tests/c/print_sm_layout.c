// SPDX-License-Identifier: Apache-2.0
/* Print the layout of the state matrix as JSON, for a test of the Python reader. */
#include "state_matrix.h"

#include <stdio.h>

struct field {
	const char *name;
	size_t offset, size;
};

#define FIELD(type, name)                                                                                    \
	{                                                                                                    \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name)                         \
	}

static const struct field header[] = {
	FIELD(sm_header, magic),         FIELD(sm_header, version_major), FIELD(sm_header, version_minor),
	FIELD(sm_header, header_len),    FIELD(sm_header, rows),          FIELD(sm_header, cols),
	FIELD(sm_header, off_row_names), FIELD(sm_header, off_col_names), FIELD(sm_header, off_cells),
	FIELD(sm_header, off_activity),  FIELD(sm_header, total_len),     FIELD(sm_header, interval_ns),
	FIELD(sm_header, t0_ns),         FIELD(sm_header, t_ns),          FIELD(sm_header, generation),
	FIELD(sm_header, seq),           FIELD(sm_header, writer_pid),    FIELD(sm_header, reserved0),
	FIELD(sm_header, off_flows),     FIELD(sm_header, off_commands),  FIELD(sm_header, flow_rows),
	FIELD(sm_header, command_rows),  FIELD(sm_header, reserved),      { NULL, 0, 0 },
};

static const struct field flow[] = {
	FIELD(sm_flow, received_bytes), FIELD(sm_flow, acked_bytes), FIELD(sm_flow, start_ns),
	FIELD(sm_flow, end_ns),         FIELD(sm_flow, srtt_us),     FIELD(sm_flow, min_rtt_us),
	FIELD(sm_flow, cwnd_packets),   FIELD(sm_flow, retransmits), FIELD(sm_flow, status),
	FIELD(sm_flow, cnps),           FIELD(sm_flow, rate_bps),    { NULL, 0, 0 },
};

static const struct field commands[] = {
	FIELD(sm_commands, seq),
	FIELD(sm_commands, ack),
	FIELD(sm_commands, applied_ns),
	FIELD(sm_commands, timeouts),
	FIELD(sm_commands, end),
	FIELD(sm_commands, reserved),
	{ NULL, 0, 0 },
};

static const struct field rate[] = {
	FIELD(sm_rate, wanted_bps), FIELD(sm_rate, enforced_bps), FIELD(sm_rate, acked),
	FIELD(sm_rate, row),        FIELD(sm_rate, reserved),     { NULL, 0, 0 },
};

static const char *const columns[] = {
#define X(id, name) name,
	SM_COLUMNS(X)
#undef X
};

static const char *const statuses[] = {
	[SM_FLOW_WAITING] = "waiting", [SM_FLOW_RUNNING] = "running", [SM_FLOW_DONE] = "done",
	[SM_FLOW_STOPPED] = "stopped", [SM_FLOW_FAILED] = "failed",
};

static void print_record(const char *name, size_t size, const struct field *f)
{
	printf("\"%s\": {\"size\": %zu, \"fields\": {", name, size);
	for (; f->name; f++)
		printf("\"%s\": [%zu, %zu]%s", f->name, f->offset, f->size, f[1].name ? ", " : "}}, ");
}

static void print_words(const char *name, const char *const *words, size_t n)
{
	printf("\"%s\": [", name);
	for (size_t i = 0; i < n; i++)
		printf("%s\"%s\"", i ? ", " : "", words[i]);
	printf("], ");
}

int main(void)
{
	printf("{");
	print_record("header", sizeof(struct sm_header), header);
	print_record("flow", sizeof(struct sm_flow), flow);
	print_record("commands", sizeof(struct sm_commands), commands);
	print_record("rate", sizeof(struct sm_rate), rate);
	print_words("columns", columns, SM_NR_COLUMNS);
	print_words("statuses", statuses, sizeof(statuses) / sizeof(statuses[0]));
	printf("\"magic\": \"%s\", \"major\": %d, \"name_len\": %d}\n", SM_MAGIC, SM_VERSION_MAJOR,
	       SM_NAME_LEN);
	return 0;
}
