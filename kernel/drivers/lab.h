/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * The lab: what its drivers, its init, its programs and the host agree on.
 *
 * The channel is a SOCK_SEQPACKET socket that the lab inherits. Every message is a struct lab_msg
 * followed by `length` bytes; the host checks type and length of each. Little-endian throughout.
 */
#ifndef _UAPI_LINUX_LAB_H
#define _UAPI_LINUX_LAB_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define LAB_PROTOCOL_VERSION 2
#define LAB_MSG_MAX          4096 /* payload of the longest message */

enum lab_msg_type {
	LAB_MSG_HELLO = 1, /* lab to host: struct lab_hello, and the descriptor of the lab's memory */
	LAB_MSG_LOG = 2,   /* lab to host: text, from the kernel or from a program */
	LAB_MSG_STEP = 3,  /* lab to host: struct lab_step; the lab stands still until the answer, a
			      struct lab_step_reply under the same type */
	LAB_MSG_SEED = 4,  /* lab to host: struct lab_seed, when t0 has come */
	LAB_MSG_DEATH = 5, /* lab to host: text, why the kernel panicked */
	LAB_MSG_BYE = 6,   /* lab to host: struct lab_bye, the last message of a good lab */
};

struct lab_msg {
	__u32 type;
	__u32 length;
};

struct lab_hello {
	__u32 version;
	__u32 page_size;
	__u64 page_offset;   /* of struct lab_page in the memory file */
	__u64 region_offset; /* of the shared region in the memory file */
	__u64 region_length;
};

struct lab_step {
	__u64 step;
	__u64 virtual_ns;
};

struct lab_step_reply {
	__u64 step; /* of the question */
	__s32 code; /* result of the call in the lab; negative: an errno */
	__u32 reserved;
};

struct lab_seed {
	__u64 seed;
	__u64 virtual_ns;
};

struct lab_bye {
	__s32 status; /* exit status of the lab's program; 128 + signal when killed */
	__u32 reserved;
	__u64 virtual_ns;
};

/* One page that the lab keeps up to date and the host may read at any moment. */
struct lab_page {
	__u64 virtual_ns; /* the virtual clock */
	__u64 switches;   /* context switches so far: grows while anything is scheduled */
	__u32 pid;        /* what runs now */
	__u32 reserved;
	char comm[16];
	__u64 events;      /* of links that have run: a frame arrived, or a transmitter became free */
	__u64 loop_events; /* those of them that the loop ran, without a timer interrupt */
};

/* /dev/lab: mmap() gives the shared region, write() sends LAB_MSG_LOG, and the calls below. A lab may have
 * many t0, one an episode: AT_T0 is called for each. What the kernel draws after a t0 follows from the seed
 * alone: the lab's own, or the one that SEED gave last.
 */
#define LAB_IOC_STEP   _IOW('L', 1, __u64) /* argument: step number; returns the host's code */
#define LAB_IOC_AT_T0  _IOW('L', 2, __u64) /* argument: t0, ns of CLOCK_MONOTONIC; reseed there */
#define LAB_IOC_BYE    _IOW('L', 3, __s32) /* argument: exit status */
#define LAB_IOC_LENGTH _IOR('L', 4, __u64) /* length of the region */
#define LAB_IOC_SEED   _IOW('L', 5, __u64) /* argument: seed of the t0 to come */

/* Several system calls as one. They are carried out in their order; one that fails is the last. Returns how
 * many were. Allowed are those that lab_calls.c lists; another fails with ENOSYS. connect() that is under way
 * (EINPROGRESS) has not failed.
 */
#define LAB_CALLS_MAX 1024
struct lab_call {
	__u32 number;    /* __NR_... */
	__u16 opened_at; /* from 1: this argument is what the last socket() or accept4() of the list opened;
			    0: none */
	__u16 whole_at;  /* from 1: a result other than this argument makes the call the last; 0: none does */
	__u64 arguments[6];
	__s64 result; /* negative: an errno; EINTR if a signal came */
};

struct lab_calls {
	__u64 calls; /* address of the first struct lab_call */
	__u32 count;
	__u32 reserved;
};
#define LAB_IOC_CALLS _IOWR('L', 6, struct lab_calls)

/* An attribute of tbf's below TCA_OPTIONS, a flag: this change keeps the tokens earned so far, as bytes, and
 * looks at the queue again at once. Without it tbf fills the bucket, and a frame that waits goes on waiting
 * for as long as the old rate wanted.
 */
#define LAB_TCA_TBF_KEEP 16

/* Flag of BPF_PROG_LOAD for a program of type SCHED_CLS: machine code that the kernel read at boot
 * (lab_native=) runs in its place, and loading fails with ENOENT if there is none (nic_native.c).
 */
#define LAB_BPF_F_NATIVE (1u << 31)

/* Socket options of TCP (level SOL_TCP, an int above 0), which Linux does not have. */
#define TCP_SND_CWND       1101 /* packets: the window of the congestion control `agent`; others refuse it */
#define TCP_SND_CWND_CLAMP 1102 /* packets: the window of any congestion control is at most this */
#define TCP_LAB_ACKS       1103 /* 1 + a flow's number: what each ACK leaves behind is recorded (lab_acks.c) */

/* A connection when it has taken an ACK: a record of the file that lab_acks=MOST,PATH names. */
struct lab_ack {
	__u64 t_ns;        /* CLOCK_MONOTONIC */
	__u64 bytes_acked; /* with the SYN, and the FIN, as tcpi_bytes_acked */
	__u32 flow;
	__u32 srtt_us_8; /* eighths of a microsecond */
	__u32 cwnd_packets, ssthresh_packets;
	__u32 delivered_packets; /* tcpi_delivered */
	__u32 in_flight_packets; /* sent, and neither acknowledged nor believed to be lost */
	__u32 unacked_bytes;     /* sent, and not acknowledged */
	__u32 ca_state;          /* tcpi_ca_state */
};

/* What follows the records when the lab has ended. */
struct lab_acks_end {
	__u64 kept; /* the first MOST */
	__u64 lost; /* the others */
};

/* The cable's attributes below IFLA_INFO_DATA. */
enum {
	IFLA_CABLE_UNSPEC,
	IFLA_CABLE_PAD,
	IFLA_CABLE_PEER,  /* nested: struct ifinfomsg and attributes of the other end; at creation only */
	IFLA_CABLE_RATE,  /* u64, bit/s of frame bytes (no FCS, preamble or gap); 1 .. 10^13 */
	IFLA_CABLE_DELAY, /* u64, ns of propagation; 0 .. 10^10 */
	IFLA_CABLE_FLIGHT_PACKETS, /* u64, read-only: frames sent and not yet arrived at the peer */
	IFLA_CABLE_FLIGHT_BYTES,   /* u64, read-only */
	IFLA_CABLE_LOST_PACKETS,   /* u64, read-only: frames that found no peer, or a peer that was down */
	IFLA_CABLE_LOST_BYTES,     /* u64, read-only */
	IFLA_CABLE_LOSS,    /* u32, frames lost on the way, of 10^9; these four impair what this end sends */
	IFLA_CABLE_JITTER,  /* u64, ns: longest extra delay, drawn uniformly; 0 .. 10^10 */
	IFLA_CABLE_REORDER, /* u32, frames that travel longer by the delay below, of 10^9 */
	IFLA_CABLE_REORDER_DELAY,     /* u64, ns; 0 .. 10^10 */
	IFLA_CABLE_SEED,              /* u64, of all draws of this direction */
	IFLA_CABLE_IMPAIRED_FROM,     /* u64, ns of CLOCK_MONOTONIC: frames sent earlier are not impaired */
	IFLA_CABLE_DROPPED_PACKETS,   /* u64, read-only: frames lost by IFLA_CABLE_LOSS */
	IFLA_CABLE_DROPPED_BYTES,     /* u64, read-only */
	IFLA_CABLE_REORDERED_PACKETS, /* u64, read-only: frames delayed by IFLA_CABLE_REORDER_DELAY */
	IFLA_CABLE_RING, /* u32, ifindex of a device whose queue stops while this end is paused; 0: none */
	IFLA_CABLE_RING_CLASSES,     /* u32, a bit for each class: any of them paused stops the ring */
	IFLA_CABLE_PAUSES_SENT,      /* u64, read-only: PAUSE frames; they are in no other counter */
	IFLA_CABLE_PAUSES_RECEIVED,  /* u64, read-only */
	IFLA_CABLE_PAUSES_IN_FLIGHT, /* u64, read-only: sent by this end and not yet arrived */
	IFLA_CABLE_PAUSED_NS,        /* u64, read-only: time in which this end was paused, in some class */
	IFLA_CABLE_PAUSED_CLASSES,   /* u32, read-only: classes that are paused now, a bit each */
	IFLA_CABLE_CUT, /* u32, 1: frames on their way from this end are lost, and so are those that it sends
			 */
	IFLA_CABLE_CUT_PACKETS, /* u64, read-only: frames lost by IFLA_CABLE_CUT */
	IFLA_CABLE_CUT_BYTES,   /* u64, read-only */
	IFLA_CABLE_PAUSES_LOST, /* u64, read-only: PAUSE frames that were lost with the link */
	__IFLA_CABLE_MAX
};
#define IFLA_CABLE_MAX (__IFLA_CABLE_MAX - 1)

/* The attributes of a group port below IFLA_INFO_DATA. A change leaves alone what it does not give. */
enum {
	IFLA_LAB_GROUP_UNSPEC,
	IFLA_LAB_GROUP_PAD,
	IFLA_LAB_GROUP_SEED,    /* u64, of the hash (lab_group.h) */
	IFLA_LAB_GROUP_MEMBERS, /* u32 each, 1 .. LAB_GROUP_MEMBERS: the ifindexes of its ports, in order */
	IFLA_LAB_GROUP_BALANCE, /* struct lab_group_balance; without it LAB_GROUP_ECMP. Every change counts
				   anew */
	IFLA_LAB_GROUP_COUNTS, /* read-only, unless it is LAB_GROUP_ECMP: a struct lab_group_count a member */
	__IFLA_LAB_GROUP_MAX
};
#define IFLA_LAB_GROUP_MAX (__IFLA_LAB_GROUP_MAX - 1)
#define LAB_GROUP_MEMBERS  256
#define LAB_GROUP_SAMPLES  8

/* The ways in which a group chooses. A flow is one 5-tuple. One that was silent for `gap_ns` begins a
 * flowlet, and with each flowlet the group chooses anew; its first choice is that of the hash but for
 * ROUND_ROBIN and DRILL.
 */
enum lab_group_mode {
	LAB_GROUP_ECMP,        /* the hash, for ever */
	LAB_GROUP_RANDOM,      /* each frame is a flowlet, and a draw of its flow's sequence */
	LAB_GROUP_ROUND_ROBIN, /* each frame goes to the next member */
	LAB_GROUP_FLOWLET,     /* each flowlet is a draw of its flow's sequence (LetFlow, NSDI 2017) */
	LAB_GROUP_DRILL, /* each frame: of `samples` drawn members and the best `memory` of the frame before,
			    the one with the fewest bytes queued (DRILL, SIGCOMM 2017) */
	LAB_GROUP_ADAPTIVE, /* each flowlet stays, unless another member has fewer bytes queued: then the
			       fewest */
	__LAB_GROUP_MODES
};

struct lab_group_balance {
	__u32 mode;
	__u32 samples; /* DRILL: 1 .. LAB_GROUP_SAMPLES */
	__u32 memory;  /* DRILL: 0 .. LAB_GROUP_SAMPLES */
	__u32 reserved;
	__u64 gap_ns; /* FLOWLET, ADAPTIVE */
};

struct lab_group_count {
	__u64 frames, bytes;
	__u64 moves;    /* frames that took it, and the one of their flow before took another member */
	__u64 flowlets; /* that began with it */
};

/* The attributes of the queueing discipline `port` below TCA_OPTIONS. A change leaves alone what it does not
 * give, and every frame that waits.
 */
enum {
	TCA_PORT_UNSPEC,
	TCA_PORT_PAD,
	TCA_PORT_LIMIT, /* u32, bytes: a frame that does not fit is dropped; without it no frame is (class 0)
			 */
	TCA_PORT_MARKING, /* struct tc_port_marking; without it nothing is marked (class 0) */
	TCA_PORT_SEED,    /* u64, of the draws for marks, which it numbers from 0 again */
	TCA_PORT_INT,     /* struct tc_port_int; without it no telemetry is written */
	TCA_PORT_CLASS, /* nested, once for each class: TCA_PORT_CLASS_...; without it there is class 0 alone
			 */
	TCA_PORT_DSCP,  /* 64 bytes: the class of each DSCP; what is not IPv4 is of DSCP 0 */
	TCA_PORT_POOL,  /* struct tc_port_pool: the shared buffer that the port's frames take room in */
	TCA_PORT_PFC,   /* struct tc_port_pfc: frames that come in here are charged; needs a pool */
	TCA_PORT_HISTOGRAM, /* struct tc_port_window: for how long the queue was how long is counted anew */
	TCA_PORT_HISTOGRAM_NS, /* read-only, once the window is over: struct tc_port_histogram */
	TCA_PORT_TRIM,         /* struct tc_port_trim; without it, or with 0 bytes, no frame is trimmed */
	TCA_PORT_TRIMMED,      /* read-only, with TCA_PORT_TRIM: struct tc_port_trimmed */
	__TCA_PORT_MAX
};
#define TCA_PORT_MAX (__TCA_PORT_MAX - 1)

#define TC_PORT_CLASSES 8
#define TC_PORT_DSCPS   64

/* The attributes of a class below TCA_PORT_CLASS. Classes are numbered from 0 without gaps. */
enum {
	TCA_PORT_CLASS_UNSPEC,
	TCA_PORT_CLASS_NUMBER,   /* u32, needed */
	TCA_PORT_CLASS_LIMIT,    /* u32, as TCA_PORT_LIMIT */
	TCA_PORT_CLASS_MARKING,  /* as TCA_PORT_MARKING, by the queue of the class */
	TCA_PORT_CLASS_QUANTUM,  /* u32, bytes a round of deficit round robin; 0: strict, higher numbers first
				  */
	TCA_PORT_CLASS_RESERVE,  /* u32, bytes of its queue that take no room in the pool */
	TCA_PORT_CLASS_ALPHA,    /* u32, of 2^16: a lossy class is full at alpha times the pool's free room */
	TCA_PORT_CLASS_LOSSLESS, /* u32, 1: its frames are charged to the port where they came in */
	__TCA_PORT_CLASS_MAX
};
#define TCA_PORT_CLASS_MAX (__TCA_PORT_CLASS_MAX - 1)

/* A frame that finds q bytes, or leaves q behind, is marked with probability pmax (q - kmin) / (kmax - kmin)
 * from kmin on, and always from kmax on. Equal thresholds are a step.
 */
enum tc_port_marks_at { TC_PORT_MARKS_ARRIVALS, TC_PORT_MARKS_DEPARTURES };
#define TC_PORT_NO_MARKS 0xffffffffu /* both thresholds */
struct tc_port_marking {
	__u32 kmin_bytes;
	__u32 kmax_bytes; /* at least kmin_bytes */
	__u32 pmax;       /* of 2^32 */
	__u32 at;         /* enum tc_port_marks_at */
};

/* A port's line rate by its place in the network's table, and that rate's units (lab_int.h). */
struct tc_port_int {
	__u32 rate;
	__u32 time_ns, sent_bytes, queue_bytes; /* each at least 1 */
};

/* The buffer that ports with one number share, less all reserves and headrooms. The last port to say how
 * large it is wins.
 */
struct tc_port_pool {
	__u32 id; /* within a network namespace */
	__u32 reserved;
	__u64 bytes;
};

/* When a port tells its peer to hold a lossless class (IEEE 802.1Qbb), by the bytes of that class that came
 * in here and wait in the switch. They take their reserve first, then room in the pool up to Xoff, then
 * headroom. As in HPCC's simulator, Xoff is looked at when a frame comes and Xon when one leaves.
 *
 *   Xoff:  bytes above the reserve >= threshold, or headroom in use; the threshold is xoff_bytes, or the
 *          pool's free room x share / share_of
 *   Xon:   no headroom in use, and bytes above the reserve + xon_below_bytes <= threshold, or none
 */
struct tc_port_pfc {
	__u32 xoff_bytes;
	__u32 share, share_of; /* share_of 0: xoff_bytes */
	__u32 xon_below_bytes;
	__u32 reserve_bytes;  /* for each class */
	__u32 headroom_bytes; /* likewise */
	__u32 quanta; /* 1 .. 65535, of 512 bit times: for how long a pause holds; it is repeated after half
		       */
	__u32 whole_port; /* 1: PAUSE of IEEE 802.3x, for all classes at once */
};

/* DATA of a NIC (lab_int.h) that a lossy class would drop is cut to so many bytes, gets this DSCP, and waits
 * in this class if that has room. One that is no longer is cut to its headers. IP and UDP go on telling the
 * old length. Frames of this class itself are not cut.
 */
struct tc_port_trim {
	__u32 bytes; /* of the frame; no header is cut, whatever it says */
	__u32 class;
	__u32 dscp;
	__u32 reserved;
};

struct tc_port_trimmed {
	__u64 packets;
	__u64 bytes; /* that were cut off */
};

/* The histogram of a port's queue: the time within a window in which frames waited, by bytes. Each octave
 * from 2^6 bytes on has 16 buckets, so a bucket is at most a sixteenth of its queue wide; the first holds all
 * that is shorter, too. Bucket b begins at (16 + b % 16) << (b / 16 + 2) bytes.
 */
#define TC_PORT_BUCKETS_LOG 4 /* of the buckets of an octave */
#define TC_PORT_OCTAVE_MIN  6
#define TC_PORT_BUCKETS     ((32 - TC_PORT_OCTAVE_MIN) << TC_PORT_BUCKETS_LOG)

struct tc_port_window {
	__u64 from_ns, until_ns; /* CLOCK_MONOTONIC */
};

struct tc_port_histogram {
	__u32 first, count; /* buckets that follow: those before and behind are empty */
	__u64 ns[];
};

/* TCA_STATS_APP of `port`. Totals since it was made; those of 64 bits may wrap. Where classes
 * were given a struct tc_port_class_xstats for each follows.
 */
struct tc_port_xstats {
	__u64 marked;              /* frames that it marked, those among them that it dropped */
	__u64 ce_packets;          /* frames that left with CE, whoever marked them */
	__u64 ce_bytes;            /* likewise */
	__u64 queue_byte_ns;       /* the time integral of the queue */
	__u64 busy_ns;             /* time in which frames waited */
	__u64 longest_bytes;       /* the longest queue since these statistics were read at an earlier time */
	__u64 int_records;         /* that it wrote */
	__u64 int_missed;          /* frames that asked and had no record left */
	__u64 paused_ns;           /* time in which its peer had it hold some class */
	__u64 pauses_received;     /* PAUSE frames, those that end a pause among them */
	__u64 pauses_sent;         /* likewise */
	__u64 charged_bytes;       /* that came in here and wait in the switch, in lossless classes */
	__u64 headroom_bytes;      /* of them: in headroom */
	__u64 most_headroom_bytes; /* of one class, ever */
	__u64 refused;             /* lossless frames that came in here and found no headroom */
	__u64 pool_used_bytes;     /* of the whole pool */
	__u32 classes;
	__u32 paused_classes; /* a bit each */
};

struct tc_port_class_xstats {
	__u64 backlog_bytes, backlog_packets;
	__u64 sent_bytes, sent_packets;
	__u64 drops;
	__u64 marked, ce_packets, ce_bytes;
	__u64 queue_byte_ns, busy_ns, longest_bytes;
	__u64 paused_ns;
	__u64 charged_bytes; /* that came in here and wait in the switch */
	__u64 pauses;        /* times that the peer was told to hold it, without repetitions */
};

#endif
