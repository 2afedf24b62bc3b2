/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets in other network namespaces: a socket stays in the one that it was made in. */
#ifndef NETNS_H
#define NETNS_H

/* socket(2) in the namespace at `netns` ("-": the present one), to which the process returns; or -errno. */
int netns_socket(const char *netns, int domain, int type, int protocol);

#endif
