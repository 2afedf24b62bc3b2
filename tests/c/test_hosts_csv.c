// SPDX-License-Identifier: Apache-2.0
/* The hosts file: what is read, and what each mistake is told. */
#include "hosts_csv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "row,name,netns,ifname,line_bps,floor_bps,burst_bytes,limit_bytes\n"

static struct port port[] = {
	{ "s1-eth1", "-", "s1-eth1" },
	{ "h1-eth0", "/run/netns/h1", "h1-eth0" },
	{ "h2-eth0", "/run/netns/h2", "h2-eth0" },
};
static const struct ports ports = { port, 3 };

/* Parse from a block of exactly the text's size, so that a read past its end is seen. */
static int parse(const char *text, struct hosts *hosts, struct fault *f)
{
	size_t len = strlen(text);
	char *exact = malloc(len ? len : 1);
	int rc;

	assert_non_null(exact);
	memcpy(exact, text, len);
	rc = hosts_csv_parse(exact, len, &ports, hosts, f);
	free(exact);
	return rc;
}

static void reads_hosts_in_their_order(void **state)
{
	struct hosts h;
	struct fault f;

	(void)state;
	assert_int_equal(parse(HEADER "2,h2,/run/netns/h2,h2-eth0,10000000,10000,1514,400000\r\n"
				      "1,h1,/run/netns/h1,h1-eth0,10000000000000,8,4294967295,1",
			       &h, &f),
			 0);
	assert_int_equal(h.n, 2);
	assert_int_equal(h.host[0].row, 2);
	assert_string_equal(h.host[0].name, "h2");
	assert_int_equal(h.host[0].line_bps, 10000000);
	assert_int_equal(h.host[0].floor_bps, 10000);
	assert_int_equal(h.host[0].burst_bytes, 1514);
	assert_int_equal(h.host[0].limit_bytes, 400000);
	assert_int_equal(h.host[1].row, 1);
	assert_int_equal(h.host[1].line_bps, HOST_RATE_MAX);
	assert_int_equal(h.host[1].burst_bytes, UINT32_MAX);
	hosts_free(&h);
	hosts_free(&h);
}

static void refuses(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "line 1: not the header" },
		{ "row,name,netns,ifname\n", "line 1: not the header" },
		{ HEADER, "no hosts" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,10,1\n", "line 2: 7 fields" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,10,1,1,1\n", "line 2: 9 fields" },
		{ HEADER "3,h1,/run/netns/h1,h1-eth0,10,10,1,1\n",
		  "line 2, row: '3' is not a whole number from 0 to 2" },
		{ HEADER "-1,h1,/run/netns/h1,h1-eth0,10,10,1,1\n", "row: '-1'" },
		{ HEADER "1, h1,/run/netns/h1,h1-eth0,10,10,1,1\n", "line 2, name: empty, or with spaces" },
		{ HEADER "2,h1,/run/netns/h1,h1-eth0,10,10,1,1\n",
		  "line 2, row: 2 is h2-eth0 in netns '/run/netns/h2'" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,7,7,1,1\n",
		  "line_bps: '7' is not a whole number from 8 " },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10000000000001,8,1,1\n", "line_bps: '10000000000001'" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,1e6,8,1,1\n", "line_bps: '1e6'" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,99999999999999999999999,8,1,1\n", "line_bps: '999" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,11,1,1\n",
		  "floor_bps: 11 is more than line_bps, 10" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,10,0,1\n", "burst_bytes: '0'" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,10,1,4294967296\n", "limit_bytes: '4294967296'" },
		{ HEADER "1,h1,/run/netns/h1,h1-eth0,10,10,1,\n", "limit_bytes: ''" },
		{ HEADER "1,a,/run/netns/h1,h1-eth0,10,10,1,1\n1,b,/run/netns/h1,h1-eth0,10,10,1,1\n",
		  "line 3, row: 1 stands above" },
	};
	struct hosts h;
	struct fault f;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text, &h, &f), -EINVAL);
		assert_null(h.host);
		if (!strstr(f.text, cases[i].words))
			fail_msg("'%s' does not say '%s'", f.text, cases[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_hosts_in_their_order),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests_name("hosts_csv", tests, NULL, NULL);
}
