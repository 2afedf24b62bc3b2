// SPDX-License-Identifier: Apache-2.0
/* The ports file: what is read, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "ports.h"
#include "record_bytes.h"

static const struct port good[] = {
	{ "s1-eth1", "-", "s1-eth1", 0, 0 },
	{ "1234567890123456789012345678901", "/run/netns/h1", "123456789012345", 3, 0 },
};

static int take(const struct port *port, uint64_t n, struct ports *ports, struct bytes *b, struct fault *f)
{
	*b = (struct bytes){ 0 };
	add_table(b, PORT_MAGIC, PORT_VERSION, sizeof(*port), port, n);
	*ports = (struct ports){ .file = file_of(*b) };
	return ports_take(ports, f);
}

static void reads_ports(void **state)
{
	struct ports ports;
	struct bytes b;
	struct fault f;

	(void)state;
	assert_int_equal(take(good, 2, &ports, &b, &f), 0);
	assert_int_equal(ports.n, 2);
	assert_string_equal(ports.port[0].netns, "-");
	assert_string_equal(ports.port[1].netns, "/run/netns/h1");
	assert_string_equal(ports.port[1].ifname, "123456789012345");
	assert_int_equal(ports.port[0].class, 0);
	assert_int_equal(ports.port[1].class, 3);
	free(b.at);
}

static void refuse(struct port port, const char *words)
{
	const struct port all[] = { good[0], port };
	struct ports ports;
	struct bytes b;
	struct fault f;

	assert_int_equal(take(all, 2, &ports, &b, &f), -EINVAL);
	if (!strstr(f.text, words))
		fail_msg("'%s' does not say '%s'", f.text, words);
	free(b.at);
}

static void refuses_mistakes(void **state)
{
	struct port endless = good[1];
	struct ports ports;
	struct bytes b;
	struct fault f;

	(void)state;
	refuse((struct port){ "", "-", "a", 0, 0 }, "port 1, name: empty");
	refuse((struct port){ "a", "", "a", 0, 0 }, "port 1, netns: empty");
	refuse((struct port){ "a", "-", "a b", 0, 0 }, "port 1, ifname: empty, or with blanks");
	memset(endless.netns, '/', sizeof(endless.netns));
	refuse(endless, "port 1, netns: no end within its 256 bytes");
	endless = good[1];
	endless.ifname[15] = 'x';
	refuse(endless, "port 1, ifname: no end within its 16 bytes");
	assert_int_equal(take(good, 0, &ports, &b, &f), -EINVAL);
	assert_non_null(strstr(f.text, "0 records; give 1 to 65536"));
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_ports),
		cmocka_unit_test(refuses_mistakes),
	};

	return cmocka_run_group_tests_name("ports", tests, NULL, NULL);
}
