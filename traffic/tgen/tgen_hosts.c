/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int hosts_init(struct hosts *hosts, uint32_t count)
{
	*hosts = (struct hosts){ .count = count, .entered = UINT32_MAX };
	hosts->limits = calloc(count + 1, sizeof(*hosts->limits));
	hosts->namespaces = malloc((count + 1) * sizeof(*hosts->namespaces));
	if (!hosts->limits || !hosts->namespaces)
		return -ENOMEM;
	memset(hosts->namespaces, 0xff, (count + 1) * sizeof(*hosts->namespaces));
	return 0;
}

int hosts_open(struct hosts *hosts, const struct flow_table *table, uint32_t *failed)
{
	for (uint32_t i = 0; i < hosts->count; i++) {
		*failed = i;
		hosts->namespaces[i] = open(table->netns[i].path, O_RDONLY | O_CLOEXEC);
		if (hosts->namespaces[i] < 0)
			return -errno;
	}
	return 0;
}

void hosts_plan_enter(struct hosts *hosts, struct calls *calls, uint32_t ns)
{
	if (hosts->entered == ns)
		return;
	calls_add(calls, "setns", SYS_setns, (__u64[6]){ (__u64)hosts->namespaces[ns], CLONE_NEWNET });
	hosts->entered = ns;
}

int hosts_enter(struct hosts *hosts, uint32_t ns)
{
	if (hosts->entered == ns)
		return 0;
	if (setns(hosts->namespaces[ns], CLONE_NEWNET) < 0)
		return -errno;
	hosts->entered = ns;
	return 0;
}

void hosts_close(struct hosts *hosts)
{
	for (uint32_t i = 0; hosts->namespaces && i < hosts->count; i++)
		if (hosts->namespaces[i] >= 0)
			close(hosts->namespaces[i]);
	free(hosts->namespaces);
	free(hosts->limits);
	hosts->namespaces = NULL;
	hosts->limits = NULL;
}
