/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: the last counts and the logs, or neither. */
#ifndef TGEN_END_H
#define TGEN_END_H

#include "tgen_run.h"

int end_settle(struct run *run); /* the last counts, all of one instant */
int end_finish(struct run *run); /* the logs */
void end_abort(struct run *run); /* instead of the above: no log, and nothing that the sockets hold is sent */

#endif
