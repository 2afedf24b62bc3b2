// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The data path in the kernel, its programs and rows: see data_path.h. */
#include "data_path.h"

#include "policy.h"
#include "rows.h"
#include "stand_in.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG_SHOWN 2000 /* characters of a message */

static int set_entries(struct data_path *d, const char *name, uint32_t n, struct fault *f)
{
	struct bpf_map *map = bpf_object__find_map_by_name(d->object, name);

	if (!map || bpf_map__set_max_entries(map, n))
		return fault_say(f, -EINVAL,
				 "--object: it has no map '%s'; build it from ctrl/nic/shim.bpf.c", name);
	return 0;
}

static int set_settings(struct data_path *d, const struct nic_settings *settings, struct fault *f)
{
	struct bpf_map *map = bpf_object__find_map_by_name(d->object, ".rodata.settings");

	if (!map || bpf_map__set_initial_value(map, settings, sizeof(*settings)))
		return fault_say(f, -EINVAL,
				 "--object: its settings are not those of this nicd; run `make programs`");
	return 0;
}

/* Keeps the end of libbpf's messages: a verifier's log tells last what it refuses. */
static int print_end(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char *text = NULL;
	int len;

	if (level != LIBBPF_WARN)
		return 0;
	len = vasprintf(&text, fmt, args);
	if (len >= 0)
		fputs(len > LOG_SHOWN ? text + len - LOG_SHOWN : text, stderr);
	free(text);
	return 0;
}

static int load(struct data_path *d, const char *path, struct fault *f)
{
	int rc = bpf_object__load(d->object);

	if (!rc)
		return 0;
	return fault_say(f, rc,
			 "load %s: %s; the kernel's words are above: how many instructions its verifier went "
			 "through, of how many that it may, and what it refuses",
			 path, strerror(-rc));
}

static const char *why_not_native(int rc)
{
	switch (rc) {
	case -ENOENT:
		return "this lab was booted without it, or it was built anew since";
	case -EINVAL:
		return "this kernel takes none, or its maps are not those of --object; run `make programs`";
	default:
		return strerror(-rc);
	}
}

/* The maps are there: loads programs of the native object on them. */
static int load_native(struct data_path *d, const char *path, struct fault *f)
{
	size_t n = nics_watch_wire(d->nics) ? HOOK_PROGRAMS : HOOK_PROGRAMS - 1;
	uint64_t id;
	int rc = stand_in_id(path, &id);

	if (rc)
		return fault_say(f, -EINVAL,
				 "--native: read '%s': %s; name an object that `make programs` built", path,
				 strerror(-rc));
	for (size_t i = 0; i < n; i++) {
		d->native[i] = stand_in_load(d->object, hook_programs[i], id);
		if (d->native[i] < 0)
			return fault_say(f, d->native[i], "load %s of %s: %s", hook_programs[i], path,
					 why_not_native(d->native[i]));
	}
	return 0;
}

static void *map_rows(struct data_path *d, const char *name, size_t size, uint32_t n, struct fault *f)
{
	void *rows = mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_SHARED, data_path_map(d, name), 0);

	if (rows != MAP_FAILED)
		return rows;
	fault_say(f, -errno, "map '%s' of %u rows into memory: %s", name, n, strerror(errno));
	return NULL;
}

static int port_of(void *context, uint32_t i, struct fault *f)
{
	const struct data_path *d = context;
	const struct nic *nic = &d->nics->nic[i];
	uint32_t wire = if_nametoindex(nic->wire), ring = if_nametoindex(nic->ring);

	if (!wire || !ring)
		return fault_say(f, -ENODEV, "NIC '%s': there is no %s in %s", nic->name,
				 wire ? nic->ring : nic->wire, nic->netns);
	rows_port(&d->ports[i], nic, wire, ring);
	return 0;
}

static int fill_capped(struct data_path *d, struct fault *f)
{
	int fd = data_path_map(d, "capped");

	for (uint32_t i = 0; i < d->nics->flows; i++) {
		const struct nic_flow *flow = &d->nics->flow[i];
		const struct nic_tcp tcp = { flow->src_addr, flow->dst_addr, htons(flow->tcp_src_port),
					     htons(flow->tcp_dst_port) };

		if (flow->tcp_src_port && bpf_map_update_elem(fd, &tcp, &flow->flow, BPF_NOEXIST))
			return fault_say(f, -EINVAL,
					 "--nics: NIC flow %u, tcp_src_port: %s; give each flow ports of its "
					 "own",
					 i, strerror(errno));
	}
	return 0;
}

static int fill_address(struct data_path *d, uint32_t addr, uint32_t nic, struct fault *f)
{
	const struct nic_tcp key = { .src_addr = addr };

	if (bpf_map_update_elem(data_path_map(d, "capped"), &key, &nic, BPF_ANY))
		return fault_say(f, -errno, "write the address of NIC '%s': %s", d->nics->nic[nic].name,
				 strerror(errno));
	return 0;
}

/* NICs without a flow need not be known. */
static int fill_addresses(struct data_path *d, struct fault *f)
{
	int rc = 0;

	for (uint32_t i = 0; i < d->nics->flows && !rc; i++) {
		const struct nic_flow *flow = &d->nics->flow[i];

		rc = fill_address(d, flow->src_addr, flow->src_nic, f);
		if (!rc)
			rc = fill_address(d, flow->dst_addr, flow->dst_nic, f);
	}
	return rc;
}

static int fill(struct data_path *d, struct fault *f)
{
	const struct nics *nics = d->nics;
	int rc;

	d->senders = map_rows(d, "senders", sizeof(*d->senders), nics->rows, f);
	d->receivers = map_rows(d, "receivers", sizeof(*d->receivers), nics->rows, f);
	d->ports = map_rows(d, "ports", sizeof(*d->ports), nics->n, f);
	if (!d->senders || !d->receivers || !d->ports)
		return -ENOMEM;
	rc = in_each_nic(nics, port_of, d, f);
	for (uint32_t i = 0; i < nics->flows && !rc; i++) {
		const struct nic_flow *flow = &nics->flow[i];

		rows_flow(&d->senders[flow->flow], &d->receivers[flow->flow], flow, &d->ports[flow->src_nic]);
	}
	return rc;
}

int data_path_open(struct data_path *d, const char *path, const char *native, const struct nics *nics,
		   struct fault *f)
{
	int rc;

	*d = (struct data_path){ .nics = nics, .hooks.nics = nics };
	libbpf_set_print(print_end);
	d->object = bpf_object__open_file(path, NULL);
	if (!d->object)
		return fault_say(f, -EINVAL,
				 "--object: open '%s': %s; name an object that `make programs` built", path,
				 strerror(errno));
	rc = set_entries(d, "senders", nics->rows, f);
	if (!rc)
		rc = set_entries(d, "receivers", nics->rows, f);
	if (!rc)
		rc = set_entries(d, "ports", nics->n, f);
	if (!rc && nics_watch_wire(nics))
		rc = set_entries(d, "capped", nics->capped + nics->n, f);
	if (!rc && native)
		stand_in_maps_only(d->object);
	else if (!rc && !nics_watch_wire(nics))
		bpf_program__set_autoload(bpf_object__find_program_by_name(d->object, "nic_cap"), false);
	if (!rc)
		rc = set_settings(d, &nics->settings, f);
	if (!rc)
		rc = load(d, path, f);
	if (!rc && native)
		rc = load_native(d, native, f);
	if (!rc)
		rc = fill(d, f);
	if (!rc && nics->capped)
		rc = fill_capped(d, f);
	if (!rc && nics->settings.beside)
		rc = fill_addresses(d, f);
	return rc;
}

int data_path_table(struct data_path *d, const uint32_t *words, struct fault *f)
{
	uint32_t zero = 0;
	int fd = data_path_map(d, "table");
	const char *fault;

	if (fd < 0)
		return fault_say(f, -EINVAL, "--table: the algorithm of this object reads none");
	fault = policy_fault(words, CC_TABLE_WORDS, 0);
	if (fault)
		return fault_say(f, -EINVAL, "--table: %s", fault);
	if (bpf_map_update_elem(fd, &zero, words, BPF_ANY))
		return fault_say(f, -errno, "write the table: %s", strerror(errno));
	return 0;
}

int data_path_attach(struct data_path *d, struct fault *f)
{
	for (size_t i = 0; i < HOOK_PROGRAMS; i++) {
		struct bpf_program *bpf = bpf_object__find_program_by_name(d->object, hook_programs[i]);

		d->hooks.program[i] = d->native[i] > 0 ? d->native[i] : bpf_program__fd(bpf);
	}
	return hooks_attach(&d->hooks, f);
}

void data_path_close(struct data_path *d)
{
	hooks_detach(&d->hooks);
	for (size_t i = 0; i < HOOK_PROGRAMS; i++)
		if (d->native[i] > 0)
			close(d->native[i]);
	if (d->senders)
		munmap(d->senders, d->nics->rows * sizeof(*d->senders));
	if (d->receivers)
		munmap(d->receivers, d->nics->rows * sizeof(*d->receivers));
	if (d->ports)
		munmap(d->ports, d->nics->n * sizeof(*d->ports));
	bpf_object__close(d->object);
	*d = (struct data_path){ 0 };
}

int data_path_map(const struct data_path *d, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(d->object, name);

	return map ? bpf_map__fd(map) : -1;
}

int64_t data_path_map_id(const struct data_path *d, const char *name)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = data_path_map(d, name);

	return fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) ? -1 : (int64_t)info.id;
}
