/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

/* In the order of KINDS in failing.py. */
enum kind {
	WRITE,
	READ,
	CLOSE,
	SYNC,
	RENAME,
	REMOVE,
	MKDIR,
	MODE,
	LOCK,
	OPEN,
	CREATE,
	STATUS,
	DESCRIPTOR,
	PROCESS,
	EXEC,
	MAP,
	MESSAGE,
	WAIT,
	KINDS
};

/* Returns the errno with which the call shall fail, or 0. */
__attribute__((visibility("hidden"))) int failure(enum kind kind);

#endif
