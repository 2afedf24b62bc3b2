// SPDX-License-Identifier: Apache-2.0
/* Words for what went wrong: see fault.h. */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

int fault_say(struct fault *f, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return rc;
}
