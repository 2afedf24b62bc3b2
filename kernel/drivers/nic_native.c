// SPDX-License-Identifier: GPL-2.0-only
/*
 * The NICs' data path as machine code: native objects (nic_native.h), and the BPF programs that stand for
 * theirs.
 *
 * lab_native=PATH, any number of times, names files of the host. They are read at boot, before any program of
 * the lab runs, and nothing in a lab can bring others into its kernel. An object that cannot be used ends the
 * boot.
 *
 * A program of type SCHED_CLS loaded with LAB_BPF_F_NATIVE is such a stand-in: its instructions only name the
 * maps and, in the last but one, a constant, the object (nic_native_id). The verifier has checked it as any;
 * what runs in its place is the object's program of the same name, on these maps. If there is none, loading
 * fails.
 */
#include "nic_native.h"

#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/pkt_cls.h>
#include <linux/skbuff.h>
#include <linux/slab.h>

#include "lab_file.h"

#define IMAGES_MAX 16

extern const struct bpf_verifier_ops tc_cls_act_verifier_ops;

/* The maps that an object works on: those of the programs that were loaded together. */
struct native_instance {
	struct native_object *object;
	struct bpf_map *map[NIC_NATIVE_MAPS_MAX], *settings;
	struct native_instance *next;
	int programs;
};

struct native_object {
	u64 id;
	struct nic_native_image *image;
	struct native_instance *instances;
	struct native_instance *bound; /* its maps are in the image now */
};

struct lab_native {
	struct native_instance *instance;
	int (*run)(struct nic_native_frame *frame);
	bool writes;
};

/* A packet on its way through a program. */
struct native_packet {
	struct nic_native_frame frame;
	struct sk_buff *skb;
	struct native_instance *instance;
};

static char *paths[IMAGES_MAX];
static struct native_object objects[IMAGES_MAX];
static int count;

static int __init lab_native_setup(char *arg)
{
	if (count == IMAGES_MAX)
		panic("lab_native: more than %d native objects", IMAGES_MAX);
	paths[count++] = arg;
	return 1;
}
__setup("lab_native=", lab_native_setup);

/* ---- the kernel's functions ---- */

typedef u64 (*helper)(u64 a, u64 b, u64 c, u64 d, u64 e);

/* BPF's helpers. */
static struct {
	helper skb_set_tstamp, set_hash, skb_change_tail, skb_store_bytes, skb_load_bytes, skb_pull_data,
		clone_redirect, redirect, ringbuf_output, ringbuf_reserve, ringbuf_submit;
} bpf;

static const struct {
	helper *at;
	enum bpf_func_id id;
} helpers[] = {
	{ &bpf.skb_set_tstamp, BPF_FUNC_skb_set_tstamp },
	{ &bpf.set_hash, BPF_FUNC_set_hash },
	{ &bpf.skb_change_tail, BPF_FUNC_skb_change_tail },
	{ &bpf.skb_store_bytes, BPF_FUNC_skb_store_bytes },
	{ &bpf.skb_load_bytes, BPF_FUNC_skb_load_bytes },
	{ &bpf.skb_pull_data, BPF_FUNC_skb_pull_data },
	{ &bpf.clone_redirect, BPF_FUNC_clone_redirect },
	{ &bpf.redirect, BPF_FUNC_redirect },
	{ &bpf.ringbuf_output, BPF_FUNC_ringbuf_output },
	{ &bpf.ringbuf_reserve, BPF_FUNC_ringbuf_reserve },
	{ &bpf.ringbuf_submit, BPF_FUNC_ringbuf_submit },
};

static int find_helpers(const struct bpf_prog *prog)
{
	for (int i = 0; i < ARRAY_SIZE(helpers); i++) {
		const struct bpf_func_proto *proto =
			tc_cls_act_verifier_ops.get_func_proto(helpers[i].id, prog);

		if (!proto || !proto->func)
			return -EOPNOTSUPP;
		*helpers[i].at = (helper)proto->func;
	}
	return 0;
}

#define WORD(pointer) ((u64)(unsigned long)(pointer))

static struct native_packet *packet_of(const struct nic_native_frame *frame)
{
	return container_of(frame, struct native_packet, frame);
}

/* The packet may have got another size and place. */
static void look_again(struct native_packet *packet)
{
	struct sk_buff *skb = packet->skb;

	packet->frame.data = skb->data;
	packet->frame.data_end = skb->data + skb_headlen(skb);
	packet->frame.len = skb->len;
}

static u64 call_ktime_get_ns(void)
{
	return ktime_get_mono_fast_ns();
}

static void *call_map_lookup_elem(void *map, const void *key)
{
	return ((struct bpf_map *)map)->ops->map_lookup_elem(map, (void *)key);
}

static long call_skb_set_tstamp(struct nic_native_frame *frame, u64 tstamp, u32 type)
{
	return bpf.skb_set_tstamp(WORD(packet_of(frame)->skb), tstamp, type, 0, 0);
}

static void call_set_hash(struct nic_native_frame *frame, u32 hash)
{
	bpf.set_hash(WORD(packet_of(frame)->skb), hash, 0, 0, 0);
}

static long call_skb_change_tail(struct nic_native_frame *frame, u32 len, u64 flags)
{
	struct native_packet *packet = packet_of(frame);
	long ret = bpf.skb_change_tail(WORD(packet->skb), len, flags, 0, 0);

	look_again(packet);
	return ret;
}

static long call_skb_store_bytes(struct nic_native_frame *frame, u32 offset, const void *from, u32 len,
				 u64 flags)
{
	struct native_packet *packet = packet_of(frame);
	long ret = bpf.skb_store_bytes(WORD(packet->skb), offset, WORD(from), len, flags);

	look_again(packet);
	return ret;
}

static long call_skb_load_bytes(const struct nic_native_frame *frame, u32 offset, void *to, u32 len)
{
	return bpf.skb_load_bytes(WORD(packet_of(frame)->skb), offset, WORD(to), len, 0);
}

static long call_redirect(u32 ifindex, u64 flags)
{
	return bpf.redirect(ifindex, flags, 0, 0, 0);
}

static long call_ringbuf_output(void *map, void *data, u64 size, u64 flags)
{
	return bpf.ringbuf_output(WORD(map), WORD(data), size, flags, 0);
}

static void *call_ringbuf_reserve(void *map, u64 size, u64 flags)
{
	return (void *)(unsigned long)bpf.ringbuf_reserve(WORD(map), size, flags, 0, 0);
}

static void call_ringbuf_submit(void *data, u64 flags)
{
	bpf.ringbuf_submit(WORD(data), flags, 0, 0, 0);
}

/* Writes the places of an instance's maps into its object. */
static void bind(struct native_instance *instance)
{
	struct nic_native_image *image = instance->object->image;
	u32 zero = 0;

	for (int i = 0; i < NIC_NATIVE_MAPS_MAX && image->map[i].map; i++) {
		struct bpf_map *map = instance->map[i];

		*image->map[i].map = map;
		*image->map[i].entries = (void *)(unsigned long)map->max_entries;
		if (image->map[i].rows)
			*image->map[i].rows = map->ops->map_lookup_elem(map, &zero);
	}
	memcpy(image->settings, instance->settings->ops->map_lookup_elem(instance->settings, &zero),
	       image->settings_bytes);
	instance->object->bound = instance;
}

/* The copy may pass through programs of the same object with other maps before this returns. */
static long call_clone_redirect(struct nic_native_frame *frame, u32 ifindex, u64 flags)
{
	struct native_packet *packet = packet_of(frame);
	long ret;

	packet->skb->mark = frame->mark;
	ret = bpf.clone_redirect(WORD(packet->skb), ifindex, flags, 0, 0);
	if (packet->instance->object->bound != packet->instance)
		bind(packet->instance);
	look_again(packet);
	return ret;
}

static const struct nic_native_calls calls = {
	.ktime_get_ns = call_ktime_get_ns,
	.map_lookup_elem = call_map_lookup_elem,
	.skb_set_tstamp = call_skb_set_tstamp,
	.set_hash = call_set_hash,
	.skb_change_tail = call_skb_change_tail,
	.skb_store_bytes = call_skb_store_bytes,
	.skb_load_bytes = call_skb_load_bytes,
	.clone_redirect = call_clone_redirect,
	.redirect = call_redirect,
	.ringbuf_output = call_ringbuf_output,
	.ringbuf_reserve = call_ringbuf_reserve,
	.ringbuf_submit = call_ringbuf_submit,
};

/* ---- programs ---- */

/* In the place of BPF's interpreter. */
static unsigned int run_native(const void *ctx, const struct bpf_insn *insn)
{
	const struct bpf_prog *prog = (const void *)insn - offsetof(struct bpf_prog, insnsi);
	const struct lab_native *program = prog->aux->lab_native;
	struct sk_buff *skb = (struct sk_buff *)ctx;
	struct native_packet packet = { .skb = skb, .instance = program->instance };
	int ret;

	/* As bpf_unclone_prologue() does. */
	if (program->writes && skb->cloned && bpf.skb_pull_data(WORD(skb), 0, 0, 0, 0))
		return TC_ACT_SHOT;
	if (program->instance->object->bound != program->instance)
		bind(program->instance);
	look_again(&packet);
	packet.frame.mark = skb->mark;
	packet.frame.ifindex = skb->dev->ifindex;
	ret = program->run(&packet.frame);
	skb->mark = packet.frame.mark;
	return ret;
}

static struct native_object *object_of(const struct bpf_prog *prog)
{
	const struct bpf_insn *insn = prog->insnsi + prog->len - 3; /* a constant of two, and exit */
	u64 id;

	if (prog->len < 3 || insn->code != (BPF_LD | BPF_IMM | BPF_DW) || insn->src_reg)
		return NULL;
	id = (u32)insn[0].imm | (u64)(u32)insn[1].imm << 32;
	for (int i = 0; i < count; i++)
		if (objects[i].id == id)
			return &objects[i];
	return NULL;
}

static const struct nic_native_entry *entry_of(const struct native_object *object, const char *name)
{
	const struct nic_native_entry *entry = object->image->entry;

	for (int i = 0; i < NIC_NATIVE_ENTRIES; i++)
		if (!strncmp(entry[i].name, name, NIC_NATIVE_NAME_LEN))
			return &entry[i];
	return NULL;
}

static bool fits(const struct bpf_map *map, const char *name, u32 type, u32 value_bytes)
{
	return !strncmp(map->name, name, NIC_NATIVE_NAME_LEN - 1) && map->map_type == type &&
	       (type == BPF_MAP_TYPE_RINGBUF || map->value_size == value_bytes);
}

static struct bpf_map *map_of(const struct bpf_prog *prog, const char *name, u32 type, u32 value_bytes)
{
	for (u32 i = 0; i < prog->aux->used_map_cnt; i++)
		if (fits(prog->aux->used_maps[i], name, type, value_bytes))
			return prog->aux->used_maps[i];
	return NULL;
}

/* Fills in the program's maps: 0, or -EINVAL where one is missing or of another size. */
static int take_maps(struct native_instance *instance, const struct bpf_prog *prog)
{
	const struct nic_native_image *image = instance->object->image;

	instance->settings = map_of(prog, ".rodata.settings", BPF_MAP_TYPE_ARRAY, image->settings_bytes);
	if (!instance->settings || !READ_ONCE(instance->settings->frozen))
		return -EINVAL;
	for (int i = 0; i < NIC_NATIVE_MAPS_MAX && image->map[i].map; i++) {
		const struct nic_native_map *wanted = &image->map[i];

		instance->map[i] = map_of(prog, wanted->name, wanted->type, wanted->value_bytes);
		if (!instance->map[i])
			return -EINVAL;
	}
	return 0;
}

/* The instance with the program's maps, which it may share with others. */
static struct native_instance *instance_of(struct native_object *object, const struct bpf_prog *prog)
{
	struct native_instance *made = kzalloc(sizeof(*made), GFP_KERNEL), *known;
	int err;

	if (!made)
		return ERR_PTR(-ENOMEM);
	made->object = object;
	err = take_maps(made, prog);
	if (err) {
		kfree(made);
		return ERR_PTR(err);
	}
	for (known = object->instances; known; known = known->next) {
		if (known->settings == made->settings && !memcmp(known->map, made->map, sizeof(made->map))) {
			kfree(made);
			return known;
		}
	}
	made->next = object->instances;
	object->instances = made;
	return made;
}

/* Programs come and go rarely, and by system calls and work of one CPU that does not preempt the kernel. */
int lab_native_select(struct bpf_prog *prog)
{
	struct native_object *object = object_of(prog);
	const struct nic_native_entry *entry = object ? entry_of(object, prog->aux->name) : NULL;
	struct lab_native *program;
	int err = entry ? find_helpers(prog) : -ENOENT;

	if (err)
		return err;
	program = kzalloc(sizeof(*program), GFP_KERNEL);
	if (!program)
		return -ENOMEM;
	program->run = entry->run;
	program->writes = entry->writes;
	program->instance = instance_of(object, prog);
	if (IS_ERR(program->instance)) {
		err = PTR_ERR(program->instance);
		kfree(program);
		return err;
	}
	program->instance->programs++;
	prog->aux->lab_native = program;
	prog->bpf_func = run_native;
	return 0;
}

void lab_native_free(struct lab_native *program)
{
	struct native_instance *instance, **at;

	if (!program)
		return;
	instance = program->instance;
	kfree(program);
	if (--instance->programs)
		return;
	for (at = &instance->object->instances; *at != instance; at = &(*at)->next)
		;
	*at = instance->next;
	if (instance->object->bound == instance)
		instance->object->bound = NULL;
	kfree(instance);
}

/* ---- boot ---- */

static bool __init inside(const struct nic_native_head *head, u64 offset, u64 bytes)
{
	return offset <= head->memory_bytes && bytes <= head->memory_bytes - offset;
}

/* Ends the boot where a file is not what its head says. */
static void __init check_head(const struct nic_native_head *head, const char *path, u64 bytes)
{
	if (bytes < sizeof(*head) || head->magic != NIC_NATIVE_MAGIC)
		panic("lab_native: %s is no native object; run `make programs`", path);
	if (head->abi != NIC_NATIVE_ABI)
		panic("lab_native: %s is of version %llu, this kernel takes %d; run `make programs`", path,
		      head->abi, NIC_NATIVE_ABI);
	if (head->file_bytes != bytes)
		panic("lab_native: %s has %llu bytes of %llu; run `make programs`", path, bytes,
		      head->file_bytes);
	if (head->memory_bytes > NIC_NATIVE_BYTES_MAX || head->memory_bytes < bytes ||
	    !inside(head, head->relocations_at, head->relocations_bytes) ||
	    !inside(head, head->image_at, sizeof(struct nic_native_image)))
		panic("lab_native: %s is damaged; run `make programs`", path);
}

/* Reads a file of the host whole into memory in which the processor may run code. */
static struct nic_native_head *__init read_object(const char *path)
{
	struct nic_native_head first = { 0 }, *head;
	unsigned long long bytes = 0;
	int fd = os_open_file(path, of_read(OPENFLAGS()), 0);

	if (fd < 0)
		panic("lab_native: %s cannot be opened (error %d); run `make programs`", path, -fd);
	if (os_file_size(path, &bytes) || os_pread_file(fd, &first, sizeof(first), 0) < 0)
		panic("lab_native: %s cannot be read", path);
	check_head(&first, path, bytes);
	head = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, get_order(first.memory_bytes));
	if (!head)
		panic("lab_native: out of memory for %s; raise lab.memory", path);
	if (!lab_file_read(fd, head, bytes))
		panic("lab_native: %s cannot be read", path);
	/* Most of a lab's memory may be executed anyway, but what it had at its start may not. */
	if (os_protect_memory(head, PAGE_SIZE << get_order(first.memory_bytes), 1, 1, 1))
		panic("lab_native: the host refuses memory for %s that may be executed", path);
	return head;
}

/* Makes offsets addresses. False: one is outside. */
static bool __init relocate(struct nic_native_head *head)
{
	const struct nic_native_relocation *relocation = (void *)head + head->relocations_at;
	u64 n = head->relocations_bytes / sizeof(*relocation);

	for (; n; n--, relocation++) {
		if (relocation->info != NIC_NATIVE_RELATIVE ||
		    !inside(head, relocation->offset, sizeof(u64)) || !inside(head, relocation->addend, 0))
			return false;
		*(u64 *)((void *)head + relocation->offset) = WORD(head) + relocation->addend;
	}
	return true;
}

static int __init lab_native_init(void)
{
	for (int i = 0; i < count; i++) {
		struct nic_native_head *head = read_object(paths[i]);

		objects[i].id = nic_native_id(head, head->file_bytes);
		if (!relocate(head))
			panic("lab_native: %s is damaged; run `make programs`", paths[i]);
		objects[i].image = (void *)head + head->image_at;
		*objects[i].image->calls = calls;
	}
	return 0;
}
device_initcall(lab_native_init);
