// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion control `agent`, whose window a program sets, and the socket options for that (lab.h).
 *
 * The kernel keeps what is not a decision: it detects losses, retransmits, backs its timer off, and paces by
 * window and round trip (at 120 %, or SO_MAX_PACING_RATE). The window, in packets:
 *
 * - open, or packets out of order: what was set, also after an idle time;
 * - fast recovery, and after ECE: proportional rate reduction (RFC 6937) towards what was set. Packets go out
 * as others arrive, and when the loss is repaired the window is what was set;
 * - retransmission timeout: 1 at first, then a packet more for each that arrives, up to what was set;
 * - a recovery that proves needless: what was set.
 *
 * Nothing but the option changes what was set. Until then it is the initial window.
 */
#include "lab_acks.h"

#include <linux/lab.h>

struct agent {
	u32 window;      /* that was set; 0: none yet */
	bool restarting; /* from one packet, after a timeout */
};

static_assert(sizeof(struct agent) <= ICSK_CA_PRIV_SIZE);

static u32 window_of(const struct sock *sk)
{
	const struct agent *agent = inet_csk_ca(sk);

	return min(agent->window, tcp_sk(sk)->snd_cwnd_clamp);
}

static void agent_init(struct sock *sk)
{
	struct agent *agent = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!agent->window)
		agent->window = tcp_snd_cwnd(tp);
	agent->restarting = false;
	tcp_snd_cwnd_set(tp, window_of(sk));
	WRITE_ONCE(tp->snd_ssthresh, window_of(sk));
}

static u32 agent_window(struct sock *sk)
{
	return window_of(sk);
}

static void agent_set_state(struct sock *sk, u8 state)
{
	struct agent *agent = inet_csk_ca(sk);

	if (state == TCP_CA_Loss)
		agent->restarting = true;
}

static void agent_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct agent *agent = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = window_of(sk), cwnd = tcp_snd_cwnd(tp);

	if (tcp_in_cwnd_reduction(sk)) {
		tcp_cwnd_reduction(sk, rs->acked_sacked, rs->losses, flag);
	} else if (agent->restarting && cwnd < window) {
		tcp_snd_cwnd_set(tp, min(cwnd + rs->acked_sacked, window));
	} else {
		agent->restarting = false;
		tcp_snd_cwnd_set(tp, window);
	}
	tcp_update_pacing_rate(sk);
}

static struct tcp_congestion_ops agent_ops = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = agent_init,
	.ssthresh = agent_window,
	.set_state = agent_set_state,
	.cong_control = agent_control,
	.undo_cwnd = agent_window,
	.owner = THIS_MODULE,
	.name = "agent",
};

/* A connection takes its new limit at once, where it does not repair a loss. */
static void take(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = window_of(sk);

	WRITE_ONCE(tp->snd_ssthresh, window);
	if (tcp_in_cwnd_reduction(sk))
		return;
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss)
		window = min(window, tcp_snd_cwnd(tp));
	tcp_snd_cwnd_set(tp, window);
	tcp_push_pending_frames(sk);
}

static bool runs_agent(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops == &agent_ops;
}

int lab_tcp_setsockopt(struct sock *sk, int optname, int value)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct agent *agent = inet_csk_ca(sk);

	if (optname != TCP_SND_CWND && optname != TCP_SND_CWND_CLAMP && optname != TCP_LAB_ACKS)
		return -ENOPROTOOPT;
	if (value < 1)
		return -EINVAL;
	if (optname == TCP_LAB_ACKS)
		return lab_acks_choose(tp, value);
	if (optname == TCP_SND_CWND) {
		if (!runs_agent(sk))
			return -EOPNOTSUPP;
		agent->window = value;
	} else {
		tp->snd_cwnd_clamp = value;
	}
	if (runs_agent(sk) && icsk->icsk_ca_initialized)
		take(sk);
	else if (optname == TCP_SND_CWND_CLAMP && tcp_snd_cwnd(tp) > value)
		tcp_snd_cwnd_set(tp, value);
	return 0;
}

int lab_tcp_getsockopt(struct sock *sk, int optname)
{
	const struct agent *agent = inet_csk_ca(sk);

	switch (optname) {
	case TCP_SND_CWND:
		return runs_agent(sk) ? agent->window : tcp_snd_cwnd(tcp_sk(sk));
	case TCP_SND_CWND_CLAMP:
		return min_t(u32, tcp_sk(sk)->snd_cwnd_clamp, INT_MAX);
	default:
		return -ENOPROTOOPT;
	}
}

static int __init lab_tcp_init(void)
{
	return tcp_register_congestion_control(&agent_ops);
}
late_initcall(lab_tcp_init);
