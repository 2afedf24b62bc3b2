/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tgen_net.h"
#include "tgen_run.h"
#include "tgen_warm.h"

#define MEMORY_FALLBACK (64 << 20) /* where tcp_mem cannot be read: not in the first network namespace */
#define WARM_BURST      16         /* frames after which a switch gets a moment to take them */

static int clamp(long value, int min, int max)
{
	return value < min ? min : value > max ? max : (int)value;
}

/* All sockets together stay below memory pressure: a quarter of the room for what is not sent, a quarter for
 * what is not read. */
static void share_memory(struct run *run)
{
	long memory = net_tcp_memory(), share;

	if (memory <= 0)
		memory = MEMORY_FALLBACK;
	share = memory / 4 / (run->table->flows ? run->table->flows : 1);
	run->ahead_max = clamp(share, ROOM_MIN, AHEAD_MAX);
	run->batch = clamp(share, ROOM_MIN, BATCH_MAX);
}

static int raise_files(struct run *run)
{
	rlim_t need = 2 * (rlim_t)run->table->flows + run->table->namespaces + 64;
	struct rlimit limit;

	for (uint32_t i = 0; i < run->table->flows; i++)
		need += run->table->flow[i].listener == i;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return run_fault(run, -errno, "getrlimit RLIMIT_NOFILE");
	if (limit.rlim_cur >= need)
		return 0;
	limit.rlim_cur = need;
	if (limit.rlim_max < need)
		limit.rlim_max = need;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return run_fault(run, -errno,
				 "raise RLIMIT_NOFILE to %llu (raise fs.nr_open, or run fewer flows)",
				 (unsigned long long)need);
	return 0;
}

static int open_namespaces(struct run *run)
{
	for (uint32_t i = 0; i < run->table->namespaces; i++) {
		run->namespaces[i] = open(run->table->ns[i], O_RDONLY | O_CLOEXEC);
		if (run->namespaces[i] < 0)
			return run_fault(run, -errno, "open network namespace %s", run->table->ns[i]);
	}
	return 0;
}

static int enter(struct run *run, uint32_t ns)
{
	if (setns(run->namespaces[ns], CLONE_NEWNET) < 0)
		return run_fault(run, -errno, "enter network namespace %s (root's rights are needed)",
				 run->table->ns[ns]);
	return 0;
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

static int open_listener(struct run *run, uint32_t number, const struct net_limits *limits)
{
	const struct flow_spec *spec = &run->table->flow[number];
	const char *step;
	int fd;

	fd = net_listen((struct net_end){ spec->dst_addr, spec->dst_port }, spec->cc, limits, run->batch,
			&step);
	if (fd < 0)
		return socket_fault(run, fd, number, "receiver", step);
	run->listeners[number] = fd;
	return run_watch(run, fd, EPOLLIN, WATCH_LISTENER, number);
}

static int open_sender(struct run *run, uint32_t number, const struct net_limits *limits)
{
	const struct flow_spec *spec = &run->table->flow[number];
	struct flow *flow = &run->flows[number];
	const char *step;
	int fd;

	flow->ahead = run->ahead_max < AHEAD_FIRST ? run->ahead_max : AHEAD_FIRST;
	fd = net_sender((struct net_end){ spec->src_addr, spec->src_port }, spec->cc, limits, flow->ahead,
			&step);
	if (fd < 0)
		return socket_fault(run, fd, number, "sender", step);
	flow->sender = fd;
	return 0;
}

static int open_sockets_of(struct run *run, uint32_t ns)
{
	const struct flow_table *t = run->table;
	struct net_limits limits;
	int rc;

	rc = enter(run, ns);
	if (rc)
		return rc;
	rc = net_limits_read(&limits);
	if (rc)
		return run_fault(run, rc, "read tcp_wmem and tcp_rmem of %s", t->ns[ns]);
	for (uint32_t i = 0; i < t->flows; i++) {
		if (t->flow[i].dst_ns == ns && t->flow[i].listener == i)
			rc = open_listener(run, i, &limits);
		if (!rc && t->flow[i].src_ns == ns)
			rc = open_sender(run, i, &limits);
		if (rc)
			return rc;
	}
	return 0;
}

int setup_sockets(struct run *run)
{
	int rc;

	share_memory(run);
	rc = raise_files(run);
	if (!rc)
		rc = open_namespaces(run);
	for (uint32_t ns = 0; !rc && ns < run->table->namespaces; ns++)
		rc = open_sockets_of(run, ns);
	return rc;
}

static void pause_ns(long ns)
{
	const struct timespec moment = { .tv_nsec = ns };

	nanosleep(&moment, NULL);
}

static int warm_one(struct run *run, const struct warm_host *host, uint32_t number, bool forward)
{
	const struct flow_spec *spec = &run->table->flow[number];
	struct net_end src = { spec->src_addr, spec->src_port }, dst = { spec->dst_addr, spec->dst_port };
	const char *step;
	int rc;

	rc = forward ? warm_send(host, src, dst, &step) : warm_send(host, dst, src, &step);
	if (rc)
		return run_fault(run, rc, "flow %u: --warm %s: %s", number, forward ? "forward" : "backward",
				 step);
	return 0;
}

/* `sent` counts over all namespaces: this process is real-time, and the switches run only while it sleeps. */
static int warm_from(struct run *run, uint32_t ns, struct warm_host *host, unsigned *sent)
{
	const struct flow_table *t = run->table;
	const char *step;
	int rc;

	rc = warm_open(host, &step);
	if (rc)
		return run_fault(run, rc, "--warm in %s: %s", t->ns[ns], step);
	for (uint32_t i = 0; !rc && i < t->flows; i++) {
		if (t->flow[i].src_ns == ns)
			rc = warm_one(run, host, i, true);
		if (!rc && t->flow[i].dst_ns == ns)
			rc = warm_one(run, host, i, false);
		*sent += (t->flow[i].src_ns == ns) + (t->flow[i].dst_ns == ns);
		if (*sent >= WARM_BURST) {
			pause_ns(1000000);
			*sent = 0;
		}
	}
	return rc;
}

int setup_warm(struct run *run)
{
	unsigned sent = 0;
	int rc = 0;

	for (uint32_t ns = 0; !rc && ns < run->table->namespaces; ns++) {
		struct warm_host host = { .fd = -1 };

		rc = enter(run, ns);
		if (!rc)
			rc = warm_from(run, ns, &host, &sent);
		warm_close(&host);
	}
	if (!rc)
		pause_ns(100000000);
	return rc;
}
