/* SPDX-License-Identifier: Apache-2.0 */
/* tgen's jobs: what a table is refused for, and the order and the times in which nodes begin and end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "job_table.h"
#include "record_bytes.h"
#include "tgen_job.h"
#include "tgen_run.h"
#include "tgen_tcp.h"
#include "tgen_transport.h"

#define T0       1000
#define DURATION 500
#define ON_START 1 /* of an edge */

/*
 * At 10 begin calc 1 and send 3; recv 4 is to end with it, and calc 2 waits for the processor of 1. Calc 5
 * takes no time and waits for the end of 2; send 6 waits for the beginning of 2.
 */
static const struct job_node good[] = {
	{ .kind = JOB_START, .amount = 10, .edges_len = 4 },
	{ .kind = JOB_CALC, .amount = 100, .subject = 3, .edges_start = 4 },
	{ .kind = JOB_CALC, .amount = 30, .subject = 3, .edges_start = 4, .edges_len = 2 },
	{ .kind = JOB_SEND, .amount = 700, .subject = 1, .edges_start = 6 },
	{ .kind = JOB_RECV, .subject = 3, .edges_start = 6 },
	{ .kind = JOB_CALC, .subject = 2, .edges_start = 6 },
	{ .kind = JOB_SEND, .amount = 5, .subject = 1, .edges_start = 6 },
};
static const uint32_t edges[] = { 2 * 1, 2 * 2, 2 * 3, 2 * 4, 2 * 5, 2 * 6 + ON_START };
#define NODES (sizeof(good) / sizeof(good[0]))

static const struct flow_spec specs[] = { { .size_bytes = 1, .transport = FLOW_UDP }, { .size_bytes = 705 } };
static const struct flow_table flows_table = { .flow = specs, .flows = 2 };

static struct bytes bytes_of(const struct job_node nodes[NODES])
{
	struct bytes b = { 0 };

	add_table(&b, JOB_MAGIC, JOB_VERSION, sizeof(*nodes), nodes, NODES);
	add_table(&b, JOB_EDGES_MAGIC, JOB_VERSION, sizeof(*edges), edges, sizeof(edges) / sizeof(edges[0]));
	return b;
}

static int take(const struct job_node nodes[NODES], struct job_table *table, struct fault *f)
{
	*table = (struct job_table){ .file = file_of(bytes_of(nodes)) };
	return job_table_take(table, &flows_table, f);
}

static void drop(struct job_table *table)
{
	free((void *)table->file.at);
	table->file.at = NULL; /* no mapping of a file */
	job_table_free(table);
}

/* --- what tgen_job calls ------------------------------------------------------------------------------- */

static struct run run;
static struct flow flows[2];
static int64_t offered_at[4];
static int offers, expected, logged;
static struct tgen_job_record log[NODES];

int transport_offer(struct run *r, uint32_t number, int64_t at)
{
	assert_int_equal(number, 1);
	assert_ptr_equal(r, &run);
	offered_at[offers++] = at;
	return 0;
}

int tcp_expect(struct run *r, uint32_t number)
{
	(void)r;
	assert_int_equal(number, 1);
	expected++;
	return 0;
}

int tgen_log_add(struct tgen_log *file, const void *record)
{
	(void)file;
	log[logged++] = *(const struct tgen_job_record *)record;
	return 0;
}

int tgen_log_finish(struct tgen_log *file)
{
	(void)file;
	return 0;
}

/* --- tables -------------------------------------------------------------------------------------------- */

static void refuse(uint32_t number, struct job_node changed, const char *words)
{
	struct job_node nodes[NODES];
	struct job_table table;
	struct fault f;
	char place[64];

	memcpy(nodes, good, sizeof(good));
	nodes[number] = changed;
	assert_int_equal(take(nodes, &table, &f), -EINVAL);
	snprintf(place, sizeof(place), "--file: 'F': node %u, ", number);
	if (strncmp(f.text, place, strlen(place)) || !strstr(f.text, words))
		fail_msg("'%s' does not say '%s%s'", f.text, place, words);
	drop(&table);
}

#define WITH(number, field, value)                                                                           \
	number, ({                                                                                           \
		struct job_node changed = good[number];                                                      \
		changed.field = value;                                                                       \
		changed;                                                                                     \
	})

static void refuses_mistakes(void **state)
{
	(void)state;
	refuse(WITH(1, kind, NR_JOB_KINDS), "kind");
	refuse(WITH(1, subject, NODES), "subject");
	refuse(WITH(1, amount, (uint64_t)FLOW_TIME_MAX + 1), "amount");
	refuse(WITH(2, edges_start, 7), "edges_start");
	refuse(WITH(2, edges_len, 3), "edges_len");
	refuse(WITH(3, amount, 0), "amount");
	refuse(WITH(3, amount, JOB_BYTES_MAX + 1), "amount");
	refuse(WITH(3, subject, 0), "0 is no flow over tcp or rdma");
	refuse(WITH(3, subject, 2), "2 is no flow over tcp or rdma");
	refuse(WITH(3, amount, 701), "the messages of flow 1 have 706 bytes, the flow has 705");
	refuse(WITH(4, subject, 1), "1 is no send");
	refuse(WITH(4, subject, NODES), "is no send");
}

static void refuses_an_edge_to_no_node(void **state)
{
	struct job_table table = { 0 };
	struct bytes b = { 0 };
	const uint32_t far = 2 * NODES;
	struct fault f;

	(void)state;
	add_table(&b, JOB_MAGIC, JOB_VERSION, sizeof(*good), good, 1);
	add_table(&b, JOB_EDGES_MAGIC, JOB_VERSION, sizeof(far), (uint32_t[]){ 0, 0, 0, far }, 4);
	table.file = file_of(b);
	assert_int_equal(job_table_take(&table, &flows_table, &f), -EINVAL);
	assert_non_null(strstr(f.text, "edge 3, node"));
	drop(&table);
}

/* --- a job ---------------------------------------------------------------------------------------------- */

static void tick(int64_t at, uint32_t node)
{
	assert_int_equal(run.timers.heap[0].at, T0 + at);
	assert_int_equal(run.timers.heap[0].kind, TIMER_JOB);
	assert_int_equal(run.timers.heap[0].flow, node);
	timers_drop_first(&run.timers);
	assert_int_equal(job_on_timer(&run, node, T0 + at), 0);
}

static void arrive(uint64_t received, int64_t at, bool another)
{
	assert_int_equal(job_arrived(&run.job, &run.flows.flow[1].messages, received, T0 + at), another);
	assert_int_equal(job_go_on(&run), 0);
}

static void nodes_begin_and_end_as_the_graph_says(void **state)
{
	static const struct run_config config = { .t0_ns = T0, .duration_ns = DURATION };
	static const struct tgen_job_record times[NODES] = { { 10, 10 },  { 10, 110 }, { 110, 140 },
							     { 10, 130 }, { 10, 130 }, { 140, 140 },
							     { 110, 150 } };
	struct job_table table;
	struct fault f;

	(void)state;
	assert_int_equal(take(good, &table, &f), 0);
	assert_int_equal(table.processors, 4);
	assert_int_equal(table.starts, 1);
	run = (struct run){ .config = &config, .flows = { .flow = flows, .count = 2 } };
	flows[1].messages.first = JOB_NONE;
	assert_int_equal(timers_init(&run.timers, table.processors + table.starts), 0);
	assert_int_equal(job_init(&run.job, &table), 0);
	assert_int_equal(job_plan(&run), 0);
	assert_true(flows[1].messages.any);
	assert_false(flows[0].messages.any);

	tick(10, 0);
	assert_int_equal(flows[1].messages.posted, 700);
	assert_int_equal(flows[1].messages.boundary, 700);
	tick(110, 1);
	assert_int_equal(flows[1].messages.posted, 705);
	assert_int_equal(flows[1].messages.boundary, 700);
	arrive(699, 120, false);
	assert_int_equal(expected, 1);
	arrive(700, 130, true);
	assert_int_equal(flows[1].messages.boundary, 705);
	tick(140, 2);
	assert_int_equal(run.timers.count, 0);
	arrive(705, 150, false);

	assert_int_equal(offers, 2);
	assert_int_equal(offered_at[0], T0 + 10);
	assert_int_equal(offered_at[1], T0 + 110);
	assert_int_equal(job_log(&run), 0);
	assert_int_equal(logged, NODES);
	assert_memory_equal(log, times, sizeof(times));
	job_free(&run.job);
	timers_free(&run.timers);
	drop(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_mistakes),
		cmocka_unit_test(refuses_an_edge_to_no_node),
		cmocka_unit_test(nodes_begin_and_end_as_the_graph_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
