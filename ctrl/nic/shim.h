/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The NIC shim: what its parts say to one another (docs/nic.md). Frames on the wire, the rows of flows in
 * memory that the data path (shim.bpf.c), its loader (nicd.c) and the traffic generator share, and the
 * records that it hands out.
 *
 * A flow is a queue pair: one sender, one receiver, one number for both, the flow's row in every table. Its
 * messages are RDMA WRITEs of one size (the last may be shorter), cut into packets of `payload_bytes`. To
 * post work, the host writes the flow's new `end` into its row and rings: it sends one NIC_DOORBELL frame
 * into the NIC's ring.
 */
#ifndef DCGYM_SHIM_H
#define DCGYM_SHIM_H

#include "cc.h"

#define NIC_VERSION    LAB_INT_VERSION
#define NIC_UDP_PORT   4791      /* RoCEv2 */
#define NIC_MARK_TOKEN 0x4e4943u /* skb->mark of a token, inside of a NIC */

/* ---- on the wire: behind Ethernet, IPv4 (no options) and UDP (checksum 0) ---- */

enum nic_opcode {
	NIC_DATA = 1,
	NIC_ACK,    /* all before psn have arrived */
	NIC_NACK,   /* likewise, and psn is missed */
	NIC_CNP,    /* a congestion mark was seen */
	NIC_PROBE,  /* round trip asked */
	NIC_ANSWER, /* and answered, with the probe's times and the receiver's */
	/* Inside of a host only; dropped where a cable brings them. */
	NIC_TOKEN,    /* the right to send one packet, on its way round */
	NIC_DOORBELL, /* the host has posted work */
};

enum nic_flag {
	NIC_LAST = 1,           /* DATA: of its message */
	NIC_ACK_REQUEST = 2,    /* DATA: answer at once */
	NIC_RESENT = 4,         /* DATA: not the first time */
	NIC_INT = LAB_INT_FLAG, /* DATA, ACK, NACK: struct lab_int stands behind the header */
	NIC_TRIMMED = 16,       /* NACK: one packet came without its payload */
	NIC_MARKED = 32,        /* with NIC_SPRAYED: the packet that it answers was marked */
	NIC_SPRAYED = 64,       /* ACK, NACK of transport uec: see `sum` */
};

/* Network byte order. */
struct nic_header {
	uint8_t version, opcode, flags, reserved;
	uint32_t flow;
	uint32_t psn; /* DATA: of the packet; ACK, NACK: see above; PROBE, ANSWER: number of the probe */
	/* DATA: tag of the packet (nic_tag); the message's sum of tags tells that it is whole. ACK, NACK with
	 * selective repeat: the first packet behind the gap at psn; psn itself: nothing behind it has
	 * arrived. With NIC_TRIMMED: the packet that came without its payload. With NIC_SPRAYED: the packet
	 * that it answers; received_ns and answered_ns are then a bitmap of what has arrived, of that packet
	 * (the highest bit) and the 63 before it, and the UDP source port is that packet's
	 */
	uint32_t sum;
	uint32_t sent_ns;                  /* sender's clock: DATA, PROBE; returned by ACK, NACK, ANSWER */
	uint32_t received_ns, answered_ns; /* receiver's clock: ANSWER */
	uint32_t marked; /* ACK, CNP: marked packets seen so far; ANSWER: packets received so far */
};
#define NIC_HEADER_BYTES 32
#define NIC_FRAME_BYTES  (14 + 20 + 8 + NIC_HEADER_BYTES) /* without payload */
_Static_assert(sizeof(struct nic_header) == NIC_HEADER_BYTES, "NIC header");
_Static_assert(NIC_FRAME_BYTES == LAB_INT_AT && NIC_UDP_PORT == LAB_INT_UDP && NIC_DATA == LAB_INT_WRITE,
	       "ports write into DATA, behind its header");

/*
 * With CC_TELEMETRY all DATA, ACK and NACK of a flow carry struct lab_int, 42 bytes that count as headers.
 * DATA leaves with zeros there, and the ports on its way fill them. An ACK or NACK brings back those of the
 * packet that it answers.
 */

/* Spreads numbers over 32 bits, so that sums of tags of other packets do not meet by chance. */
static inline uint32_t nic_tag(uint32_t flow, uint32_t psn)
{
	uint32_t x = (flow * 0x9e3779b1u) ^ psn;

	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ (x >> 16);
}

#define BYTE_NS_SHIFT 20

/*
 * Returns the time of `bytes` bytes at `byte_ns` (Q20) each, rounded down. It has two parts: the whole
 * product of a burst at the least rate of a slow line does not fit 64 bits.
 */
static inline uint64_t nic_span_ns(uint32_t bytes, uint64_t byte_ns)
{
	uint64_t part = byte_ns & ((1u << BYTE_NS_SHIFT) - 1);

	return bytes * (byte_ns >> BYTE_NS_SHIFT) + (bytes * part >> BYTE_NS_SHIFT);
}

/* ---- shared memory: BPF arrays that userspace maps ---- */

#define NIC_QUEUE_MAX 256 /* events in a NIC's queue; a power of two */

/* One NIC. Written by the loader; from `free_at` on by the data path. */
struct nic_port {
	uint32_t wire_ifindex; /* the host's cable end */
	uint32_t ring_ifindex; /* the end of the internal pair that has fq */
	uint64_t line_bps;
	uint64_t byte_ns;       /* at the line rate, Q20 */
	uint64_t free_at;       /* its transmitter is free then, ns in Q8: departure clock of all its flows */
	uint64_t busy_until_ns; /* settings.in_turn: when the last event so far will have been dealt with */
	uint64_t sent_packets, sent_bytes; /* frames that it made, all kinds */
	uint64_t dropped_packets; /* frames to it that make no sense, or that the kernel had no room for */
	/* settings.beside, both ns in Q8 */
	uint64_t host_left; /* line time that the host's own frames are still due */
	uint64_t host_at;   /* when that was so */
	/* settings.event_queue: how many events have had a place in the queue, and when the last ones of them
	 * leave it, by that number */
	uint64_t queued;
	uint64_t done_ns[NIC_QUEUE_MAX];
};

/* Events of one type that the algorithm has not been told of yet. */
struct nic_pending {
	uint32_t count, first_ns, bytes, packets;
};
#define NIC_PENDING_TYPES 8 /* indexed by enum cc_event_type; a power of two */

#define NIC_WINDOW_PACKETS                                                                                   \
	512 /* selective repeat: most packets between the first missing and the last sent */

#define NIC_ENTROPIES_MAX 256 /* transport uec: values of a flow, of 8 bits */

/* How transport uec chooses a packet's entropy value. */
enum nic_balancer {
	NIC_OBLIVIOUS, /* all in turn, in another order each time */
	NIC_BITMAP,    /* likewise, less those whose packets were marked or trimmed */
	NIC_REPS,      /* those whose packets were acknowledged without a mark, else any */
};

/*
 * The sending end of a flow. The loader writes what is constant, the traffic generator `end` (and before the
 * start, what the flow takes over from another), the data path the rest.
 */
struct nic_sender {
	/* constant */
	uint8_t frame[NIC_FRAME_BYTES]; /* headers of all its frames, in network byte order */
	uint8_t pad[6];
	uint32_t port;          /* row of its NIC */
	uint32_t payload_bytes; /* a full packet's */
	uint64_t message_bytes; /* a message's; at least 1 */
	uint64_t total_bytes;   /* the whole flow's; UINT64_MAX: no end */
	uint64_t total_packets; /* likewise */
	uint32_t message_packets;
	uint32_t tail_bytes;     /* payload of a message's last packet */
	uint32_t final_bytes;    /* payload of the flow's last packet */
	uint32_t kept;           /* it began with what another flow left; the traffic generator writes that */
	uint32_t inflight_bytes; /* no window is larger; 0: no limit */
	uint32_t pad2;
	struct cc_flow flow;
	/* transport: packets are numbered from 0, the wire has the low 32 bits */
	uint64_t end;                /* packets posted; UINT64_MAX: no end */
	uint64_t next, acked;        /* the next to send, the first not acknowledged */
	uint64_t high;               /* the first never sent */
	uint64_t repeat, repeat_end; /* packets to send once more, before `next` */
	uint64_t repeated;           /* selective repeat: the first packet behind the last sent once more, */
	uint64_t repeated_ns;        /* when that left, */
	uint64_t recover;            /* and the first never sent at the last timeout; 0: there was none */
	/* likewise: packets from `acked` on that were trimmed on their way, one bit each, and how many */
	uint64_t trimmed[NIC_WINDOW_PACKETS / 64];
	uint64_t trims;
	uint64_t due_ns;     /* earliest departure of the next packet */
	uint64_t left_ns;    /* scheduled departure of the burst before */
	uint64_t byte_ns;    /* at the rate in force, Q20 */
	uint64_t wake_ns;    /* return of the live token; 0: at once, or in its turn at the line */
	uint64_t timeout_ns; /* time to send again from `acked`; 0: no ACK is owed */
	uint32_t left_bytes; /* that burst's */
	uint32_t burst;      /* packets of the burst that leaves now */
	uint32_t generation; /* the newest token's */
	uint32_t token;      /* the one that sends; 0: none. Others die, */
	uint32_t timer;      /* but for the one that waits for timeout_ns; 0: none */
	uint32_t parked;     /* no token sends: the poster of work has to ring */
	uint32_t retries;
	uint32_t unasked;  /* packets since one that asked for an ACK */
	uint64_t asked;    /* the first packet behind the last that did */
	uint64_t timer_ns; /* return of the timer's token */
	/* congestion control */
	uint32_t rate; /* Q20, in force */
	uint32_t window_bytes;
	uint32_t next_rate, next_window; /* decided, in force from decided_ns on */
	uint32_t next_probe;
	uint64_t decided_ns; /* 0: no decision is under way */
	uint32_t state[CC_STATE_WORDS_MAX];
	struct nic_pending pending[NIC_PENDING_TYPES];
	uint32_t ready_types;           /* pending types to be told of as soon as no decision is under way */
	uint32_t nack_flags, draws;     /* flags of the pending NACKs; number of events drawn for loss */
	uint32_t probe_times[3];        /* the pending RTT's: sent, received, answered */
	uint64_t int_hop[LAB_INT_HOPS]; /* the pending ACK's: struct lab_int of its newest packet */
	uint16_t int_hops;
	uint8_t pad3[6];
	/* probes: one under way */
	uint32_t probe_wanted, probe_number, probe_retries;
	uint64_t probe_sent_ns;  /* 0: none is under way */
	uint64_t probe_until_ns; /* it counts as lost then */
	/* counters */
	uint64_t sent_packets, sent_bytes, resent_packets;
	uint64_t cnps, nacks, timeouts, rtts, probes, probe_bytes, decisions;
	uint64_t lost_events;          /* that found the queue full */
	uint32_t rtt_ns, least_rtt_ns; /* the last probe's, the least of all; 0: none */
	/* Transport uec alone (spray.bpf.h), whose `trimmed` has all lost packets that wait to leave once
	 * more. Packets from `acked` on, one bit each: those that have arrived, and those that left once more
	 */
	uint64_t arrived[NIC_WINDOW_PACKETS / 64], resent[NIC_WINDOW_PACKETS / 64];
	uint64_t arrivals;                        /* bits of `arrived` */
	uint64_t latest;                          /* the first packet behind the last that has arrived */
	uint64_t timed;                           /* the first that had not left when timeout_ns was set */
	uint32_t answered_sent_ns;                /* when the packet left that was answered last */
	uint32_t ack_flags;                       /* CC_MARKED if one of the pending ACK was */
	uint32_t entropy_draws;                   /* entropy values drawn so far */
	uint32_t recycled;                        /* NIC_REPS: values in `recycle`, */
	uint64_t recycle;                         /* 8 bits each, the newest lowest */
	uint64_t penalty[NIC_ENTROPIES_MAX / 16]; /* NIC_BITMAP: 4 bits a value */
};

/* The receiving end. */
struct nic_receiver {
	uint8_t frame[NIC_FRAME_BYTES];     /* template of its answers */
	uint8_t cnp_frame[NIC_FRAME_BYTES]; /* and of its CNPs, which may be of another class */
	uint8_t pad[4];
	uint32_t port, payload_bytes;
	uint64_t message_bytes, total_bytes, total_packets;
	uint32_t message_packets;
	uint32_t each_message; /* the bell rings at the end of each, not of the flow alone */
	uint64_t expected;     /* all packets before it have arrived, once */
	uint64_t last_cnp_ns, last_nack_ns;
	uint64_t nacked;    /* the packet that was asked for last, plus 1 */
	uint32_t beyond;    /* selective repeat: packets beyond `expected` that are here */
	uint32_t since_ack; /* packets */
	uint32_t sum; /* tags that came less those that were due, since the last message that was checked */
	uint32_t pad3;
	uint64_t received_bytes, received_packets, marked_packets,
		dropped_packets;            /* dropped: twice, or too early */
	uint64_t messages, broken_messages; /* whole; with a sum that is wrong */
	uint64_t first_ns, last_ns;
	/* selective repeat: packets beyond `expected` that are here, one bit each */
	uint64_t window[NIC_WINDOW_PACKETS / 64];
};

enum nic_trace {
	NIC_TRACE_NONE,
	NIC_TRACE_CHANGES,
	NIC_TRACE_ALL,
	NIC_TRACE_STATES, /* the same decisions as CHANGES, each a struct nic_step */
};

/* Settings that the loader fills in before the program is loaded: the section .rodata.settings. */
struct nic_settings {
	uint64_t latency_ns;                 /* from an event to the decision's effect */
	uint64_t cnp_interval_ns;            /* at most one CNP a flow in it */
	uint64_t nack_interval_ns;           /* the same packet is not asked for again within it */
	uint64_t timeout_ns, timeout_max_ns; /* first and longest of the transport's timer, which doubles */
	uint64_t probe_timeout_ns, probe_timeout_max_ns; /* the same for a probe */
	uint32_t ack_packets;    /* an ACK for each so many, and for the last of a message */
	uint32_t burst_packets;  /* packets of one TX event; they leave together at line rate */
	uint32_t selective;      /* repeat what is missing alone, instead of all from there on */
	uint32_t trace;          /* enum nic_trace: which decisions are handed out */
	uint32_t in_turn;        /* decisions of all flows are made one after the other; else each flow's */
	uint32_t event_loss_ppm; /* events that never reach the algorithm */
	uint32_t event_coalesce; /* CNP, ACK and NACK events that are summed up before one is handed over; 1:
				    each is */
	uint32_t spaced; /* packets keep their distance, as in HPCC's simulator; else a late one is made up
			    for */
	uint64_t seed;
	uint32_t parameter[CC_PARAMETERS_MAX];
	struct cc_rate int_rate[LAB_INT_RATES]; /* indexed by the place that records name */
	uint32_t caps;                          /* there are flows of the host's TCP; the loader knows */
	uint32_t beside;    /* the host sends frames of its own, which share the line: nic_cap sees them */
	uint32_t trims;     /* DSCP of the frames that ports trim, and one more; 0: they trim none */
	uint32_t entropies; /* transport uec: values of a flow, a power of two; 0: transport rdma */
	/* in_turn: time of each event that reaches the algorithm, without latency; most events that wait or
	 * are dealt with, 0: no limit */
	uint64_t event_cost_ns, event_queue;
	uint64_t balancer; /* enum nic_balancer */
};
_Static_assert(__builtin_offsetof(struct nic_settings, caps) -
			       __builtin_offsetof(struct nic_settings, parameter) ==
		       CC_SETTING_WORDS * sizeof(uint32_t),
	       "the table of rates stands behind the parameters");

/*
 * The addresses and ports of a capped flow's segments, in network byte order: key of the map `capped`, whose
 * value is the flow. With settings.beside the key is a source address alone, and the value is the NIC of that
 * address.
 */
struct nic_tcp {
	uint32_t src_addr, dst_addr;
	uint16_t src_port, dst_port;
};

/* ---- handed out ---- */

/*
 * A message to the traffic generator: the receiving NIC has all `total_bytes` of a flow, in order, or a whole
 * message more of a flow with `each_message`. It gives its host a copy of the last frame under this EtherType
 * (IEEE 802's for local experiments) through the ring's ingress (bpf_clone_redirect with BPF_F_INGRESS),
 * where a packet socket hears it at that very instant. A ring buffer would not do: its wake-up is irq_work,
 * which on User Mode Linux waits for the next tick, up to 1 ms. `flow` in the NIC header says whose it is;
 * all else, last_ns too, is in the receiver's row.
 */
#define NIC_BELL_ETHERTYPE 0x88b5

/*
 * A record of the trace: an event and the algorithm's decision. NIC_TRACE_CHANGES leaves out events CC_TX and
 * CC_ACK that changed nothing and were not a flow's first.
 */
struct nic_decision {
	uint64_t t_ns;
	uint32_t flow;
	uint16_t event, flags; /* enum cc_event_type */
	uint32_t rtt_ns;       /* CC_RTT: the probe's; CC_TX with CC_PROBING: time since the probe left */
	uint32_t rate_before, rate; /* Q20 */
	uint32_t window_bytes;
};

/* A decision with the first words of the algorithm's context: a policy's inputs (rlcc.h). Training reads
 * them. */
#define NIC_STEP_WORDS 8
struct nic_step {
	struct nic_decision decision;
	uint32_t state[NIC_STEP_WORDS];
};

/*
 * The last part of a lab's shared region (lab.h), where the loader stops at barriers of virtual time:
 * decisions go to the host, a policy's table comes back. The lab stands still in a LAB_IOC_STEP meanwhile, so
 * nobody reads what is being written.
 */
#define NIC_EXCHANGE_BYTES (2u << 20)
struct nic_exchange {
	uint64_t count; /* steps since the barrier before */
	uint64_t lost;  /* steps that found no room */
	uint32_t table[CC_TABLE_WORDS];
	struct nic_step step[];
};
enum nic_barrier { NIC_GO_ON, NIC_NEW_TABLE }; /* the host's answer */

/* One event, for tests: the program `nic_test` is given it as a packet, and gives it back. */
struct nic_test {
	struct cc_event event;
	struct cc_flow flow;
	struct cc_result result;
	uint32_t state[CC_STATE_WORDS_MAX];
};

#endif
