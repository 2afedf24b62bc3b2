// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
#include "hooks.h"

#include <bpf/libbpf.h>
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
} places[HOOK_PROGRAMS] = {
	/* the order is that of hook_programs */
	{ offsetof(struct nic, ring), BPF_TC_EGRESS },
	{ offsetof(struct nic, tail), BPF_TC_INGRESS },
	{ offsetof(struct nic, wire), BPF_TC_INGRESS },
	{ offsetof(struct nic, wire), BPF_TC_EGRESS },
};

const char *const hook_programs[HOOK_PROGRAMS] = { "nic_depart", "nic_turn", "nic_receive", "nic_cap" };

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

int in_each_nic(const struct nics *nics, int (*work)(void *context, uint32_t nic, struct fault *f),
		void *context, struct fault *f)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), rc = 0;

	if (home < 0)
		return fault_say(f, -errno, "open /proc/self/ns/net: %s", strerror(errno));
	for (uint32_t i = 0; i < nics->n && !rc; i++) {
		rc = enter(nics->nic[i].netns, f);
		if (!rc)
			rc = work(context, i, f);
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

static int attach(const struct hooks *hooks, struct hook *h, const char *device, size_t p, struct fault *f)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = h->ifindex, .attach_point = h->at);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);
	const struct nic *nic = &hooks->nics->nic[h->nic];
	const char *program = hook_programs[p];
	int rc = bpf_tc_hook_create(&hook);

	if (rc && rc != -EEXIST)
		return fault_say(f, rc,
				 "NIC '%s': add qdisc clsact: %s; the kernel needs CONFIG_NET_SCH_INGRESS",
				 nic->name, strerror(-rc));
	h->made = !rc;
	opts.prog_fd = hooks->program[p];
	rc = bpf_tc_attach(&hook, &opts);
	if (rc == -EEXIST)
		return taken(nic, device, program, f);
	if (rc)
		return fault_say(f, rc, "NIC '%s': attach %s: %s; the kernel needs CONFIG_NET_CLS_BPF",
				 nic->name, program, strerror(-rc));
	h->attached = true;
	return 0;
}

static int attach_nic(void *context, uint32_t i, struct fault *f)
{
	const struct hooks *hooks = context;
	const struct nic *nic = &hooks->nics->nic[i];
	size_t n = nics_watch_wire(hooks->nics) ? HOOK_PROGRAMS : HOOK_PROGRAMS - 1;
	int rc = 0;

	for (size_t p = 0; p < n && !rc; p++) {
		const char *device = (const char *)nic + places[p].device_at;
		struct hook *h = &hooks->hook[i * HOOK_PROGRAMS + p];

		*h = (struct hook){ .nic = i, .ifindex = (int)if_nametoindex(device), .at = places[p].at };
		if (!h->ifindex)
			return fault_say(f, -ENODEV, "NIC '%s': there is no %s in %s", nic->name, device,
					 nic->netns);
		rc = attach(hooks, h, device, p, f);
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

static int detach_nic(void *context, uint32_t i, struct fault *f)
{
	const struct hooks *hooks = context;

	(void)f;
	for (size_t p = HOOK_PROGRAMS; p-- > 0;) /* the clsact of a device last */
		detach(&hooks->hook[i * HOOK_PROGRAMS + p]);
	return 0;
}

/* Waits until the loader ends, in whatever way, which closes its pipe. Then detaches all. */
static void guard(struct hooks *hooks, int in)
{
	struct fault ignored;
	char nothing;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	close(STDIN_FILENO); /* the loader's: a reader waits for the loader alone */
	close(STDOUT_FILENO);
	while (read(in, &nothing, 1) < 0 && errno == EINTR)
		;
	in_each_nic(hooks->nics, detach_nic, hooks, &ignored);
	_exit(0);
}

/* A process of its own takes away what is attached, so that kill -9 of the loader leaves nothing, too.
 */
static int post_guard(struct hooks *hooks, struct fault *f)
{
	int ends[2];

	hooks->hook = mmap(NULL, hooks->nics->n * HOOK_PROGRAMS * sizeof(*hooks->hook),
			   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hooks->hook == MAP_FAILED) {
		hooks->hook = NULL;
		return fault_say(f, -ENOMEM, "out of memory for %u NICs", hooks->nics->n);
	}
	if (pipe2(ends, O_CLOEXEC))
		return fault_say(f, -errno, "make a pipe: %s", strerror(errno));
	hooks->guard = fork();
	if (hooks->guard == 0) {
		close(ends[1]);
		guard(hooks, ends[0]);
	}
	close(ends[0]);
	hooks->alive = ends[1];
	return hooks->guard < 0 ? fault_say(f, -errno, "start a process: %s", strerror(errno)) : 0;
}

int hooks_attach(struct hooks *hooks, struct fault *f)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL); /* a clsact that is there is nothing to warn of */
	int rc = post_guard(hooks, f);

	if (!rc)
		rc = in_each_nic(hooks->nics, attach_nic, hooks, f);
	libbpf_set_print(print);
	return rc;
}

void hooks_detach(struct hooks *hooks)
{
	if (hooks->guard > 0) {
		close(hooks->alive);
		waitpid(hooks->guard, NULL, 0);
	}
	if (hooks->hook)
		munmap(hooks->hook, hooks->nics->n * HOOK_PROGRAMS * sizeof(*hooks->hook));
}
