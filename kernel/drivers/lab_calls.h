/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LAB_CALLS_H
#define LAB_CALLS_H

#include <linux/lab.h>

long lab_calls(struct lab_calls __user *argument);

#endif
