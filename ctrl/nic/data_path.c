// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The data path in the kernel: see data_path.h. */
#include "data_path.h"

#include "policy.h"
#include "rows.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANDLE    1
#define PRIORITY  1
#define LOG_SHOWN 2000 /* characters of a message */

/* One program at one end of a device. */
struct hook {
	uint32_t nic;
	int ifindex;
	enum bpf_tc_attach_point at;
	bool made; /* clsact is ours */
	bool attached;
};

static const struct {
	const char *program, *device;
	size_t name_at; /* in struct nic */
	enum bpf_tc_attach_point at;
} places[] = {
	{ "nic_depart", "ring", offsetof(struct nic, ring), BPF_TC_EGRESS },
	{ "nic_turn", "tail", offsetof(struct nic, tail), BPF_TC_INGRESS },
	{ "nic_receive", "wire", offsetof(struct nic, wire), BPF_TC_INGRESS },
};
#define N_PLACES (sizeof(places) / sizeof(places[0]))

/* ---- namespaces ---- */

static int enter(const char *netns, struct fault *f)
{
	int fd, rc = 0;

	if (!strcmp(netns, "-"))
		return 0;
	fd = open(netns, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fault_say(f, -errno, "open network namespace %s: %s", netns, strerror(errno));
	if (setns(fd, CLONE_NEWNET))
		rc = fault_say(f, -errno, "enter network namespace %s: %s", netns, strerror(errno));
	close(fd);
	return rc;
}

/* Runs `work` on each NIC in its namespace, and comes home. */
static int in_each(struct data_path *d, int (*work)(struct data_path *d, uint32_t nic, struct fault *f),
		   struct fault *f)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), rc = 0;

	if (home < 0)
		return fault_say(f, -errno, "open /proc/self/ns/net: %s", strerror(errno));
	for (uint32_t i = 0; i < d->nics->n && !rc; i++) {
		rc = enter(d->nics->nic[i].netns, f);
		if (!rc)
			rc = work(d, i, f);
	}
	if (setns(home, CLONE_NEWNET) && !rc)
		rc = fault_say(f, -errno, "return to the first network namespace: %s", strerror(errno));
	close(home);
	return rc;
}

/* ---- loading ---- */

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

/* Of libbpf's messages the end is what matters: a verifier's log tells last what it refuses. */
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

static void *map_rows(struct data_path *d, const char *name, size_t size, uint32_t n, struct fault *f)
{
	void *rows = mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_SHARED, data_path_map(d, name), 0);

	if (rows != MAP_FAILED)
		return rows;
	fault_say(f, -errno, "map '%s' of %u rows into memory: %s", name, n, strerror(errno));
	return NULL;
}

static int port_of(struct data_path *d, uint32_t i, struct fault *f)
{
	const struct nic *nic = &d->nics->nic[i];
	uint32_t wire = if_nametoindex(nic->wire), ring = if_nametoindex(nic->ring);

	if (!wire || !ring)
		return fault_say(f, -ENODEV, "NIC '%s': there is no %s in %s", nic->name,
				 wire ? nic->ring : nic->wire, nic->netns);
	rows_port(&d->ports[i], nic, wire, ring);
	return 0;
}

static int fill(struct data_path *d, const struct nic_flows *flows, struct fault *f)
{
	int rc;

	d->senders = map_rows(d, "senders", sizeof(*d->senders), d->rows, f);
	d->receivers = map_rows(d, "receivers", sizeof(*d->receivers), d->rows, f);
	d->ports = map_rows(d, "ports", sizeof(*d->ports), d->nics->n, f);
	if (!d->senders || !d->receivers || !d->ports)
		return -ENOMEM;
	rc = in_each(d, port_of, f);
	for (uint32_t i = 0; i < flows->n && !rc; i++) {
		const struct nic_flow *flow = &flows->flow[i];

		rows_flow(&d->senders[flow->flow], &d->receivers[flow->flow], flow, &d->ports[flow->src_nic]);
	}
	return rc;
}

int data_path_open(struct data_path *d, const char *path, const struct nics *nics,
		   const struct nic_flows *flows, const struct nic_settings *settings, struct fault *f)
{
	int rc;

	*d = (struct data_path){ .nics = nics, .rows = flows->rows };
	libbpf_set_print(print_end);
	d->object = bpf_object__open_file(path, NULL);
	if (!d->object)
		return fault_say(f, -EINVAL,
				 "--object: open '%s': %s; name an object that `make programs` built", path,
				 strerror(errno));
	rc = set_entries(d, "senders", d->rows, f);
	if (!rc)
		rc = set_entries(d, "receivers", d->rows, f);
	if (!rc)
		rc = set_entries(d, "ports", nics->n, f);
	if (!rc)
		rc = set_settings(d, settings, f);
	if (!rc)
		rc = load(d, path, f);
	if (!rc)
		rc = fill(d, flows, f);
	return rc;
}

int data_path_table(struct data_path *d, const void *words, size_t len, struct fault *f)
{
	uint32_t zero = 0;
	int fd = data_path_map(d, "table");
	const char *fault;

	if (fd < 0)
		return fault_say(f, -EINVAL, "--table: the algorithm of this object reads none");
	if (len != CC_TABLE_WORDS * sizeof(uint32_t))
		return fault_say(f, -EINVAL, "--table: %zu bytes; give %zu", len,
				 CC_TABLE_WORDS * sizeof(uint32_t));
	fault = policy_fault(words, CC_TABLE_WORDS, 0);
	if (fault)
		return fault_say(f, -EINVAL, "--table: %s", fault);
	if (bpf_map_update_elem(fd, &zero, words, BPF_ANY))
		return fault_say(f, -errno, "write the table: %s", strerror(errno));
	return 0;
}

/* ---- attaching ---- */

static int attach(struct data_path *d, struct hook *h, const char *program, struct fault *f)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = h->ifindex, .attach_point = h->at);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);
	const char *nic = d->nics->nic[h->nic].name;
	int rc = bpf_tc_hook_create(&hook);

	if (rc && rc != -EEXIST)
		return fault_say(f, rc,
				 "NIC '%s': add qdisc clsact: %s; the kernel needs CONFIG_NET_SCH_INGRESS",
				 nic, strerror(-rc));
	h->made = !rc;
	opts.prog_fd = bpf_program__fd(bpf_object__find_program_by_name(d->object, program));
	rc = bpf_tc_attach(&hook, &opts);
	if (rc)
		return fault_say(f, rc, "NIC '%s': attach %s: %s; the kernel needs CONFIG_NET_CLS_BPF", nic,
				 program, strerror(-rc));
	h->attached = true;
	return 0;
}

static int attach_nic(struct data_path *d, uint32_t i, struct fault *f)
{
	const struct nic *nic = &d->nics->nic[i];
	int rc = 0;

	for (size_t p = 0; p < N_PLACES && !rc; p++) {
		const char *device = (const char *)nic + places[p].name_at;
		struct hook *h = &d->hooks[i * N_PLACES + p];

		*h = (struct hook){ .nic = i, .ifindex = (int)if_nametoindex(device), .at = places[p].at };
		if (!h->ifindex)
			return fault_say(f, -ENODEV, "NIC '%s': there is no %s in %s", nic->name, device,
					 nic->netns);
		rc = attach(d, h, places[p].program, f);
	}
	return rc;
}

/* What cannot be undone is gone already: devices vanish with their namespaces. */
static void detach(const struct hook *h)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = h->ifindex, .attach_point = h->at);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);

	if (h->attached)
		bpf_tc_detach(&hook, &opts);
	if (h->made) {
		hook.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS; /* the qdisc itself */
		bpf_tc_hook_destroy(&hook);
	}
}

static int detach_nic(struct data_path *d, uint32_t i, struct fault *f)
{
	(void)f;
	for (size_t p = 0; p < N_PLACES; p++)
		detach(&d->hooks[i * N_PLACES + p]);
	return 0;
}

/* Until the loader ends, in whatever way; its pipe closes then. */
static void guard(struct data_path *d, int in)
{
	struct fault ignored;
	char nothing;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	close(STDIN_FILENO); /* the loader's: who waits for their end waits for the loader alone */
	close(STDOUT_FILENO);
	while (read(in, &nothing, 1) < 0 && errno == EINTR)
		;
	in_each(d, detach_nic, &ignored);
	_exit(0);
}

/* What is attached is taken away by a process of its own, so that kill -9 of the loader leaves nothing, too.
 */
static int post_guard(struct data_path *d, struct fault *f)
{
	int ends[2];

	d->hooks = mmap(NULL, d->nics->n * N_PLACES * sizeof(*d->hooks), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->hooks == MAP_FAILED) {
		d->hooks = NULL;
		return fault_say(f, -ENOMEM, "out of memory for %u NICs", d->nics->n);
	}
	if (pipe2(ends, O_CLOEXEC))
		return fault_say(f, -errno, "make a pipe: %s", strerror(errno));
	d->guard = fork();
	if (d->guard == 0) {
		close(ends[1]);
		guard(d, ends[0]);
	}
	close(ends[0]);
	d->alive = ends[1];
	return d->guard < 0 ? fault_say(f, -errno, "start a process: %s", strerror(errno)) : 0;
}

int data_path_attach(struct data_path *d, struct fault *f)
{
	int rc = post_guard(d, f);

	return rc ? rc : in_each(d, attach_nic, f);
}

void data_path_close(struct data_path *d)
{
	if (d->guard > 0) {
		close(d->alive);
		waitpid(d->guard, NULL, 0);
	}
	if (d->hooks)
		munmap(d->hooks, d->nics->n * N_PLACES * sizeof(*d->hooks));
	if (d->senders)
		munmap(d->senders, d->rows * sizeof(*d->senders));
	if (d->receivers)
		munmap(d->receivers, d->rows * sizeof(*d->receivers));
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
