/* SPDX-License-Identifier: Apache-2.0 */
/* The files of agentd and hostd, read and parsed: 0, or -errno and *f, which names option and file. */
#ifndef LOAD_H
#define LOAD_H

#include "control.h"
#include "fault.h"
#include "hosts_csv.h"

int load_hosts(struct hosts *out, const char *file, const struct ports *ports, struct fault *f);

/* The addresses of all hosts; the caller frees *out in any case. */
int load_control(struct sockaddr_in **out, const char *file, const struct hosts *hosts, struct fault *f);

#endif
