// SPDX-License-Identifier: Apache-2.0
/* The hosts file: what is read, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>

#include "hosts.h"
#include "record_bytes.h"

static const struct port port[] = {
	{ "s1-eth1", "-", "s1-eth1" },
	{ "h1-eth0", "/run/netns/h1", "h1-eth0" },
	{ "h2-eth0", "/run/netns/h2", "h2-eth0" },
};
static const struct ports ports = { .port = port, .n = 3 };
static const struct host good[] = {
	{ .row = 1, .line_bps = HOST_RATE_MAX, .floor_bps = 8, .burst_bytes = UINT32_MAX, .limit_bytes = 1 },
	{ .row = 2,
	  .line_bps = 10000000,
	  .floor_bps = 10000000,
	  .burst_bytes = 1514,
	  .limit_bytes = 400000,
	  .control_port = 20130 },
};

static int take(const struct host *host, uint64_t n, bool control, struct hosts *hosts, struct bytes *b,
		struct fault *f)
{
	*b = (struct bytes){ 0 };
	add_table(b, HOST_MAGIC, HOST_VERSION, sizeof(*host), host, n);
	*hosts = (struct hosts){ .file = file_of(*b) };
	return hosts_take(hosts, &ports, control, f);
}

static void reads_hosts(void **state)
{
	struct host host[] = { good[0], good[1] };
	struct hosts hosts;
	struct sockaddr_in at;
	struct bytes b;
	struct fault f;

	(void)state;
	host[1].control_addr = htonl(0xac100001);
	assert_int_equal(take(host, 2, false, &hosts, &b, &f), 0);
	assert_int_equal(hosts.n, 2);
	assert_int_equal(hosts.host[0].burst_bytes, UINT32_MAX);
	assert_string_equal(hosts_name(&hosts, 0), "h1-eth0");
	assert_string_equal(hosts_name(&hosts, 1), "h2-eth0");
	at = hosts_address(&hosts, 1);
	assert_int_equal(at.sin_family, AF_INET);
	assert_int_equal(ntohs(at.sin_port), 20130);
	assert_string_equal(inet_ntoa(at.sin_addr), "172.16.0.1");
	free(b.at);
}

static void refuse(struct host host, bool control, const char *words)
{
	const struct host all[] = { good[0], host };
	struct hosts hosts;
	struct bytes b;
	struct fault f;

	assert_int_equal(take(&all[control], 2 - control, control, &hosts, &b, &f), -EINVAL);
	if (!strstr(f.text, words))
		fail_msg("'%s' does not say '%s'", f.text, words);
	free(b.at);
}

#define WITH(field, value)                                                                                   \
	({                                                                                                   \
		struct host changed = good[1];                                                               \
		changed.field = value;                                                                       \
		changed;                                                                                     \
	})

static void refuses_mistakes(void **state)
{
	struct hosts hosts;
	struct bytes b;
	struct fault f;

	(void)state;
	refuse(WITH(row, 3), false, "host 1, row: 3 is not from 2 to 2: rows of the ports file, in order");
	refuse(WITH(row, 1), false, "host 1, row: 1 is not from 2 to 2");
	refuse(WITH(row, UINT32_MAX), false, "row: 4294967295");
	refuse(WITH(line_bps, 7), false, "line_bps: 7 is not from 8 to 10000000000000");
	refuse(WITH(line_bps, HOST_RATE_MAX + 1), false, "line_bps: 10000000000001");
	refuse(WITH(floor_bps, 10000001), false, "floor_bps: 10000001 is not from 8 to 10000000");
	refuse(WITH(floor_bps, 0), false, "floor_bps: 0");
	refuse(WITH(burst_bytes, 0), false, "burst_bytes: 0 is not from 1");
	refuse(WITH(limit_bytes, 0), false, "limit_bytes: 0 is not from 1");
	refuse(WITH(control_port, 0), true, "host 0, control_port: 0 is not from 1 to 65535");
	assert_int_equal(take(good, 0, false, &hosts, &b, &f), -EINVAL);
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_hosts),
		cmocka_unit_test(refuses_mistakes),
	};

	return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
