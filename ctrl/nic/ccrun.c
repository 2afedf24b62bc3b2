// SPDX-License-Identifier: Apache-2.0
/*
 * An algorithm of the NIC alone, in userspace: ccrun-NAME is this file and one header of algorithms/X/.
 *
 *   ccrun-NAME --describe                 what it is, as JSON
 *   ccrun-NAME [--parameters V,V,...] [--rates R,R,...] [--table FILE] [--repeat N] < events > decisions
 *
 * Events are those of cctrace.h. A decision is rate, window_bytes, probe and the words of the state after it.
 * An event with the flag CC_NEW_FLOW begins another flow. Events that the algorithm does not want leave all
 * as it was. --repeat goes through the trace so often and prints the time of one decision in ns instead.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include CC_ALGORITHM

#include "cctrace.h"
#include "options.h"
#include "program.h"

#ifndef CC_HELP
#define CC_HELP ""
#endif
#ifdef CC_TABLE
#define TABLE_WANTED true
#else
#define TABLE_WANTED false
#endif
#ifdef CC_TELEMETRY
#define TELEMETRY_WANTED true
#else
#define TELEMETRY_WANTED false
#endif
#ifdef CC_SPRAYED
#define SPRAYED_WANTED true
#else
#define SPRAYED_WANTED false
#endif

_Static_assert(CC_STATE_WORDS <= CC_STATE_WORDS_MAX, "more words of state than the NIC keeps");
#define EVENTS (CC_MASK(CC_CNP) | CC_MASK(CC_TX) | CC_MASK(CC_ACK) | CC_MASK(CC_NACK) | CC_MASK(CC_RTT))
_Static_assert((CC_EVENTS) && !((CC_EVENTS) & ~EVENTS),
	       "CC_EVENTS has to name events of cc.h, and no others");

struct parameter {
	const char *name, *unit;
	uint32_t initial, least, greatest;
	const char *source, *help;
};

#define PARAMETER(name, ...) { #name, __VA_ARGS__ },
static const struct parameter parameters[] = { CC_PARAMETERS(PARAMETER){ 0 } };
#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]) - 1)
_Static_assert(PARAMETERS <= CC_PARAMETERS_MAX, "more parameters than the NIC keeps");

struct set {
	const char *parameter;
	uint32_t value;
};

struct preset {
	const char *name, *help;
	struct set sets[CC_PARAMETERS_MAX + 2]; /* all parameters, a setting of the NIC, an end */
};

#define CC_SET(parameter, value) { #parameter, value },
#define CC_NIC(setting, value)   { "nic." #setting, value },
#define PRESET(name, help, ...)  { #name, help, { __VA_ARGS__ } },
static const struct preset presets[] = { CC_PRESETS(PRESET){ 0 } };

static const char *const event_names[] = {
	[CC_CNP] = "cnp", [CC_TX] = "tx", [CC_ACK] = "ack", [CC_NACK] = "nack", [CC_RTT] = "rtt",
};
#define EVENT_NAMES (sizeof(event_names) / sizeof(event_names[0]))

struct runner {
	uint32_t *state, *parameter, *table;
	struct cc_result result;
};

static void describe_parameter(const struct parameter *each)
{
	printf("  {\"name\": \"%s\", \"unit\": \"%s\", \"default\": %" PRIu32 ", \"least\": %" PRIu32
	       ", \"greatest\": %" PRIu32 ", \"source\": \"%s\", \"help\": \"%s\"}",
	       each->name, each->unit, each->initial, each->least, each->greatest, each->source, each->help);
}

static void describe_preset(const struct preset *each)
{
	printf("  \"%s\": {\"help\": \"%s\", \"values\": {", each->name, each->help);
	for (const struct set *set = each->sets; set->parameter; set++)
		printf("%s\"%s\": %" PRIu32, set == each->sets ? "" : ", ", set->parameter, set->value);
	printf("}}");
}

/* The texts of a header are its author's: none has a quotation mark or a backslash, or the JSON says so. */
static void describe(void)
{
	const char *separator = "";

	printf("{\"name\": \"%s\", \"help\": \"%s\",\n \"events\": [", CC_NAME, CC_HELP);
	for (uint32_t type = 0; type < EVENT_NAMES; type++) {
		if (!event_names[type] || !(CC_EVENTS & CC_MASK(type)))
			continue;
		printf("%s\"%s\"", separator, event_names[type]);
		separator = ", ";
	}
	printf("],\n \"state_words\": %d, \"fits\": %s, \"table\": %s, \"telemetry\": %s, \"sprayed\": %s,\n "
	       "\"parameters\": [",
	       CC_STATE_WORDS, CC_STATE_WORDS <= CC_CONTEXT_WORDS ? "true" : "false",
	       TABLE_WANTED ? "true" : "false", TELEMETRY_WANTED ? "true" : "false",
	       SPRAYED_WANTED ? "true" : "false");
	for (const struct parameter *each = parameters; each->name; each++) {
		puts(each == parameters ? "" : ",");
		describe_parameter(each);
	}
	printf("],\n \"presets\": {");
	for (const struct preset *each = presets; each->name; each++) {
		puts(each == presets ? "" : ",");
		describe_preset(each);
	}
	puts("}}");
}

static void decide(struct runner *runner, const struct cctrace_step *step)
{
	if (step->event.flags & CC_NEW_FLOW) {
		memset(runner->state, 0, CC_STATE_WORDS * sizeof(*runner->state));
		runner->result = (struct cc_result){ .rate = CC_LINE_RATE };
	}
	if (step->event.type >= 32 || !(CC_EVENTS & CC_MASK(step->event.type)))
		return;
	cc_on_event(runner->state, &step->event, &step->flow, runner->parameter,
		    TABLE_WANTED ? runner->table : NULL, &runner->result);
	runner->result.rate = cc_clamp(runner->result.rate);
}

static void print_decision(const struct runner *runner)
{
	printf("%" PRIu32 ",%" PRIu32 ",%d", runner->result.rate, runner->result.window_bytes,
	       runner->result.probe);
	for (int word = 0; word < CC_STATE_WORDS; word++)
		printf(",%" PRIu32, runner->state[word]);
	putchar('\n');
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void time_decisions(struct runner *runner, const struct cctrace_step *steps, int count, long repeat)
{
	uint64_t start_ns = monotonic_ns();
	volatile uint32_t kept = 0; /* so that no decision is left out */

	for (long round = 0; round < repeat; round++) {
		for (int i = 0; i < count; i++) {
			decide(runner, &steps[i]);
			kept = kept ^ runner->result.rate;
		}
	}
	printf("%.3f\n", (double)(monotonic_ns() - start_ns) / (count ? (double)count * repeat : 1));
}

static int fail(const char *what, const char *value)
{
	return program_fail(EXIT_USAGE, "%s: %s", what, value);
}

static int set_parameters(struct runner *runner, const char *text)
{
	uint32_t values[PARAMETERS + 1];
	char message[128];

	if (cctrace_numbers(text, values, PARAMETERS + 1) != (int)PARAMETERS) {
		snprintf(message, sizeof(message), "%zu numbers with commas are needed", PARAMETERS);
		return fail("--parameters", message);
	}
	for (size_t i = 0; parameters[i].name; i++) {
		if (values[i] < parameters[i].least || values[i] > parameters[i].greatest) {
			snprintf(message, sizeof(message), "%" PRIu32 " is not within %" PRIu32 "..%" PRIu32,
				 values[i], parameters[i].least, parameters[i].greatest);
			return fail(parameters[i].name, message);
		}
		runner->parameter[i] = values[i];
	}
	return 0;
}

static int set_rates(struct runner *runner, const char *text)
{
	int count =
		cctrace_numbers(text, runner->parameter + CC_PARAMETERS_MAX, LAB_INT_RATES * CC_RATE_WORDS);

	if (count < 0 || count % CC_RATE_WORDS)
		return fail("--rates", "numbers with commas are needed, four a rate");
	return 0;
}

static int read_table(struct runner *runner, const char *path)
{
	int err = cctrace_table(path, runner->table);

	if (err == -EINVAL)
		return fail(path, "not a table: whole words of 4 bytes, as many as the NIC has room for");
	return err ? fail(path, strerror(-err)) : 0;
}

static int run_trace(struct runner *runner, long repeat)
{
	struct cctrace_step *steps = NULL;
	char message[128];
	int line_number, count = cctrace_read(stdin, &steps, &line_number), status = 0;

	if (count < 0) {
		snprintf(message, sizeof(message), "line %d: %s", line_number,
			 count == -EINVAL
				 ? "not an event: 14 numbers with commas are needed, or 22 with telemetry"
				 : strerror(-count));
		status = fail("standard input", message);
	} else if (repeat) {
		time_decisions(runner, steps, count, repeat);
	} else {
		for (int i = 0; i < count; i++) {
			decide(runner, &steps[i]);
			print_decision(runner);
		}
	}
	free(steps);
	return status;
}

int main(int argc, char **argv)
{
	/* What an algorithm may reach has the size that it states, so that ASan sees what is beyond. */
	static uint32_t state[CC_STATE_WORDS + !CC_STATE_WORDS], words[CC_TABLE_WORDS];
	static uint32_t parameter[TELEMETRY_WANTED ? CC_SETTING_WORDS : PARAMETERS + !PARAMETERS];
	struct runner runner = {
		.state = state, .parameter = parameter, .table = words, .result.rate = CC_LINE_RATE
	};
	const char *values = NULL, *rates = NULL, *table = NULL;
	bool described = false;
	uint64_t repeat = 0;
	const struct program_option options[] = {
		{ "describe", NULL, "print what the algorithm is, as JSON, and no more", .flag = &described },
		{ "parameters", "V,V,...", "all its parameters", .text = &values },
#ifdef CC_TELEMETRY
		{ "rates", "R,R,...", "table of rates: time, sent and queue units and Mbit/s of each",
		  .text = &rates },
#endif
#ifdef CC_TABLE
		{ "table", "FILE", "words of a policy", .text = &table },
#endif
		{ "repeat", "N", "go through the events N times, and print the ns of a decision",
		  .number = &repeat, .min = 1, .max = LONG_MAX },
		{ 0 },
	};
	int status = options_read(argc, argv, options, "Reads events on standard input.\n");

	if (!status && described) {
		describe();
		return 0;
	}
	for (size_t i = 0; parameters[i].name; i++)
		runner.parameter[i] = parameters[i].initial;
	if (!status && values)
		status = set_parameters(&runner, values);
	if (!status && rates)
		status = set_rates(&runner, rates);
	if (!status && table)
		status = read_table(&runner, table);
	return status ? status : run_trace(&runner, (long)repeat);
}
