// SPDX-License-Identifier: Apache-2.0
/* Files of agentd and hostd: see load.h. */
#include "load.h"

#include "program.h"

#include <errno.h>
#include <stdlib.h>

int load_hosts(struct hosts *out, const char *file, const struct ports *ports, struct fault *f)
{
	struct fault why;
	char *text;
	long len = program_read_file("--hosts", file, &text, f);
	int rc = len < 0 ? (int)len : 0;

	if (!rc && (rc = hosts_csv_parse(text, (size_t)len, ports, out, &why)))
		fault_say(f, rc, "--hosts: %.100s: %.400s", file, why.text);
	free(text);
	return rc;
}

int load_control(struct sockaddr_in **out, const char *file, const struct hosts *hosts, struct fault *f)
{
	struct fault why;
	char *text;
	long len = program_read_file("--control", file, &text, f);
	int rc = len < 0 ? (int)len : 0;

	*out = calloc(hosts->n, sizeof(**out));
	if (!rc && !*out)
		rc = fault_say(f, -ENOMEM, "--control: out of memory for %u hosts", hosts->n);
	else if (!rc && (rc = control_csv_parse(text, (size_t)len, hosts, *out, &why)))
		fault_say(f, rc, "--control: %.100s: %.400s", file, why.text);
	free(text);
	return rc;
}
