// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Attaches the data path's programs to devices, and detaches them: see data_path.h. */
#include "data_path.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANDLE   1
#define PRIORITY 1

/* One program at one end of a device. */
struct hook {
	uint32_t nic;
	int ifindex;
	enum bpf_tc_attach_point at;
	bool made; /* clsact is ours */
	bool attached;
};

static const struct {
	size_t device_at; /* offset in struct nic */
	enum bpf_tc_attach_point at;
} places[DATA_PATH_PROGRAMS] = {
	/* the order is that of data_path_programs */
	{ offsetof(struct nic, ring), BPF_TC_EGRESS },
	{ offsetof(struct nic, tail), BPF_TC_INGRESS },
	{ offsetof(struct nic, wire), BPF_TC_INGRESS },
	{ offsetof(struct nic, wire), BPF_TC_EGRESS },
};
#define N_PLACES DATA_PATH_PROGRAMS

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

int in_each_nic(struct data_path *d, int (*work)(struct data_path *d, uint32_t nic, struct fault *f),
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

/* ---- attaching ---- */

/* Somebody's filter has our place. Nothing of ours is left by itself, so it may be anybody's. */
static int taken(const struct nic *nic, const char *device, const char *program, struct fault *f)
{
	bool here = !strcmp(nic->netns, "-");

	return fault_say(
		f, -EEXIST,
		"NIC '%s': attach %s: %s has a filter of priority %d already; if it is of a NIC that "
		"was killed with its guard: %s%s%stc qdisc del dev %s clsact",
		nic->name, program, device, PRIORITY, here ? "" : "nsenter --net=", here ? "" : nic->netns,
		here ? "" : " ", device);
}

static int attach(struct data_path *d, struct hook *h, const char *device, size_t p, struct fault *f)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = h->ifindex, .attach_point = h->at);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);
	const struct nic *nic = &d->nics->nic[h->nic];
	const char *program = data_path_programs[p];
	int rc = bpf_tc_hook_create(&hook);

	if (rc && rc != -EEXIST)
		return fault_say(f, rc,
				 "NIC '%s': add qdisc clsact: %s; the kernel needs CONFIG_NET_SCH_INGRESS",
				 nic->name, strerror(-rc));
	h->made = !rc;
	opts.prog_fd = data_path_program(d, p);
	rc = bpf_tc_attach(&hook, &opts);
	if (rc == -EEXIST)
		return taken(nic, device, program, f);
	if (rc)
		return fault_say(f, rc, "NIC '%s': attach %s: %s; the kernel needs CONFIG_NET_CLS_BPF",
				 nic->name, program, strerror(-rc));
	h->attached = true;
	return 0;
}

static int attach_nic(struct data_path *d, uint32_t i, struct fault *f)
{
	const struct nic *nic = &d->nics->nic[i];
	size_t n = nics_watch_wire(d->nics) ? N_PLACES : N_PLACES - 1;
	int rc = 0;

	for (size_t p = 0; p < n && !rc; p++) {
		const char *device = (const char *)nic + places[p].device_at;
		struct hook *h = &d->hooks[i * N_PLACES + p];

		*h = (struct hook){ .nic = i, .ifindex = (int)if_nametoindex(device), .at = places[p].at };
		if (!h->ifindex)
			return fault_say(f, -ENODEV, "NIC '%s': there is no %s in %s", nic->name, device,
					 nic->netns);
		rc = attach(d, h, device, p, f);
	}
	return rc;
}

/* A hook that cannot be undone is gone already: devices vanish with their namespaces. */
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
	for (size_t p = N_PLACES; p-- > 0;) /* the clsact of a device last */
		detach(&d->hooks[i * N_PLACES + p]);
	return 0;
}

/* Waits until the loader ends, in whatever way, which closes its pipe. Then detaches all. */
static void guard(struct data_path *d, int in)
{
	struct fault ignored;
	char nothing;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	close(STDIN_FILENO); /* the loader's: a reader waits for the loader alone */
	close(STDOUT_FILENO);
	while (read(in, &nothing, 1) < 0 && errno == EINTR)
		;
	in_each_nic(d, detach_nic, &ignored);
	_exit(0);
}

/* A process of its own takes away what is attached, so that kill -9 of the loader leaves nothing, too.
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
	libbpf_print_fn_t print = libbpf_set_print(NULL); /* a clsact that is there is nothing to warn of */
	int rc = post_guard(d, f);

	if (!rc)
		rc = in_each_nic(d, attach_nic, f);
	libbpf_set_print(print);
	return rc;
}

void data_path_detach(struct data_path *d)
{
	if (d->guard > 0) {
		close(d->alive);
		waitpid(d->guard, NULL, 0);
	}
	if (d->hooks)
		munmap(d->hooks, d->nics->n * N_PLACES * sizeof(*d->hooks));
}
