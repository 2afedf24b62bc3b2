// SPDX-License-Identifier: Apache-2.0
/* libFuzzer entry: what a controller makes of datagrams that claim to be echoes. The input is one datagram
 * after the other, each behind its length and the host from which it comes. */
#include "control.h"
#include "fuzz.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_HOSTS 2
#define SEQ     6

static struct actuator_row row[N_HOSTS] = { { .n_values = 1 }, { .row = 1, .n_values = 1 } };
static const struct port port[N_HOSTS] = { { "h1", "-", "h1", 0, 0 }, { "h2", "-", "h2", 0, 0 } };
static const struct ports ports = { .port = port, .n = N_HOSTS };
static const struct actuators hosts = { .row = row, .ports = &ports, .n = N_HOSTS };
static struct control control;
static int agent[N_HOSTS];
static struct fault fault;

static void open_agent(int i)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	agent[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	require(!bind(agent[i], (struct sockaddr *)&at, len) &&
		!getsockname(agent[i], (struct sockaddr *)&at, &len));
	row[i].control_addr = at.sin_addr.s_addr;
	row[i].control_port = ntohs(at.sin_port);
}

static void open_once(void)
{
	if (control.lines)
		return;
	for (int i = 0; i < N_HOSTS; i++)
		open_agent(i);
	require(!control_open(&control, &hosts, "-", UINT64_MAX, &fault));
}

/* The command that an agent got says where its controller listens. */
static void answer_to(int i)
{
	struct control_packet p;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(agent[i], &p, sizeof(p), 0, (struct sockaddr *)&from, &len);

	require(n == sizeof(p) && control_check(&p, (size_t)n, CONTROL_COMMAND, N_HOSTS) && p.seq == SEQ);
	require(!connect(agent[i], (struct sockaddr *)&from, len));
}

/* Returns true if the datagram is an echo of the command that this host was sent. */
static bool is_echo(const uint8_t *data, size_t len, uint32_t i, uint64_t acked)
{
	struct control_packet p;

	if (len != sizeof(p))
		return false;
	memcpy(&p, data, sizeof(p));
	return p.magic == CONTROL_MAGIC && p.version == 1 && p.kind == CONTROL_ECHO && p.host == i &&
	       p.seq > acked && p.seq <= SEQ;
}

static bool deliver(const uint8_t *data, size_t len, uint32_t i)
{
	uint64_t before = control_acked(&control, i), other = control_acked(&control, !i), all, applied_ns;
	bool echo = is_echo(data, len, i, before);

	require(send(agent[i], data, len, 0) == (ssize_t)len);
	require(!control_poll(&control, 0, &fault));
	require((control_acked(&control, i) > before) == echo && control_acked(&control, !i) == other);
	all = control_all_acked(&control, &applied_ns);
	require(all <= SEQ && all <= control_acked(&control, 0) && all <= control_acked(&control, 1));
	return echo;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t wanted[N_HOSTS * SM_MAX_VALUES];
	uint64_t echoes = 0;

	open_once();
	require(!control_forget(&control, 0, &fault) && !control_send(&control, SEQ, wanted, 0, &fault));
	for (int i = 0; i < N_HOSTS; i++)
		answer_to(i);
	while (size > 2) {
		size_t len = data[0] < size - 2 ? data[0] : size - 2;

		echoes += deliver(data + 2, len, data[1] % N_HOSTS);
		data += 2 + len;
		size -= 2 + len;
	}
	fuzz_count(echoes);
	return 0;
}
