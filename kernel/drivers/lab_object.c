// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCPs of one's own: a file of machine code (lab_object.h) that becomes part of the kernel at boot.
 *
 * lab_object=PATH names a file of the host. It is read before any program of the lab runs, and nothing in a
 * lab can bring another into its kernel. A file that cannot be used ends the boot.
 *
 * These are no modules. A module's memory lies where code of the small model does not reach, and what loads
 * modules would give root of a lab code in a process of the host.
 */
#include "lab_object.h"

#include <linux/buildid.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "lab_file.h"

static_assert(BUILD_ID_SIZE_MAX == LAB_OBJECT_ID_BYTES);
static_assert(sizeof(struct lab_object_head) == 80);

extern const char __start_notes[], __stop_notes[];

/* In the kernel's image, as all that the small model reaches. It costs no memory before it is used. */
u8 lab_object_region[LAB_OBJECT_BYTES] __aligned(SZ_4K);

static char *path;

static int __init lab_object_setup(char *arg)
{
	if (path)
		panic("lab_object: more than one file; link the objects into one");
	path = arg;
	return 1;
}
__setup("lab_object=", lab_object_setup);

static bool __init inside(u64 offset, u64 bytes, u64 all)
{
	return offset <= all && bytes <= all - offset;
}

/* Ends the boot where a file is not what its head says, or was linked to another kernel. */
static void __init check_head(const struct lab_object_head *head, u64 bytes)
{
	u8 id[BUILD_ID_SIZE_MAX] = { 0 };

	if (bytes < sizeof(*head) || head->magic != LAB_OBJECT_MAGIC)
		panic("lab_object: %s is no object of the lab kernel; compile it again", path);
	if (head->abi != LAB_OBJECT_ABI)
		panic("lab_object: %s is of version %llu, this kernel takes %d; compile it again", path,
		      head->abi, LAB_OBJECT_ABI);
	if (build_id_parse_buf(__start_notes, id, __stop_notes - __start_notes))
		panic("lab_object: this kernel has no build id; build it again");
	if (memcmp(head->kernel, id, sizeof(id)) || head->base != (unsigned long)lab_object_region)
		panic("lab_object: %s is for the kernel with build id %*phN, this one is %*phN; compile it "
		      "again",
		      path, LAB_OBJECT_ID_BYTES, head->kernel, LAB_OBJECT_ID_BYTES, id);
	if (head->memory_bytes > LAB_OBJECT_BYTES)
		panic("lab_object: %s takes %llu bytes of memory, and there is room for %u; make its tables"
		      " smaller",
		      path, head->memory_bytes, LAB_OBJECT_BYTES);
	if (head->file_bytes != bytes || head->memory_bytes < bytes ||
	    !inside(head->calls_at, head->calls_bytes, bytes) || head->calls_bytes % sizeof(initcall_t) ||
	    head->calls_at % sizeof(initcall_t))
		panic("lab_object: %s is damaged; compile it again", path);
}

static void __init read_object(void)
{
	struct lab_object_head head = { 0 };
	unsigned long long bytes = 0;
	int fd = os_open_file(path, of_read(OPENFLAGS()), 0);

	if (fd < 0)
		panic("lab_object: %s cannot be opened (error %d)", path, -fd);
	if (os_file_size(path, &bytes) || os_pread_file(fd, &head, sizeof(head), 0) < 0)
		panic("lab_object: %s cannot be read", path);
	check_head(&head, bytes);
	if (!lab_file_read(fd, lab_object_region, bytes))
		panic("lab_object: %s cannot be read", path);
	if (memcmp(lab_object_region, &head, sizeof(head)))
		panic("lab_object: %s changed while it was read", path);
	if (os_protect_memory(lab_object_region, LAB_OBJECT_BYTES, 1, 1, 1))
		panic("lab_object: the host refuses memory that may be executed");
}

static int __init lab_object_init(void)
{
	const struct lab_object_head *head = (void *)lab_object_region;
	const initcall_t *call, *end;

	if (!path)
		return 0;
	read_object();
	call = (void *)head + head->calls_at;
	end = (void *)call + head->calls_bytes;
	if (call == end)
		panic("lab_object: %s has no module_init(), so nothing of it would run; write one", path);
	for (; call < end; call++) {
		unsigned long at = (unsigned long)*call;
		int err;

		if (!inside(at - head->base, 1, head->memory_bytes))
			panic("lab_object: %s is damaged; compile it again", path);
		err = (*call)();
		if (err)
			panic("lab_object: %s: its module_init() failed (error %d)%s", path, -err,
			      err == -EEXIST ? "; is its name that of a TCP of Linux?" : "");
	}
	return 0;
}
late_initcall(lab_object_init);
