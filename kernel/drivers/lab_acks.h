/* SPDX-License-Identifier: GPL-2.0-only */
/* The record of ACKs (lab_acks.c). */
#ifndef LAB_ACKS_H
#define LAB_ACKS_H

#include <net/tcp.h>

int lab_acks_choose(struct tcp_sock *tp, int value); /* the option TCP_LAB_ACKS */

#endif
