/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Programs of a native object (nic_native.h), as the lab kernel takes them: BPF programs that stand for
 * those that it read at boot.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdint.h>

#include <bpf/libbpf.h>

/* Finds the number by which the kernel knows the object in this file. Returns 0 or -errno. */
int stand_in_id(const char *path, uint64_t *id);

/* Loads nothing but an object's maps: stand_in_load() loads programs. */
void stand_in_maps_only(struct bpf_object *object);

/*
 * Loads the program `name` of the native object `id`, on all maps of this BPF object, which is loaded: its
 * file descriptor, or -errno. -ENOENT: the kernel did not read that object at boot; -EINVAL: the kernel is
 * none of a lab, or the maps are not those of the native object.
 */
int stand_in_load(struct bpf_object *object, const char *name, uint64_t id);

#endif
