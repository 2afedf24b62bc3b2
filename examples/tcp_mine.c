// SPDX-License-Identifier: GPL-2.0-only
/*
 * A TCP of one's own: additive increase, multiplicative decrease, as RFC 5681 has them, with two constants.
 *
 * The window is tp->snd_cwnd, in segments. The kernel keeps loss detection, recovery and retransmission
 * timeouts for itself: it asks here for the threshold after a loss, and for growth at each ACK.
 */
#include <linux/module.h>
#include <net/tcp.h>

#define INCREASE	1	/* segments a round trip */
#define KEPT_PERCENT	70	/* of the window at a loss */

/* State of one connection, which the kernel keeps in the socket. */
struct mine {
	u32 growth; /* segments acknowledged that have not yet grown the window */
};

static void mine_init(struct sock *sk)
{
	struct mine *state = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(*state) > ICSK_CA_PRIV_SIZE);
	state->growth = 0;
}

/* Returns the window after a loss, and the threshold of slow start from then on. */
static u32 mine_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * KEPT_PERCENT / 100, 2U);
}

/* Grows the window for `acked` segments that an ACK has acknowledged. */
static void mine_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mine *state = inet_csk_ca(sk);
	u32 window;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	window = tcp_snd_cwnd(tp);
	state->growth += INCREASE * acked;
	tcp_snd_cwnd_set(tp, min(window + state->growth / window, tp->snd_cwnd_clamp));
	state->growth %= window;
}

static struct tcp_congestion_ops mine = {
	.name		= "mine",
	.init		= mine_init,
	.ssthresh	= mine_ssthresh,
	.cong_avoid	= mine_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init mine_register(void)
{
	return tcp_register_congestion_control(&mine);
}

module_init(mine_register);
