// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Stand-ins for native programs: see stand_in.h. */
#include "stand_in.h"

#include "lab.h"
#include "nic_native.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSNS_MAX (2 * NIC_NATIVE_MAPS_MAX + 2 * 4 + 3) /* four maps more than a native object has */

int stand_in_id(const char *path, uint64_t *id)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat file;
	void *bytes;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &file)) {
		rc = -errno;
	} else if ((size_t)file.st_size < sizeof(struct nic_native_head)) {
		rc = -ENOEXEC;
	} else {
		bytes = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		rc = bytes == MAP_FAILED ? -errno : 0;
		if (!rc) {
			*id = nic_native_id(bytes, (uint64_t)file.st_size);
			munmap(bytes, (size_t)file.st_size);
		}
	}
	close(fd);
	return rc;
}

void stand_in_maps_only(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) bpf_program__set_autoload(program, false);
}

/* A constant takes two instructions. `source`: BPF_PSEUDO_MAP_FD, or 0 for a number. */
static int add_constant(struct bpf_insn *at, uint8_t source, uint8_t target, uint64_t value)
{
	at[0] = (struct bpf_insn){
		.code = BPF_LD | BPF_DW | BPF_IMM,
		.dst_reg = target & 0xf,
		.src_reg = source & 0xf,
		.imm = (int32_t)value,
	};
	at[1] = (struct bpf_insn){ .imm = (int32_t)(value >> 32) };
	return 2;
}

int stand_in_load(struct bpf_object *object, const char *name, uint64_t id)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_flags = LAB_BPF_F_NATIVE);
	struct bpf_insn insns[INSNS_MAX];
	struct bpf_map *map;
	int n = 0, fd;

	bpf_object__for_each_map(map, object)
	{
		if (n > INSNS_MAX - 5)
			return -E2BIG;
		n += add_constant(insns + n, BPF_PSEUDO_MAP_FD, BPF_REG_1, (uint32_t)bpf_map__fd(map));
	}
	n += add_constant(insns + n, 0, BPF_REG_0, id);
	insns[n++] = (struct bpf_insn){ .code = BPF_JMP | BPF_EXIT };
	fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, name, "GPL", insns, (size_t)n, &options);
	return fd < 0 ? -errno : fd;
}
