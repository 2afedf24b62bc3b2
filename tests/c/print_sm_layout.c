// SPDX-License-Identifier: Apache-2.0
/* Print the layout of the state matrix as JSON, for a test of the Python reader. */
#include "state_matrix.h"

#include <stdio.h>

#define FIELD(name)                                                                                          \
	printf("\"%s\": [%zu, %zu], ", #name, offsetof(struct sm_header, name),                              \
	       sizeof(((struct sm_header *)0)->name))

static void print_columns(void)
{
	static const char *const names[] = {
#define X(id, name) name,
		SM_COLUMNS(X)
#undef X
	};

	for (int i = 0; i < SM_NR_COLUMNS; i++)
		printf("%s\"%s\"", i ? ", " : "", names[i]);
}

int main(void)
{
	printf("{\"fields\": {");
	FIELD(magic);
	FIELD(version_major);
	FIELD(version_minor);
	FIELD(header_len);
	FIELD(rows);
	FIELD(cols);
	FIELD(off_row_names);
	FIELD(off_col_names);
	FIELD(off_cells);
	FIELD(off_activity);
	FIELD(total_len);
	FIELD(interval_ns);
	FIELD(t0_ns);
	FIELD(t_ns);
	FIELD(generation);
	FIELD(seq);
	FIELD(writer_pid);
	FIELD(reserved0);
	FIELD(off_flows);
	FIELD(off_commands);
	FIELD(flow_rows);
	FIELD(command_rows);
	printf("\"reserved\": [%zu, %zu]}, ", offsetof(struct sm_header, reserved),
	       sizeof(((struct sm_header *)0)->reserved));
	printf("\"size\": %zu, \"magic\": \"%s\", \"major\": %d, \"name_len\": %d, \"columns\": [",
	       sizeof(struct sm_header), SM_MAGIC, SM_VERSION_MAJOR, SM_NAME_LEN);
	print_columns();
	printf("]}\n");
	return 0;
}
