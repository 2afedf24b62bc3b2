/* SPDX-License-Identifier: GPL-2.0-only */
/* Hooks of the lab in arch/um and drivers/char/random.c. */
#ifndef _LAB_PAGE_H
#define _LAB_PAGE_H

#include <linux/lab.h>

/* Never NULL: static until the channel has a page that the host can see. */
extern struct lab_page *lab_page;

/* From now on all randomness is the ChaCha20 stream of this key; no entropy is collected any more. */
void lab_random_fix(const u8 key[32]);

#endif
