/* SPDX-License-Identifier: Apache-2.0 */
/* What is open before the traffic starts: namespaces, NICs and sockets; and a frame over each path. */
#ifndef TGEN_SETUP_H
#define TGEN_SETUP_H

#include "tgen_run.h"

int setup_sockets(struct run *run);
int setup_warm(struct run *run);

#endif
