/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fault is a message for the user: what was tried, which value was wrong, what to do. A function that takes
 * one fills it in whenever it fails. It returns -EINVAL if the user must mend the input, and another error if
 * something could not be done.
 */
#ifndef FAULT_H
#define FAULT_H

struct fault {
	char text[512];
};

/* Fill in; returns rc, for the caller to pass on. */
__attribute__((format(printf, 3, 4))) int fault_say(struct fault *f, int rc, const char *fmt, ...);

#endif
