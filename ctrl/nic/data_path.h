/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The data path in the kernel: one object's programs and maps, and where they are attached. */
#ifndef NIC_DATA_PATH_H
#define NIC_DATA_PATH_H

#include "hooks.h"
#include "nics.h"

#include <bpf/libbpf.h>

struct data_path {
	struct bpf_object *object;
	int native[HOOK_PROGRAMS]; /* programs of a native object, by hook_programs; 0: none */
	const struct nics *nics;
	struct hooks hooks;
	struct nic_sender *senders;
	struct nic_receiver *receivers;
	struct nic_port *ports;
};

/* All return 0, or -errno and what went wrong. data_path_close() undoes what was done, after failures, too.
 */
/* `native`: the native object that runs in place of the programs at `path`, or NULL. */
int data_path_open(struct data_path *d, const char *path, const char *native, const struct nics *nics,
		   struct fault *f);
/* `words`: CC_TABLE_WORDS of a policy. */
int data_path_table(struct data_path *d, const uint32_t *words, struct fault *f);
int data_path_attach(struct data_path *d, struct fault *f);
void data_path_close(struct data_path *d); /* detaches, too */

/* A map's file descriptor and id; -1: there is no such map. */
int data_path_map(const struct data_path *d, const char *name);
int64_t data_path_map_id(const struct data_path *d, const char *name);

#endif
