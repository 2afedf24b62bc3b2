// SPDX-License-Identifier: Apache-2.0
/* The ports file: what is read, and what each mistake is told. */
#include "ports_csv.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "row,name,netns,ifname\n"

/* Parse from a block of exactly the text's size, so that a read past its end is seen. */
static int parse(const char *text, struct ports *ports, struct fault *err)
{
	size_t len = strlen(text);
	char *exact = malloc(len ? len : 1);
	int rc;

	assert_non_null(exact);
	memcpy(exact, text, len);
	rc = ports_csv_parse(exact, len, ports, err);
	free(exact);
	return rc;
}

static void expect_refusal(const char *text, const char *words)
{
	struct ports ports;
	struct fault err;

	assert_int_equal(parse(text, &ports, &err), -EINVAL);
	assert_null(ports.port);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

static void reads_ports(void **state)
{
	struct ports ports;
	struct fault err;

	(void)state;
	assert_int_equal(parse(HEADER "0,s1-eth1,-,s1-eth1\n1,h1-eth0,/run/netns/h1,h1-eth0\n", &ports, &err),
			 0);
	assert_int_equal(ports.n, 2);
	assert_string_equal(ports.port[0].netns, "-");
	assert_string_equal(ports.port[1].name, "h1-eth0");
	assert_string_equal(ports.port[1].netns, "/run/netns/h1");
	assert_string_equal(ports.port[1].ifname, "h1-eth0");
	ports_free(&ports);
	ports_free(&ports);
}

static void reads_other_line_ends(void **state)
{
	struct ports ports;
	struct fault err;

	(void)state;
	assert_int_equal(parse("row,name,netns,ifname\r\n0,a,-,a\r\n1,b,-,b", &ports, &err), 0);
	assert_int_equal(ports.n, 2);
	assert_string_equal(ports.port[0].ifname, "a");
	assert_string_equal(ports.port[1].ifname, "b");
	ports_free(&ports);
}

static void reads_longest_fields(void **state)
{
	struct ports ports;
	struct fault err;

	(void)state;
	assert_int_equal(parse(HEADER "0,1234567890123456789012345678901,-,123456789012345\n", &ports, &err),
			 0);
	assert_int_equal(strlen(ports.port[0].name), SM_NAME_LEN - 1);
	assert_int_equal(strlen(ports.port[0].ifname), PORT_IFNAME_LEN - 1);
	ports_free(&ports);
}

static void refuses_mistakes(void **state)
{
	(void)state;
	expect_refusal("", "line 1: not the header");
	expect_refusal("row,name,netns\n0,a,-,a\n", "line 1: not the header");
	expect_refusal(HEADER, "no ports");
	expect_refusal(HEADER "0,a,-\n", "line 2: 3 fields");
	expect_refusal(HEADER "0,a,-,a,b\n", "line 2: 5 fields");
	expect_refusal(HEADER "0,a,-,a\n\n", "line 3: 1 fields");
	expect_refusal(HEADER "1,a,-,a\n", "line 2, row: '1' is not 0");
	expect_refusal(HEADER "0,a,-,a\n2,b,-,b\n", "line 3, row: '2' is not 1");
	expect_refusal(HEADER "00,a,-,a\n", "row: '00' is not 0");
	expect_refusal(HEADER "0,,-,a\n", "line 2, name: empty");
	expect_refusal(HEADER "0,a b,-,a\n", "line 2, name: empty, or with spaces");
	expect_refusal(HEADER "0,\"a\",-,a\n", "line 2, name: empty, or with spaces, quotes");
	expect_refusal(HEADER "0,a,,a\n", "line 2, netns: empty");
	expect_refusal(HEADER "0,a,-,1234567890123456\n",
		       "ifname: '1234567890123456' has 16 characters; give at most 15");
	expect_refusal(HEADER "0,12345678901234567890123456789012,-,a\n", "give at most 31");
}

static void refuses_twins(void **state)
{
	struct ports ports;
	struct fault err;

	(void)state;
	expect_refusal(HEADER "0,a,-,a\n1,b,-,b\n2,a,-,c\n", "name: both are 'a'");
	expect_refusal(HEADER "0,a,-,x\n1,b,-,x\n", "ifname: both are 'x'");
	/* one name in two namespaces is two interfaces */
	assert_int_equal(parse(HEADER "0,a,/n1,eth0\n1,b,/n2,eth0\n", &ports, &err), 0);
	ports_free(&ports);
}

static void refuses_too_many(void **state)
{
	size_t size = 64 * (SM_MAX_ROWS + 2), at = 0;
	char *text = malloc(size);

	(void)state;
	assert_non_null(text);
	at += (size_t)snprintf(text, size, HEADER);
	for (int i = 0; i <= SM_MAX_ROWS; i++)
		at += (size_t)snprintf(text + at, size - at, "%d,p%d,-,i%d\n", i, i, i);
	expect_refusal(text, "more than 65536 ports");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_ports),          cmocka_unit_test(reads_other_line_ends),
		cmocka_unit_test(reads_longest_fields), cmocka_unit_test(refuses_mistakes),
		cmocka_unit_test(refuses_twins),        cmocka_unit_test(refuses_too_many),
	};

	return cmocka_run_group_tests_name("ports_csv", tests, NULL, NULL);
}
