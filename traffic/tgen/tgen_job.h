/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the jobs of a run: computes, and posts messages. */
#ifndef TGEN_JOB_H
#define TGEN_JOB_H

#include "tgen_run.h"

#include <stdint.h>

int job_plan(struct run *run); /* marks the connections, and plans the starts */
int job_on_timer(struct run *run, uint32_t node, int64_t at);
int job_go_on(struct run *run); /* begins what has become ready, at that instant */
int job_log(struct run *run);

#endif
