/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams at a rate. Nobody acknowledges them: a flow is done when its last datagram is handed to the
 * socket, and what arrives is counted apart. A full socket holds the application up, which then catches up
 * with its rate. A receiver is not woken for each datagram: its socket is emptied by a timer, some datagrams
 * at a time.
 */
#ifndef TGEN_UDP_H
#define TGEN_UDP_H

#include "tgen_run.h"

#include <stdint.h>

int udp_start(struct run *run, uint32_t number);
int udp_offer(struct run *run, uint32_t number, int64_t at);
int udp_on_sender(struct run *run, uint32_t number, uint32_t events);
int udp_drain(struct run *run, uint32_t listener, int64_t at);
int udp_take(struct run *run); /* counts what has arrived at every sink */

#endif
