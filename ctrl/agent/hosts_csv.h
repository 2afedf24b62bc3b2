/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts file: which host egresses carry a token bucket filter that an agent sets, in the order of its
 * actions. CSV, header `row,name,netns,ifname,line_bps,floor_bps,burst_bytes,limit_bytes`; row is the port's
 * in the ports file.
 */
#ifndef HOSTS_CSV_H
#define HOSTS_CSV_H

#include "fault.h"
#include "ports_csv.h"

#include <stddef.h>
#include <stdint.h>

#define HOST_RATE_MIN 8ULL              /* bit/s: the kernel counts whole bytes a second */
#define HOST_RATE_MAX 10000000000000ULL /* the fastest cable's */

struct host {
	uint32_t row;
	char name[SM_NAME_LEN];
	uint64_t line_bps, floor_bps; /* greatest and least rate */
	uint32_t burst_bytes, limit_bytes;
};

struct hosts {
	struct host *host;
	uint32_t n;
};

/*
 * Parse a whole file in memory and compare it with the ports: 0, -ENOMEM or -EINVAL. On success the caller
 * releases with hosts_free(); on failure there is nothing to release.
 */
int hosts_csv_parse(const char *buf, size_t len, const struct ports *ports, struct hosts *out,
		    struct fault *f);
void hosts_free(struct hosts *h);

#endif
