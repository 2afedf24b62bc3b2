// SPDX-License-Identifier: Apache-2.0
/* The state matrix as its readers see it, and the trace file in good and bad times. */
#include "matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS  3
#define CELLS (ROWS * SM_NR_COLUMNS)

static const char names[ROWS][SM_NAME_LEN] = { "s1-eth1", "s1-eth2", "h1-eth0" };
static const struct row_names row_names = { names[0], sizeof(names[0]) };

/* A folder of its own for each test. */
struct folder {
	char path[64], file[96], partial[128];
};

static int make_folder(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	strcpy(f->path, "/tmp/test_matrix.XXXXXX");
	if (!mkdtemp(f->path))
		return -1;
	snprintf(f->file, sizeof(f->file), "%s/file", f->path);
	snprintf(f->partial, sizeof(f->partial), "%s.partial", f->file);
	*state = f;
	return 0;
}

static int remove_folder(void **state)
{
	struct folder *f = *state;

	unlink(f->file);
	unlink(f->partial);
	rmdir(f->path);
	free(f);
	return 0;
}

static struct sm_header layout(void)
{
	struct sm_header h;

	matrix_layout(&h, (struct matrix_shape){ .rows = ROWS }, 1000000, 5000000000);
	return h;
}

static const char *at(const struct matrix *m, uint64_t offset)
{
	return (const char *)m->header + offset;
}

static uint64_t cell(const struct matrix *m, size_t i)
{
	uint64_t v;

	memcpy(&v, at(m, m->header->off_cells + i * sizeof(v)), sizeof(v));
	return v;
}

/* Two threads at one matrix. */
struct race {
	struct matrix m;
	atomic_bool over;
	uint64_t reads, mixtures;
};

static void lays_out(void **state)
{
	struct sm_header h = layout();

	(void)state;
	assert_memory_equal(h.magic, SM_MAGIC, 8);
	assert_int_equal(h.header_len, 256);
	assert_int_equal(h.off_row_names, 256);
	assert_int_equal(h.off_col_names, 256 + ROWS * SM_NAME_LEN);
	assert_true(h.off_cells >= h.off_col_names + SM_NR_COLUMNS * SM_NAME_LEN);
	assert_true(h.off_activity >= h.off_cells + CELLS * 8);
	assert_int_equal(h.off_cells % 64, 0);
	assert_int_equal(h.off_activity % 64, 0);
	assert_int_equal(h.total_len, h.off_activity + ROWS * 8);
}

static void lays_out_flows_and_commands(void **state)
{
	const struct matrix_shape shape = { .rows = ROWS, .flow_rows = 5, .command_rows = 2 };
	struct sm_header h, plain = layout();

	(void)state;
	matrix_layout(&h, shape, 1000000, 5000000000);
	assert_int_equal(h.off_activity, plain.off_activity);
	assert_int_equal(plain.off_flows | plain.off_commands | plain.flow_rows | plain.command_rows, 0);
	assert_int_equal(h.flow_rows, 5);
	assert_int_equal(h.command_rows, 2);
	assert_int_equal(h.off_flows % 64, 0);
	assert_true(h.off_flows >= plain.total_len);
	assert_int_equal(h.off_commands % 64, 0);
	assert_true(h.off_commands >= h.off_flows + 5 * sizeof(struct sm_flow));
	assert_int_equal(h.total_len,
			 h.off_commands + sizeof(struct sm_commands) + 2 * sizeof(struct sm_command));
}

static struct matrix open_with_commands(void)
{
	struct sm_header h;
	struct matrix m;

	matrix_layout(&h, (struct matrix_shape){ .rows = ROWS, .command_rows = 2 }, 1000000, 1);
	assert_int_equal(matrix_open(&m, NULL, &h, row_names), 0);
	return m;
}

static void takes_commands(void **state)
{
	struct matrix m = open_with_commands();
	struct sm_commands *c = (struct sm_commands *)((char *)m.header + m.header->off_commands);
	struct sm_command *rows = (struct sm_command *)(c + 1);
	const uint64_t in_force[SM_MAX_VALUES] = { 16, 26, 36, 46 }, more[SM_MAX_VALUES] = { 99, 98, 97, 96 };
	uint64_t wanted[2 * SM_MAX_VALUES] = { 0 };

	(void)state;
	assert_int_equal(matrix_take_command(&m, wanted), 0);
	c->seq = 1; /* being written */
	rows[0].wanted[0] = 17;
	assert_int_equal(matrix_take_command(&m, wanted) % 2, 1);
	for (uint64_t v = 0; v < SM_MAX_VALUES; v++)
		rows[1].wanted[v] = 18 + v;
	c->seq = 2;
	assert_int_equal(matrix_take_command(&m, wanted), 2);
	assert_int_equal(wanted[0], 17);
	assert_int_equal(wanted[1], 0);
	assert_memory_equal(&wanted[SM_MAX_VALUES], rows[1].wanted, sizeof(rows[1].wanted));
	matrix_in_force(&m, 1, in_force);
	matrix_row_acked(&m, 0, 2);
	matrix_row_acked(&m, 1, 2);
	matrix_timeouts(&m, 3);
	matrix_acknowledge(&m, 2, 12345);
	assert_int_equal(c->ack, 2);
	assert_int_equal(c->applied_ns, 12345);
	assert_int_equal(rows[0].acked, 2);
	assert_int_equal(rows[1].acked, 2);
	assert_memory_equal(rows[1].in_force, in_force, sizeof(in_force));
	assert_int_equal(rows[0].in_force[0] | rows[0].in_force[3], 0);
	assert_int_equal(c->timeouts, 3);
	matrix_want(&m, 0, more);
	c->seq = 5; /* half of a third: it will be 6 */
	assert_int_equal(matrix_disown_commands(&m), 4);
	assert_int_equal(c->ack, 4);
	assert_int_equal(rows[1].acked, 4);
	assert_int_equal(c->applied_ns, 0);
	assert_memory_equal(rows[0].wanted, more, sizeof(more));
	assert_int_equal(rows[1].wanted[0], 18);
	c->end = 2;
	assert_int_equal(matrix_asked_end(&m), 2);
	matrix_begin(&m, 77);
	assert_int_equal(m.header->t0_ns, 77);
	assert_int_equal(matrix_asked_end(&m), 0);
	matrix_close(&m);
}

/* A row says which actuator it is of which port, and how many of its values count. */
static void assigns_rows(void **state)
{
	const char whole[SM_ACTUATOR_LEN] = "fifteen-letters", name[SM_ACTUATOR_LEN] = "rate";
	const struct sm_command none = { 0 };
	struct matrix m = open_with_commands();
	struct sm_command *rows =
		(struct sm_command *)((char *)m.header + m.header->off_commands + sizeof(struct sm_commands));

	(void)state;
	matrix_assign(&m, 1, 2, whole, 3);
	assert_memory_equal(&rows[0], &none, sizeof(none));
	assert_int_equal(rows[1].row, 2);
	assert_int_equal(rows[1].n_values, 3);
	assert_string_equal(rows[1].actuator, "fifteen-letters");
	matrix_assign(&m, 1, 1, name, 1);
	assert_int_equal(rows[1].row, 1);
	assert_memory_equal(rows[1].actuator, name, sizeof(name)); /* no letter of the longer name is left */
	matrix_close(&m);
}

/* An agent writes commands whose values are all equal; no mixture of two may be taken for one. */
static void *command_all_the_time(void *arg)
{
	struct race *r = arg;
	_Atomic uint64_t *seq = (_Atomic uint64_t *)((char *)r->m.header + r->m.header->off_commands);

	for (uint64_t k = 1; k <= 200000; k++) {
		const uint64_t values[SM_MAX_VALUES] = { k, k, k, k };

		atomic_store_explicit(seq, 2 * k - 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		matrix_want(&r->m, 0, values);
		matrix_want(&r->m, 1, values);
		atomic_store_explicit(seq, 2 * k, memory_order_release);
	}
	atomic_store(&r->over, true);
	return NULL;
}

static void never_takes_a_mixture(void **state)
{
	struct race r = { .m = open_with_commands() };
	uint64_t wanted[2 * SM_MAX_VALUES], seq = 0;
	pthread_t agent;

	(void)state;
	assert_int_equal(pthread_create(&agent, NULL, command_all_the_time, &r), 0);
	while (!atomic_load(&r.over) || seq != 400000) {
		seq = matrix_take_command(&r.m, wanted);
		for (int v = 0; seq && seq % 2 == 0 && v < 2 * SM_MAX_VALUES; v++)
			r.mixtures += wanted[v] != seq / 2;
	}
	pthread_join(agent, NULL);
	assert_int_equal(r.mixtures, 0);
	matrix_close(&r.m);
}

static void creates_and_publishes(void **state)
{
	struct folder *f = *state;
	struct sm_header h = layout();
	struct matrix m;
	struct stat st;
	uint64_t cells[CELLS], flows = 4;

	assert_int_equal(matrix_open(&m, f->file, &h, row_names), 0);
	assert_int_equal(stat(f->file, &st), 0);
	assert_int_equal(st.st_size, h.total_len);
	assert_memory_equal(m.header->magic, SM_MAGIC, 8);
	assert_int_equal(m.header->writer_pid, getpid());
	assert_string_equal(at(&m, h.off_row_names + 2 * SM_NAME_LEN), "h1-eth0");
	assert_string_equal(at(&m, h.off_col_names + SM_MARKS * SM_NAME_LEN), "marks");
	assert_int_equal(m.header->seq, 0);

	for (size_t i = 0; i < CELLS; i++)
		cells[i] = 100 + i;
	memcpy((char *)m.header + h.off_activity + 8, &flows, sizeof(flows));
	matrix_copy_activity(&m, cells);
	matrix_publish(&m, 123456789, cells);
	assert_int_equal(m.header->seq, 2);
	assert_int_equal(m.header->generation, 1);
	assert_int_equal(m.header->t_ns, 123456789);
	assert_int_equal(cell(&m, SM_DROPS), 100 + SM_DROPS);
	assert_int_equal(cell(&m, SM_ACTIVE_FLOWS), 0);
	assert_int_equal(cell(&m, SM_NR_COLUMNS + SM_ACTIVE_FLOWS), 4);
	matrix_close(&m);
	matrix_close(&m);
}

static void begins_anew_in_an_old_file(void **state)
{
	struct folder *f = *state;
	struct sm_header h = layout();
	uint64_t cells[CELLS] = { 1, 2, 3 };
	struct matrix m;

	assert_int_equal(matrix_open(&m, f->file, &h, row_names), 0);
	matrix_publish(&m, 1, cells);
	matrix_close(&m);
	assert_int_equal(matrix_open(&m, f->file, &h, row_names), 0);
	assert_int_equal(m.header->seq, 0);
	assert_int_equal(m.header->generation, 0);
	assert_int_equal(cell(&m, 1), 0);
	matrix_close(&m);
}

static void works_without_a_file(void **state)
{
	struct sm_header h = layout();
	struct matrix m;

	(void)state;
	assert_int_equal(matrix_open(&m, NULL, &h, row_names), 0);
	assert_int_equal(m.header->rows, ROWS);
	matrix_close(&m);
	assert_int_equal(matrix_open(&m, "/nowhere/at/all", &h, row_names), -ENOENT);
	matrix_close(&m);
}

/* One thread publishes sweeps whose cells are all equal; another must never copy a mixture. */
static bool copy_sweep(const struct matrix *m, uint64_t *cells)
{
	const _Atomic uint64_t *seq = (const _Atomic uint64_t *)at(m, offsetof(struct sm_header, seq));
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)at(m, m->header->off_cells);
	uint64_t before = atomic_load_explicit(seq, memory_order_acquire);

	for (size_t i = 0; i < CELLS; i++)
		cells[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return before % 2 == 0 && atomic_load_explicit(seq, memory_order_relaxed) == before;
}

static void *read_all_the_time(void *arg)
{
	struct race *r = arg;
	uint64_t cells[CELLS];

	while (!atomic_load(&r->over)) {
		if (!copy_sweep(&r->m, cells))
			continue;
		r->reads++;
		for (size_t i = 1; i < CELLS; i++)
			r->mixtures += cells[i] != cells[0];
	}
	return NULL;
}

static void never_shows_a_mixture(void **state)
{
	struct sm_header h = layout();
	struct race r = { .over = false };
	uint64_t cells[CELLS];
	pthread_t reader;

	(void)state;
	assert_int_equal(matrix_open(&r.m, NULL, &h, row_names), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_all_the_time, &r), 0);
	for (uint64_t k = 1; k <= 200000; k++) {
		for (size_t i = 0; i < CELLS; i++)
			cells[i] = k;
		matrix_publish(&r.m, k, cells);
	}
	atomic_store(&r.over, true);
	pthread_join(reader, NULL);
	assert_int_equal(r.mixtures, 0);
	matrix_close(&r.m);
}

static void writes_a_trace(void **state)
{
	struct folder *f = *state;
	struct sm_header h = layout(), got;
	uint64_t cells[CELLS], record[1 + CELLS];
	const uint64_t n = 20000; /* several buffers */
	struct trace t;
	FILE *file;

	assert_int_equal(trace_open(&t, f->file, &h, row_names), 0);
	for (uint64_t k = 0; k < n; k++) {
		for (size_t i = 0; i < CELLS; i++)
			cells[i] = k * CELLS + i;
		assert_int_equal(trace_append(&t, 10 * k, cells, CELLS), 0);
	}
	assert_int_equal(access(f->file, F_OK), -1);
	assert_int_equal(trace_finish(&t), 0);
	trace_close(&t);
	trace_close(&t);
	assert_int_equal(access(f->partial, F_OK), -1);

	file = fopen(f->file, "rb");
	assert_non_null(file);
	assert_int_equal(fread(&got, sizeof(got), 1, file), 1);
	assert_int_equal(got.off_cells, h.off_col_names + SM_NR_COLUMNS * SM_NAME_LEN);
	assert_int_equal(got.generation, 0);
	assert_int_equal(got.rows, ROWS);
	assert_int_equal(fseek(file, (long)got.off_cells, SEEK_SET), 0);
	for (uint64_t k = 0; k < n; k++) {
		assert_int_equal(fread(record, sizeof(record), 1, file), 1);
		assert_int_equal(record[0], 10 * k);
		assert_int_equal(record[CELLS], k * CELLS + CELLS - 1);
	}
	assert_int_equal(fgetc(file), EOF);
	fclose(file);
}

static void leaves_no_trace_that_looks_whole(void **state)
{
	struct folder *f = *state;
	struct sm_header h = layout();
	struct trace t;
	int fd = open(f->file, O_CREAT | O_WRONLY, 0644);

	assert_true(fd >= 0); /* of an earlier run */
	close(fd);
	assert_int_equal(trace_open(&t, f->file, &h, row_names), 0);
	trace_close(&t);
	assert_int_equal(access(f->file, F_OK), -1);
	assert_int_equal(access(f->partial, F_OK), 0);
}

/* A limit on the size of files cuts a write short first, then fails it: as a full disk does. */
static void tells_a_full_disk(void **state)
{
	struct folder *f = *state;
	struct sm_header h = layout();
	struct rlimit limit = { 4096, RLIM_INFINITY };
	struct trace t;
	uint64_t cells[CELLS] = { 0 };
	int rc = 0;

	assert_int_equal(trace_open(&t, f->file, &h, row_names), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int k = 0; k < 100000 && !rc; k++)
		rc = trace_append(&t, 1, cells, CELLS);
	limit.rlim_cur = RLIM_INFINITY;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(rc, -EFBIG);
	trace_close(&t);
	assert_int_equal(access(f->file, F_OK), -1);
}

static void tells_the_kernels_enospc(void **state)
{
	struct sm_header h = layout();
	struct trace t = TRACE_INIT;

	(void)state;
	t.buf = calloc(1, 4096);
	t.size = 4096;
	t.used = 10;
	t.fd = open("/dev/full", O_WRONLY);
	assert_true(t.fd >= 0);
	assert_int_equal(trace_finish(&t), -ENOSPC);
	trace_close(&t);
	assert_int_equal(trace_open(&t, "/nowhere/at/all", &h, row_names), -ENOENT);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lays_out),
		cmocka_unit_test(lays_out_flows_and_commands),
		cmocka_unit_test(takes_commands),
		cmocka_unit_test(assigns_rows),
		cmocka_unit_test(never_takes_a_mixture),
		IN_FOLDER(creates_and_publishes),
		IN_FOLDER(begins_anew_in_an_old_file),
		cmocka_unit_test(works_without_a_file),
		cmocka_unit_test(never_shows_a_mixture),
		IN_FOLDER(writes_a_trace),
		IN_FOLDER(leaves_no_trace_that_looks_whole),
		IN_FOLDER(tells_a_full_disk),
		cmocka_unit_test(tells_the_kernels_enospc),
	};

	return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
