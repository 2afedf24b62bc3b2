/* SPDX-License-Identifier: Apache-2.0 */
#include "tgen_orders.h"

#include <errno.h>
#include <inttypes.h>
#include <lab.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A value counts `unit` of what the option counts. */
static const struct {
	const char *name;
	int level, option;
	socklen_t size;
	uint32_t unit;
} options[NR_ORDERS] = {
	[ORDER_CWND] = { "TCP_SND_CWND", IPPROTO_TCP, TCP_SND_CWND, sizeof(int), 1 },
	[ORDER_CLAMP] = { "TCP_SND_CWND_CLAMP", IPPROTO_TCP, TCP_SND_CWND_CLAMP, sizeof(int), 1 },
	[ORDER_PACING] = { "SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, sizeof(uint64_t), 8 },
};

int orders_open(struct run *run)
{
	sigset_t mask;

	if (!tgen_matrix_has_orders(&run->matrix))
		return 0;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	run->orders = sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -1 : signalfd(-1, &mask, SFD_CLOEXEC);
	if (run->orders < 0)
		return run_fault(run, -errno, "signalfd");
	for (uint32_t i = 0; i < run->table->flows; i++)
		orders_drop(run, i);
	tgen_matrix_set_setter(&run->matrix, (uint64_t)getpid());
	return run_watch(run, run->orders, EPOLLIN, WATCH_ORDERS, 0);
}

static int set(struct run *run, uint32_t number, enum order_kind kind, uint64_t told)
{
	const int fd = run->flows.flow[number].sender, level = options[kind].level,
		  option = options[kind].option;
	uint64_t value = told / options[kind].unit;
	socklen_t size = options[kind].size;

	if (setsockopt(fd, level, option, &value, size) < 0 ||
	    getsockopt(fd, level, option, &value, &size) < 0)
		return run_fault(run, -errno, "flow %u: %s %" PRIu64, number, options[kind].name, value);
	run->flows.flow[number].told[kind] = told;
	tgen_matrix_took(&run->matrix, kind, number, value * options[kind].unit);
	return 0;
}

int orders_set(struct run *run, uint32_t number)
{
	int rc = 0;

	for (enum order_kind kind = 0; kind < NR_ORDERS && !rc; kind++) {
		uint64_t told = tgen_matrix_told(&run->matrix, kind, number);

		if (told && told != run->flows.flow[number].told[kind])
			rc = set(run, number, kind, told);
	}
	return rc;
}

int orders_on_signal(struct run *run)
{
	struct signalfd_siginfo info;
	int rc = 0;

	if (read(run->orders, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return run_fault(run, -EIO, "read what the agent wants");
	for (uint32_t i = 0; i < run->flows.count && !rc; i++) {
		const struct flow *flow = &run->flows.flow[i];

		if (flow->spec->transport == FLOW_TCP && flow->sender >= 0 && flow->phase != PHASE_ENDED)
			rc = orders_set(run, i);
	}
	return rc;
}

void orders_read_back(const struct run *run, uint32_t number, uint32_t cwnd_packets)
{
	if (run->flows.flow[number].phase == PHASE_SENDING)
		tgen_matrix_took(&run->matrix, ORDER_CWND, number, cwnd_packets);
}

void orders_drop(const struct run *run, uint32_t number)
{
	for (enum order_kind kind = 0; kind < NR_ORDERS; kind++)
		tgen_matrix_took(&run->matrix, kind, number, 0);
}
