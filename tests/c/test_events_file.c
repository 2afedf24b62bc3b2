// SPDX-License-Identifier: Apache-2.0
/* The events file: what is read, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "events_file.h"
#include "record_bytes.h"

#define N_CHANGES   3
#define REQUEST_LEN 36
#define SHORT_LEN   24

static const struct port two_ports[] = {
	{ "s1-eth1", "-", "s1-eth1", 0, 0 },
	{ "h1-eth0", "/run/netns/h1", "h1-eth0", 0, 0 },
};
static const struct ports some_ports = { .port = two_ports, .n = 2 };

struct events_bytes {
	struct event_change change[N_CHANGES];
	unsigned char bytes[REQUEST_LEN + SHORT_LEN];
};

/* Both ends of a link at one time, then a request of a generic family. Each request begins with its length.
 */
static const struct events_bytes good = {
	.change = {
		{ .at_ns = 5, .row = 0, .tag = 0, .set_len = REQUEST_LEN, .get_len = REQUEST_LEN },
		{ .at_ns = 5, .row = 1, .tag = 1, .set_len = REQUEST_LEN, .get_len = REQUEST_LEN },
		{ .at_ns = 9, .tag = 7, .set_start = REQUEST_LEN, .set_len = SHORT_LEN, .generic = 1 },
	},
	.bytes = { [0] = REQUEST_LEN, [REQUEST_LEN] = SHORT_LEN },
};

static int take(const struct events_bytes *made, struct events *events, struct bytes *b, struct fault *f)
{
	*b = (struct bytes){ 0 };
	add_table(b, EVENT_MAGIC, EVENT_VERSION, sizeof(made->change[0]), made->change, N_CHANGES);
	add_table(b, EVENT_BYTES_MAGIC, EVENT_VERSION, 1, made->bytes, sizeof(made->bytes));
	*events = (struct events){ .file = file_of(*b) };
	return events_take(events, &some_ports, f);
}

static void reads_changes(void **state)
{
	struct events e;
	struct bytes b;
	struct fault f;

	(void)state;
	assert_int_equal(take(&good, &e, &b, &f), 0);
	assert_int_equal(e.n, N_CHANGES);
	assert_int_equal(e.n_bytes, sizeof(good.bytes));
	assert_int_equal(e.change[1].row, 1);
	assert_int_equal(e.change[2].tag, 7);
	free(b.at);
}

static void refuse(const struct events_bytes *made, const char *words)
{
	struct events e;
	struct bytes b;
	struct fault f;

	assert_int_equal(take(made, &e, &b, &f), -EINVAL);
	assert_non_null(strstr(f.text, words));
	free(b.at);
}

static void refuses_mistakes(void **state)
{
	struct events_bytes made;

	(void)state;
	made = good;
	made.change[2].at_ns = 4;
	refuse(&made, "event 2, at_ns");
	made = good;
	made.change[0].row = 2;
	refuse(&made, "event 0, row: 2 is not from 0 to 1");
	made = good;
	made.change[1].generic = 2;
	refuse(&made, "event 1, generic");
	made = good;
	made.change[0].set_start = sizeof(made.bytes);
	refuse(&made, "event 0, set: 36 bytes from 60 on are no request in 60 bytes");
	made = good;
	made.change[0].set_len = SHORT_LEN; /* too short for a device's */
	refuse(&made, "event 0, set: 24 bytes");
	made = good;
	made.change[0].get_start = REQUEST_LEN - 4;
	made.change[0].get_len = 28;
	refuse(&made, "event 0, get: 28 bytes");
	made = good;
	made.bytes[0] = REQUEST_LEN + 4;
	refuse(&made, "event 0, set: its length is 40 instead of 36");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_changes),
		cmocka_unit_test(refuses_mistakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
