/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a lab on the host, whatever runs in it: the last line of defence, if a program in the lab has
 * taken over the lab kernel. Both parts hold for the process and all that it starts, for ever.
 */
#ifndef CONFINE_H
#define CONFINE_H

/* Landlock: from now on this process writes only below the folders behind the descriptors in `folders`
 * (comma-separated), reads no file of /dev, /proc, /run and /sys but its own, opens no TCP connection, and
 * sends signals and uses abstract sockets only among its own. `newest_abi`: what only newer versions of
 * Landlock have is left out. Returns 0, also where the kernel has no Landlock or an older one, or -1 with the
 * reason on standard error.
 */
int confine_writes(const char *folders, long newest_abi);

/* seccomp: no socket, no look into another process, no namespaces, none of the kernel's large interfaces. */
int confine_calls(void);

#endif
