/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The data path in the kernel: one object's programs and maps, and where they are attached. */
#ifndef NIC_DATA_PATH_H
#define NIC_DATA_PATH_H

#include "nics.h"

#include <bpf/libbpf.h>

#define DATA_PATH_PROGRAMS 4

struct data_path {
	struct bpf_object *object;
	int native[DATA_PATH_PROGRAMS]; /* programs of a native object, by data_path_programs; 0: none */
	const struct nics *nics;
	struct hook *hooks; /* four a NIC, shared with the guard */
	int guard, alive;   /* the process that detaches, and the pipe that tells it when */
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
void data_path_detach(struct data_path *d);
void data_path_close(struct data_path *d); /* detaches, too */

/* The names of its programs. The last is loaded only where flows are capped. */
extern const char *const data_path_programs[DATA_PATH_PROGRAMS];
int data_path_program(const struct data_path *d, size_t program); /* its file descriptor */

/* Runs `work` on each NIC in its namespace, and comes home. */
int in_each_nic(struct data_path *d, int (*work)(struct data_path *d, uint32_t nic, struct fault *f),
		struct fault *f);

/* A map's file descriptor and id; -1: there is no such map. */
int data_path_map(const struct data_path *d, const char *name);
int64_t data_path_map_id(const struct data_path *d, const char *name);

#endif
