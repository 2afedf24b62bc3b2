// SPDX-License-Identifier: GPL-2.0-only
/*
 * The record of ACKs: what each ACK that a chosen connection gets leaves behind (struct lab_ack of lab.h).
 *
 * lab_acks=MOST,PATH names the host's file for the first MOST records; without it none can be chosen. A
 * program chooses a connection by TCP_LAB_ACKS. tcp_take_ack() calls lab_acked() in all states of a
 * connection, after its congestion control.
 *
 * It does not change a run: t_ns is the time that TCP read for this segment, and no other passes here, so
 * nothing interrupts it.
 */
#include "lab_acks.h"

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/lab.h>
#include <linux/reboot.h>
#include <os.h>

static_assert(sizeof(struct lab_ack) == 48);

static struct lab_ack records[256];
static unsigned int waiting; /* of them: not written yet */
static struct lab_acks_end counts;
static u64 most;
static int fd = -1;

static const char *path;

static int __init lab_acks_setup(char *arg)
{
	most = simple_strtoull(arg, &arg, 10);
	path = *arg == ',' ? arg + 1 : "";
	return 1;
}
__setup("lab_acks=", lab_acks_setup);

static void write_out(const void *from, int bytes)
{
	int written = os_write_file(fd, from, bytes);

	if (written != bytes)
		panic("lab_acks: the records of ACKs cannot be written (%d of %d bytes); is the disk full?",
		      written, bytes);
}

static void write_waiting(void)
{
	write_out(records, waiting * sizeof(records[0]));
	waiting = 0;
}

void lab_acked(const struct tcp_sock *tp)
{
	if (fd < 0)
		return;
	if (counts.kept == most) {
		counts.lost++;
		return;
	}
	records[waiting++] = (struct lab_ack){
		.t_ns = tp->tcp_clock_cache,
		.bytes_acked = tp->bytes_acked,
		.flow = tp->lab_flow - 1,
		.srtt_us_8 = tp->srtt_us,
		.cwnd_packets = tcp_snd_cwnd(tp),
		.ssthresh_packets = tp->snd_ssthresh,
		.delivered_packets = tp->delivered,
		.in_flight_packets = tcp_packets_in_flight(tp),
		.unacked_bytes = tp->snd_nxt - tp->snd_una,
		.ca_state = tp->inet_conn.icsk_ca_state,
	};
	counts.kept++;
	if (waiting == ARRAY_SIZE(records))
		write_waiting();
}

int lab_acks_choose(struct tcp_sock *tp, int value)
{
	if (fd < 0)
		return -ENXIO;
	tp->lab_flow = value;
	return 0;
}

/* The lab ends. */
static int finish(struct notifier_block *self, unsigned long event, void *data)
{
	write_waiting();
	write_out(&counts, sizeof(counts));
	os_close_file(fd);
	fd = -1;
	return NOTIFY_DONE;
}

static struct notifier_block finish_block = { .notifier_call = finish };

/* After the channel, which reports a panic. */
static int __init lab_acks_init(void)
{
	if (!path)
		return 0;
	fd = os_open_file(path, of_create(of_write(OPENFLAGS())), 0600);
	if (fd < 0)
		panic("lab_acks: %s cannot be made (error %d)", path, -fd);
	return register_reboot_notifier(&finish_block);
}
late_initcall(lab_acks_init);
