/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enforcement: the rate of every host's token bucket filter, set over netlink and read back by the sweeps.
 *
 * A change repeats burst and limit, since the kernel takes all parameters anew. It is carried out when the
 * call returns; that it was refused is told by the next sweep, which also reads what is enforced. No host is
 * ever told more than its line rate or less than its floor. The kernel counts whole bytes a second.
 */
#ifndef RATES_H
#define RATES_H

#include "fault.h"
#include "hosts.h"
#include "sweeper.h"

#include <stdbool.h>
#include <stdint.h>

struct rates {
	const struct hosts *hosts;
	const struct sweeper *sweeper;
	struct tbf_request *requests; /* of each host, whole but for the rate */
	struct nl_sock **socks;
	struct batch batch;
	uint64_t *byteps;  /* that each was told last */
	uint32_t *planned; /* host of each operation in the batch */
};

/*
 * Prepare requests for the hosts' egresses, each of which must have a token bucket filter as its root qdisc.
 * `stock` leaves out the attribute with which the lab's kernel keeps the tokens earned so far.
 */
int rates_open(struct rates *r, const struct hosts *hosts, const struct sweeper *sweeper, bool stock,
	       struct fault *f);
void rates_close(struct rates *r);

/* Tell the kernel the rates that differ from the last ones. */
int rates_apply(struct rates *r, const uint64_t *wanted_bps, struct fault *f);

/* Tell the kernel every host's line rate. */
int rates_reset(struct rates *r, struct fault *f);

/* Tell the kernel one host's rate, whatever it was, and wait for its answer. */
int rates_set(struct rates *r, uint32_t i, uint64_t wanted_bps, struct fault *f);

/* What the kernel enforced at the last sweep; 0: nothing. */
uint64_t rates_enforced_bps(const struct rates *r, uint32_t i);

#endif
