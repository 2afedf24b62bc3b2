// SPDX-License-Identifier: Apache-2.0
/*
 * Algorithms of the NIC in the kernel.
 *
 *   cctest --object FILE --load    loads all programs of any object; a line of JSON for each
 *   cctest --object FILE [--native FILE --words N] [--parameters V,V,...] [--rates R,R,...] [--table FILE]
 *          [--repeat N] < events > decisions
 *
 * The second hands the events of a trace (cctrace.h) to cctest-NAME.bpf.o, one by one, by BPF_PROG_TEST_RUN.
 * With --native FILE the object is nic-NAME.bpf.o, of which only the maps are used; the algorithm is the one
 * in nic-NAME.native, with which the lab was booted. Decisions are printed as ccrun does. With --repeat each
 * event is handed over N times in a row, and its line is the time of one decision in ns: that of the program
 * less that of the same program without the decision. What the verifier says of a program that it refuses
 * goes to standard error. Needs CAP_BPF and CAP_NET_ADMIN.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cctest.h"
#include "cctrace.h"
#include "options.h"
#include "program.h"
#include "shim.h"
#include "stand_in.h"

#define LOG_STATS     4 /* levels of the verifier's log: its last line alone */
#define LOG_ALL       1
#define LOG_BYTES     (1 << 12)
#define LOG_ALL_BYTES (1 << 24)
#define LOG_LINES     3 /* last lines of a refusal: its reason, and what was spent of the budget */
#define PROGRAMS_MOST 16
#define REPEAT_MOST   100000000

struct programs {
	struct bpf_object *object;
	struct bpf_program *each[PROGRAMS_MOST];
	char *logs[PROGRAMS_MOST];
	int count;
};

struct options {
	const char *object, *native, *parameters, *rates, *table;
	uint64_t repeat, words;
	bool load;
};

static int fail(const char *what, const char *why)
{
	return program_fail(EXIT_USAGE, "%s: %s", what, why);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level, (void)format, (void)arguments;
	return 0;
}

static const char *last_lines(const char *log, int lines)
{
	const char *from = log + strlen(log);

	if (from > log)
		from--; /* the last line's own end */
	while (from > log && (from[-1] != '\n' || --lines))
		from--;
	return from;
}

static int open_programs(struct programs *programs, const char *path, int log_level)
{
	size_t log_bytes = log_level == LOG_ALL ? LOG_ALL_BYTES : LOG_BYTES;
	struct bpf_program *program;

	programs->object = bpf_object__open_file(path, NULL);
	if (!programs->object)
		return fail(path, strerror(errno));
	bpf_object__for_each_program(program, programs->object)
	{
		char *log = calloc(1, log_bytes);

		if (!log || programs->count == PROGRAMS_MOST) {
			free(log);
			return fail(path, "more programs than there is room for");
		}
		bpf_program__set_log_level(program, log_level);
		bpf_program__set_log_buf(program, log, log_bytes);
		programs->logs[programs->count] = log;
		programs->each[programs->count++] = program;
	}
	return 0;
}

static void close_programs(struct programs *programs)
{
	for (int i = 0; i < programs->count; i++)
		free(programs->logs[i]);
	bpf_object__close(programs->object);
}

/* Programs are tried in their order: the last one with a log is the one that was refused. */
static int refused(const struct programs *programs, const char *path, int err)
{
	int last = programs->count - 1;

	while (last > 0 && !*programs->logs[last])
		last--;
	fprintf(stderr, "%s: the kernel does not take it: %s\n", path, strerror(-err));
	if (last >= 0)
		fprintf(stderr, "%s: %s", bpf_program__name(programs->each[last]),
			last_lines(programs->logs[last], LOG_LINES));
	return 1;
}

/* Returns the number of instructions that the verifier went through, from its log's last line. */
static long looked_at(const char *log)
{
	const char *found = strstr(log, "processed ");

	return found ? atol(found + strlen("processed ")) : 0;
}

static int print_programs(const struct programs *programs)
{
	for (int i = 0; i < programs->count; i++) {
		struct bpf_prog_info info = { 0 };
		uint32_t length = sizeof(info);
		int err = bpf_obj_get_info_by_fd(bpf_program__fd(programs->each[i]), &info, &length);

		if (err)
			return fail(bpf_program__name(programs->each[i]), strerror(-err));
		printf("{\"program\": \"%s\", \"instructions\": %" PRIu32 ", \"machine_bytes\": %" PRIu32
		       ", \"verified\": %ld}\n",
		       bpf_program__name(programs->each[i]), info.xlated_prog_len / 8, info.jited_prog_len,
		       looked_at(programs->logs[i]));
	}
	return 0;
}

/* Words of parameters and of the table of rates. */
static int read_values(uint32_t *values, const struct options *o)
{
	if (o->parameters && *o->parameters && cctrace_numbers(o->parameters, values, CC_PARAMETERS_MAX) < 0)
		return fail("--parameters", "numbers with commas are needed");
	if (o->rates &&
	    cctrace_numbers(o->rates, values + CC_PARAMETERS_MAX, LAB_INT_RATES * CC_RATE_WORDS) < 0)
		return fail("--rates", "numbers with commas are needed, four a rate");
	return 0;
}

static int set_parameters(struct bpf_object *object, const struct options *o)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.parameter");
	uint32_t values[CC_SETTING_WORDS] = { 0 };
	int status = read_values(values, o);

	if (status)
		return status;
	if (!map || bpf_map__set_initial_value(map, values, sizeof(values)))
		return fail("--parameters",
			    "the object takes none; give one that cctest.bpf.c was made into");
	return 0;
}

static int set_settings(struct bpf_object *object, const struct options *o)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.settings");
	struct nic_settings settings = { 0 };
	uint32_t values[CC_SETTING_WORDS] = { 0 };
	int status = read_values(values, o);

	if (status)
		return status;
	memcpy((char *)&settings + offsetof(struct nic_settings, parameter), values, sizeof(values));
	if (!map || bpf_map__set_initial_value(map, &settings, sizeof(settings)))
		return fail("--object", "it has no settings; give one that shim.bpf.c was made into");
	return 0;
}

static int set_table(struct bpf_object *object, const char *path)
{
	static uint32_t words[CC_TABLE_WORDS];
	struct bpf_map *map = bpf_object__find_map_by_name(object, "table");
	uint32_t zero = 0;
	int err = cctrace_table(path, words);

	if (err)
		return fail(path, strerror(-err));
	if (!map)
		return fail("--table", "the object has none");
	err = bpf_map__update_elem(map, &zero, sizeof(zero), words, sizeof(words), BPF_ANY);
	return err ? fail(path, strerror(-err)) : 0;
}

/* Words of state that the object's algorithm uses. */
static uint32_t words_of(struct bpf_object *object)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.words");
	size_t bytes = 0;
	const uint32_t *value = map ? bpf_map__initial_value(map, &bytes) : NULL;

	return value && bytes == sizeof(*value) && *value <= CC_STATE_WORDS_MAX ? *value : 0;
}

/* Hands a program a packet of `bytes`, and takes it back: ns that one of `repeat` runs took, or -errno. */
static int run_once(int program, void *packet, uint32_t bytes, int repeat)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = bytes, .data_out = packet,
		    .data_size_out = bytes, .repeat = repeat);
	int err = bpf_prog_test_run_opts(program, &options);

	if (err)
		return err;
	return options.retval || options.data_size_out != bytes ? -EPROTO : (int)options.duration;
}

/* The same by nic_test of the NIC. */
static int run_native(int program, struct cctest_step *step, int repeat)
{
	struct nic_test test = { .event = step->event, .flow = step->flow };
	int took;

	if (step->event.flags & CC_NEW_FLOW)
		*step = (struct cctest_step){ .event = step->event,
					      .flow = step->flow,
					      .rate = CC_LINE_RATE };
	test.result = (struct cc_result){ .rate = step->rate,
					  .window_bytes = step->window_bytes,
					  .probe = step->probe };
	memcpy(test.state, step->state, sizeof(test.state));
	took = run_once(program, &test, sizeof(test), repeat);
	step->rate = test.result.rate;
	step->window_bytes = test.result.window_bytes;
	step->probe = test.result.probe;
	memcpy(step->state, test.state, sizeof(test.state));
	return took;
}

static void print_decision(const struct cctest_step *step, uint32_t words)
{
	printf("%" PRIu32 ",%" PRIu32 ",%" PRIu32, step->rate, step->window_bytes, step->probe);
	for (uint32_t word = 0; word < words; word++)
		printf(",%" PRIu32, step->state[word]);
	putchar('\n');
}

static int run_native_trace(struct bpf_object *object, const struct options *o,
			    const struct cctrace_step *steps, int count)
{
	struct cctest_step step = { .rate = CC_LINE_RATE };
	uint64_t id;
	int program, err = stand_in_id(o->native, &id);

	if (err)
		return fail(o->native, strerror(-err));
	program = stand_in_load(object, "nic_test", id);
	if (program < 0)
		return fail(o->native,
			    program == -ENOENT ? "this lab was booted without it" : strerror(-program));
	for (int i = 0; i < count; i++) {
		int took;

		step.event = steps[i].event;
		step.flow = steps[i].flow;
		took = run_native(program, &step, o->repeat ? (int)o->repeat : 1);
		if (took < 0)
			return fail("BPF_PROG_TEST_RUN", strerror(-took));
		if (o->repeat)
			printf("%d\n", took);
		else
			print_decision(&step, (uint32_t)o->words);
	}
	return 0;
}

static int run_trace(struct bpf_object *object, const struct cctrace_step *steps, int count, int repeat)
{
	const struct bpf_program *test = bpf_object__find_program_by_name(object, "nic_test");
	const struct bpf_program *null = bpf_object__find_program_by_name(object, "nic_null");
	struct cctest_step step = { .rate = CC_LINE_RATE };
	uint32_t words = words_of(object);

	if (!test || !null)
		return fail("nic_test", "no such program; give an object that cctest.bpf.c was made into");
	for (int i = 0; i < count; i++) {
		int took, idle = 0;

		step.event = steps[i].event;
		step.flow = steps[i].flow;
		took = run_once(bpf_program__fd(test), &step, sizeof(step), repeat ? repeat : 1);
		if (repeat && took >= 0)
			idle = run_once(bpf_program__fd(null), &step, sizeof(step), repeat);
		if (took < 0 || idle < 0)
			return fail("BPF_PROG_TEST_RUN", strerror(took < 0 ? -took : -idle));
		if (repeat)
			printf("%d\n", took > idle ? took - idle : 0);
		else
			print_decision(&step, words);
	}
	return 0;
}

static int read_and_run(struct bpf_object *object, const struct options *o)
{
	struct cctrace_step *steps = NULL;
	char message[64];
	int line_number, status, count = cctrace_read(stdin, &steps, &line_number);

	if (count < 0) {
		snprintf(message, sizeof(message), "line %d is not an event", line_number);
		status = fail("standard input", message);
	} else {
		status = o->native ? run_native_trace(object, o, steps, count)
				   : run_trace(object, steps, count, (int)o->repeat);
	}
	free(steps);
	return status;
}

/* The object, open and with its parameters; what bpf_object__load() says in *err. */
static int prepare(struct programs *programs, const char *path, const struct options *options, int level,
		   int *err)
{
	int status = open_programs(programs, path, level);

	if (!status && options->native) {
		stand_in_maps_only(programs->object);
		status = set_settings(programs->object, options);
	} else if (!status && options->parameters) {
		status = set_parameters(programs->object, options);
	}
	if (!status)
		*err = bpf_object__load(programs->object);
	return status;
}

/* A refusal is repeated with all that the verifier has to say: a large log is slow, and few need it. */
static int load_programs(struct programs *programs, const char *path, const struct options *options)
{
	int err = 0, status = prepare(programs, path, options, LOG_STATS, &err);

	if (status || !err)
		return status;
	close_programs(programs);
	memset(programs, 0, sizeof(*programs));
	status = prepare(programs, path, options, LOG_ALL, &err);
	return status ? status : refused(programs, path, err);
}

static int run(struct programs *programs, const struct options *options)
{
	int status = load_programs(programs, options->object, options);

	if (!status && options->table)
		status = set_table(programs->object, options->table);
	if (status)
		return status;
	return options->load ? print_programs(programs) : read_and_run(programs->object, options);
}

int main(int argc, char **argv)
{
	struct programs programs = { 0 };
	struct options o = { 0 };
	const struct program_option options[] = {
		{ "object", "FILE", "the programs, a BPF object", .text = &o.object, .required = true },
		{ "load", NULL, "load them and no more, and print a line of JSON for each", .flag = &o.load },
		{ "native", "FILE", "nic-NAME.native, whose algorithm runs on the maps of nic-NAME.bpf.o",
		  .text = &o.native },
		{ "words", "N", "with --native: words of the algorithm's state", .number = &o.words,
		  .max = CC_STATE_WORDS_MAX },
		{ "parameters", "V,V,...", "the algorithm's parameters", .text = &o.parameters },
		{ "rates", "R,R,...", "table of rates: time, sent and queue units and Mbit/s of each",
		  .text = &o.rates },
		{ "table", "FILE", "words of a policy", .text = &o.table },
		{ "repeat", "N", "hand each event over N times, and print the ns of a decision",
		  .number = &o.repeat, .max = REPEAT_MOST },
		{ 0 },
	};
	int status = options_read(argc, argv, options, "Reads events on standard input.\n");

	if (status)
		return status;
	libbpf_set_print(quiet);
	status = run(&programs, &o);
	close_programs(&programs);
	return status;
}
