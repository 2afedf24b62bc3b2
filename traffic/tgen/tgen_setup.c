/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_setup.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tgen_flow.h"
#include "tgen_rdma.h"
#include "tgen_tcp.h"
#include "tgen_udp.h"
#include "tgen_warm.h"

static rlim_t most_files(void)
{
	FILE *f = fopen("/proc/sys/fs/nr_open", "re");
	unsigned long long most = 1 << 20; /* the kernel's default */

	if (f) {
		if (fscanf(f, "%llu", &most) != 1)
			most = 1 << 20;
		fclose(f);
	}
	return most;
}

/* Two a flow would be needed if all were under way at once; beyond what the kernel allows, they may not be.
 */
static int raise_files(struct run *run)
{
	rlim_t need = 2 * (rlim_t)run->table->flows + run->table->namespaces + 64, most = most_files();
	struct rlimit limit;

	for (uint32_t i = 0; i < run->table->flows; i++)
		need += run->table->flow[i].listener == i;
	need = need < most ? need : most;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return run_fault(run, -errno, "getrlimit RLIMIT_NOFILE");
	if (limit.rlim_cur >= need)
		return 0;
	limit.rlim_cur = need;
	if (limit.rlim_max < need)
		limit.rlim_max = need;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return run_fault(run, -errno,
				 "raise RLIMIT_NOFILE to %llu (root's rights are needed, or fewer flows)",
				 (unsigned long long)need);
	return 0;
}

static int open_namespaces(struct run *run)
{
	uint32_t failed;
	int rc = hosts_open(&run->hosts, run->table, &failed);

	return rc ? run_fault(run, rc, "open network namespace %s", run->table->netns[failed].path) : 0;
}

static int socket_fault(struct run *run, int rc, uint32_t number, const char *end, const char *step)
{
	const struct flow_spec *spec = &run->table->flow[number];

	if (strcmp(step, "TCP_CONGESTION") == 0 && rc == -ENOENT)
		return run_fault(run, rc,
				 "flow %u: congestion control '%s' is not available in this kernel; load it "
				 "or name another",
				 number, spec->cc);
	return run_fault(run, rc, "flow %u: %s: %s", number, end, step);
}

static int open_listener(struct run *run, uint32_t number)
{
	const struct flow_spec *spec = &run->table->flow[number];
	const struct net_limits *limits = &run->hosts.limits[spec->dst_ns];
	struct net_end at = { spec->dst_addr, spec->dst_port };
	const char *step;
	int fd;

	fd = spec->transport == FLOW_UDP
		     ? net_sink(at, limits, &step)
		     : net_listen(at, spec->cc, limits, memory_share(&run->memory, BATCH_MAX), &step);
	if (fd < 0)
		return socket_fault(run, fd, number, "receiver", step);
	run->receivers.listeners[number] = fd;
	if (spec->transport == FLOW_TCP)
		return run_watch(run, fd, EPOLLIN, WATCH_LISTENER, number);
	run->receivers.udp[run->receivers.udp_count++] = number;
	return 0;
}

/* Senders are opened when they start; what would go wrong then for all of a host shows now. */
static int try_sender(struct run *run, uint32_t number)
{
	const struct net_sender sender = flow_sender(run, number, AHEAD_FIRST);
	const char *step;
	int rc = net_try_sender(&run->calls, &sender, &step);

	return rc ? socket_fault(run, rc, number, "sender", step) : 0;
}

static int enter_and_learn(struct run *run, uint32_t ns)
{
	int rc = run_enter(run, ns);

	if (rc || run->hosts.limits[ns].rcvbuf)
		return rc;
	rc = net_limits_read(&run->hosts.limits[ns]);
	return rc ? run_fault(run, rc, "read tcp_wmem and tcp_rmem of %s", run->table->netns[ns].path) : 0;
}

static int open_sockets(struct run *run)
{
	const struct flow_table *t = run->table;
	bool *tried = calloc(t->namespaces + 1, sizeof(*tried));
	int rc = tried ? 0 : run_fault(run, -ENOMEM, "allocate");

	for (uint32_t i = 0; !rc && i < t->flows; i++) {
		if (t->flow[i].transport == FLOW_RDMA) /* its NICs have them */
			continue;
		if (t->flow[i].listener == i) {
			rc = enter_and_learn(run, t->flow[i].dst_ns);
			if (!rc)
				rc = open_listener(run, i);
		}
		if (!rc && !tried[t->flow[i].src_ns]) {
			tried[t->flow[i].src_ns] = true;
			rc = enter_and_learn(run, t->flow[i].src_ns);
			if (!rc)
				rc = try_sender(run, i);
		}
	}
	free(tried);
	return rc;
}

int setup_sockets(struct run *run)
{
	int rc;

	memory_open(&run->memory);
	rc = raise_files(run);
	if (!rc)
		rc = open_namespaces(run);
	if (!rc)
		rc = rdma_open(run);
	return rc ? rc : open_sockets(run);
}

/* --- warming ----------------------------------------------------------------------------------------- */

struct frame {
	uint32_t ns, flow;
	bool forward, nic; /* nic: what the NIC sends for a flow of TCP */
};

static void pause_ns(int64_t ns)
{
	const struct timespec moment = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	nanosleep(&moment, NULL);
}

static int compare_frames(const void *a, const void *b)
{
	const struct frame *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	if (x->flow != y->flow)
		return x->flow < y->flow ? -1 : 1;
	return y->forward != x->forward ? y->forward - x->forward : x->nic - y->nic;
}

static int same_route(const void *context, uint32_t element, const void *key)
{
	const struct run *run = context;
	const struct flow_spec *a = &run->table->flow[element], *b = key;
	uint16_t mask = run->config->warm.mask;

	return a->transport == b->transport && a->src_addr == b->src_addr && a->dst_addr == b->dst_addr &&
	       ((a->src_port ^ b->src_port) & mask) == 0 && ((a->dst_port ^ b->dst_port) & mask) == 0;
}

/* One flow of those that switches cannot tell apart: their ports differ outside the mask alone. */
static bool is_first_of_route(const struct run *run, struct slots *routes, uint32_t number)
{
	const struct flow_spec *spec = &run->table->flow[number];
	uint16_t mask = run->config->warm.mask;
	uint32_t key[] = { spec->src_addr, spec->dst_addr, spec->src_port & mask, spec->dst_port & mask,
			   spec->transport };
	uint32_t *slot = slots_find(routes, hash_bytes(key, sizeof(key)), same_route, run, spec);

	if (*slot != SLOT_EMPTY)
		return false;
	*slot = number;
	return true;
}

/* Forward and back, in the order of the namespaces that they start from. Datagrams are answered by nobody,
 * but a NIC answers. */
static int list_frames(const struct run *run, struct frame **frames, uint32_t *count)
{
	const struct flow_table *t = run->table;
	struct slots routes;
	int rc;

	*count = 0;
	*frames = calloc(4 * (size_t)t->flows + 1, sizeof(**frames));
	rc = slots_init(&routes, t->flows);
	if (!*frames)
		rc = -ENOMEM;
	for (uint32_t i = 0; !rc && i < t->flows; i++) {
		if (!is_first_of_route(run, &routes, i))
			continue;
		(*frames)[(*count)++] = (struct frame){ t->flow[i].src_ns, i, true, false };
		if (t->flow[i].transport != FLOW_UDP)
			(*frames)[(*count)++] = (struct frame){ t->flow[i].dst_ns, i, false, false };
		if (t->flow[i].transport == FLOW_TCP && nic_has_row(&run->nics, i)) {
			(*frames)[(*count)++] = (struct frame){ t->flow[i].src_ns, i, true, true };
			(*frames)[(*count)++] = (struct frame){ t->flow[i].dst_ns, i, false, true };
		}
	}
	slots_free(&routes);
	qsort(*frames, *count, sizeof(**frames), compare_frames);
	return rc;
}

static int warm_one(struct run *run, const struct warm_host *host, const struct frame *frame)
{
	const struct flow_spec *spec = &run->table->flow[frame->flow];
	struct net_end src = { spec->src_addr, spec->src_port }, dst = { spec->dst_addr, spec->dst_port };
	struct net_end from = dst, to = src; /* backward */
	int protocol = spec->transport == FLOW_TCP && !frame->nic ? IPPROTO_TCP : IPPROTO_UDP;
	const char *step;
	int rc;

	if (frame->nic)
		rdma_ports(run, frame->flow, &src.port, &dst.port);
	if (frame->nic || spec->transport == FLOW_RDMA)
		rdma_answer_ports(run, frame->flow, &from.port, &to.port);
	rc = frame->forward ? warm_send(host, protocol, src, dst, &step)
			    : warm_send(host, protocol, from, to, &step);
	if (rc)
		return run_fault(run, rc, "flow %u: --warm %s: %s", frame->flow,
				 frame->forward ? "forward" : "backward", step);
	return 0;
}

/*
 * The frames from `first` on that start in its namespace; answers how many, or -errno. Bursts are counted
 * over all namespaces: this process is real-time, and the switches run only while it sleeps.
 */
static int warm_from(struct run *run, const struct frame *all, uint32_t first, uint32_t count)
{
	const struct frame *frames = all + first;
	struct warm_host host = { .fd = -1 };
	uint32_t sent = 0;
	const char *step;
	int rc;

	rc = run_enter(run, frames[0].ns);
	if (!rc) {
		rc = warm_open(&host, &step);
		if (rc)
			run_fault(run, rc, "--warm in %s: %s", run->table->netns[frames[0].ns].path, step);
	}
	while (!rc && first + sent < count && frames[sent].ns == frames[0].ns) {
		rc = warm_one(run, &host, &frames[sent]);
		if ((first + ++sent) % run->config->warm.burst == 0)
			pause_ns(run->config->warm.gap_ns);
	}
	warm_close(&host);
	return rc ? rc : (int)sent;
}

int setup_warm(struct run *run)
{
	struct frame *frames;
	uint32_t count;
	int rc;

	rc = list_frames(run, &frames, &count);
	if (rc)
		run_fault(run, rc, "--warm: allocate");
	for (uint32_t done = 0; !rc && done < count;) {
		int sent = warm_from(run, frames, done, count);

		rc = sent < 0 ? sent : 0;
		done += sent > 0 ? (uint32_t)sent : 0;
	}
	free(frames);
	if (!rc)
		pause_ns(run->config->warm.settle_ns);
	return rc ? rc : udp_take(run); /* it drops datagrams with a wrong checksum */
}
