/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A device file for DOCA PCC as it is, for ccrun: what `dcgym nic import` made of it is compared with this.
 * PCC_FILE is the file, PCC_ROWS its parameters' rows without their texts.
 */
#define PCC_SLOT 0
#include "doca/pcc.h"

static doca_pcc_dev_event_t *pcc_here; /* where the import has a parameter */

#define describe file_describe /* ccrun.c has the name, too */
#include PCC_FILE
#undef describe

#define CC_NAME          "untouched"
#define CC_EVENTS        (CC_MASK(CC_CNP) | CC_MASK(CC_TX) | CC_MASK(CC_NACK) | CC_MASK(CC_RTT))
#define CC_STATE_WORDS   CC_CONTEXT_WORDS
#define CC_PARAMETERS(X) PCC_ROWS(X)
#define CC_PRESETS(X)

#define DIRECT(here, ...) (pcc_here = (here), doca_pcc_dev_user_algo(__VA_ARGS__))
PCC_ON_EVENT(DIRECT)
