/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, in words for the user: where, which value, what to do. A function that takes one fills
 * it in whenever it fails; -EINVAL is then what the user must mend, anything else what could not be done.
 */
#ifndef FAULT_H
#define FAULT_H

struct fault {
	char text[512];
};

/* Fill in; returns rc, for the caller to pass on. */
__attribute__((format(printf, 3, 4))) int fault_say(struct fault *f, int rc, const char *fmt, ...);

#endif
