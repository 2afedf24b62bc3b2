// SPDX-License-Identifier: Apache-2.0
/*
 * capd: capture what ports send and receive, one pcapng file a port (docs/capture.md).
 *
 * A frame that a port sends is taken when its transmission starts, one that it receives when it arrives.
 * Times are nanoseconds since t0. A file has the frames from t0 on, for the duration. SIGTERM ends the
 * capture, and one line a port counts frames, 'NAME OUT IN OUT-LATER IN-LATER LOST': those in its file, those
 * after the duration until SIGTERM, and those that found no room.
 *
 * It must not move anybody else on a virtual clock. So it reads the clock before t0 and once at its end,
 * sleeps until a block of a ring is full, and makes no call that fails in between.
 */
#include "options.h"
#include "pcapng.h"
#include "ports.h"
#include "program.h"
#include "ring.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIN_SNAP    64
#define MAX_SNAP    65535
#define MIN_FRAME   60u /* a shorter one is padded behind the place where it is captured */
#define MAX_PATH    4096
#define MAX_CAPTURE 256 /* ports: each has a file and a ring */
#define MAX_WAITS   500 /* for the last blocks: 10 s */
#define CLOCK_TRIES 5

struct options {
	const char *ports, *out, *direction;
	uint64_t t0_ns, duration_ns, snap;
};

struct capture {
	const struct capd *capd;
	const struct port *port;
	struct ring ring;
	struct pcapng file;
	uint64_t out, in;             /* frames in the file */
	uint64_t out_later, in_later; /* after the duration */
};

struct capd {
	struct options opt;
	enum ring_direction direction;
	struct ports ports;
	struct capture *captures;
	struct pollfd *polled;
	uint64_t real_ahead_ns; /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	uint64_t t0_real_ns;    /* t0 by CLOCK_REALTIME, which the kernel's times of frames have */
	uint64_t end_real_ns;   /* likewise SIGTERM's time; UINT64_MAX: not yet */
};

/* ---- options ---- */

static int parse_options(int argc, char **argv, struct capd *c)
{
	static const char *const directions[] = {
		[RING_BOTH] = "both", [RING_OUT] = "out", [RING_IN] = "in"
	};
	struct options *o = &c->opt;
	const struct program_option options[] = {
		{ "ports", "FILE", "record file of the ports", .text = &o->ports, .required = true },
		{ "out", "FOLDER", "where NAME.pcapng of each is made", .text = &o->out, .required = true },
		{ "t0", "NS", "CLOCK_MONOTONIC from which on frames are kept", .number = &o->t0_ns,
		  .required = true, .min = 1, .max = INT64_MAX },
		{ "duration", "NS", "after t0, for which frames are kept", .number = &o->duration_ns,
		  .required = true, .min = 1, .max = INT64_MAX },
		{ "snap", "N", "bytes of each frame that are kept", .number = &o->snap, .required = true,
		  .min = MIN_SNAP, .max = MAX_SNAP },
		{ "direction", "WHICH", "frames that ports send (out), receive (in), or both (both)",
		  .text = &o->direction },
		{ 0 },
	};
	int rc;

	o->direction = directions[RING_BOTH];
	rc = options_read(argc, argv, options, "");
	for (size_t i = 0; !rc && i < sizeof(directions) / sizeof(directions[0]); i++)
		if (!strcmp(o->direction, directions[i])) {
			c->direction = (enum ring_direction)i;
			return 0;
		}
	return rc ? rc : program_fail(EXIT_USAGE, "--direction: '%s' is none of both, out, in", o->direction);
}

/* ---- set-up ---- */

static uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/*
 * CLOCK_REALTIME less CLOCK_MONOTONIC. A clock read takes time, on a virtual clock always the same: the one
 * in the middle is between the others. On a machine in real time others may run in between: the shortest of
 * some tries counts.
 */
static uint64_t real_ahead_ns(void)
{
	uint64_t shortest = UINT64_MAX, ahead = 0;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint64_t first = now_ns(), real = real_ns(), last = now_ns();

		if (last - first >= shortest)
			continue;
		shortest = last - first;
		ahead = real - (first + shortest / 2);
	}
	return ahead;
}

static int open_capture(struct capture *each, const struct options *o, enum ring_direction direction,
			struct fault *f)
{
	char path[MAX_PATH];
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s.pcapng", o->out, each->port->name) >= (int)sizeof(path))
		return fault_say(f, -EINVAL, "--out: '%s' is too long; give a shorter path", o->out);
	rc = pcapng_open(&each->file, path, each->port->name, (uint32_t)o->snap);
	if (rc)
		return fault_say(f, -EIO, "--out: create '%s': %s; name a folder that can be written", path,
				 strerror(-rc));
	return ring_open(&each->ring, each->port->netns, each->port->ifname, (uint32_t)o->snap, direction, f);
}

static int open_captures(struct capd *c, struct fault *f)
{
	uint32_t n = c->ports.n;
	int rc = 0;

	if (n > MAX_CAPTURE)
		return fault_say(f, -EINVAL, "--ports: %u ports; capture at most %d", n, MAX_CAPTURE);
	c->captures = calloc(n, sizeof(*c->captures));
	c->polled = calloc(n, sizeof(*c->polled));
	if (!c->captures || !c->polled)
		return fault_say(f, -ENOMEM, "ports: out of memory for %u ports", n);
	for (uint32_t i = 0; i < n; i++)
		c->captures[i] = (struct capture){ c, &c->ports.port[i], RING_INIT, PCAPNG_INIT, 0, 0, 0, 0 };
	for (uint32_t i = 0; i < n && !rc; i++) {
		rc = open_capture(&c->captures[i], &c->opt, c->direction, f);
		c->polled[i] = (struct pollfd){ .fd = c->captures[i].ring.fd, .events = POLLIN };
	}
	return rc;
}

static int prepare(struct capd *c, struct fault *f)
{
	int rc = record_file_open(&c->ports.file, "--ports", c->opt.ports, f);

	if (!rc)
		rc = ports_take(&c->ports, f);
	if (!rc)
		rc = open_captures(c, f);
	c->real_ahead_ns = real_ahead_ns();
	c->t0_real_ns = c->opt.t0_ns + c->real_ahead_ns;
	c->end_real_ns = UINT64_MAX;
	return rc;
}

static void capd_close(struct capd *c)
{
	for (uint32_t i = 0; c->captures && i < c->ports.n; i++) {
		ring_close(&c->captures[i].ring);
		pcapng_close(&c->captures[i].file);
	}
	free(c->polled);
	free(c->captures);
	record_file_close(&c->ports.file);
}

/* ---- frames ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int write_frame(struct capture *each, const struct ring_frame *seen)
{
	const struct capd *c = each->capd;
	uint32_t length = seen->length < MIN_FRAME ? MIN_FRAME : seen->length;
	const struct pcapng_frame frame = {
		.t_ns = seen->t_ns - c->t0_real_ns,
		.direction = seen->out ? PCAPNG_OUT : PCAPNG_IN,
		.data = seen->data,
		.captured = seen->captured,
		.zeros = least(length, (uint32_t)c->opt.snap) - seen->captured,
		.length = length,
	};

	return pcapng_add(&each->file, &frame);
}

static int on_frame(void *arg, const struct ring_frame *seen)
{
	struct capture *each = arg;
	const struct capd *c = each->capd;

	if (seen->t_ns < c->t0_real_ns || seen->t_ns > c->end_real_ns)
		return 0;
	if (seen->t_ns - c->t0_real_ns > c->opt.duration_ns) {
		*(seen->out ? &each->out_later : &each->in_later) += 1;
		return 0;
	}
	*(seen->out ? &each->out : &each->in) += 1;
	return write_frame(each, seen);
}

static int drain(struct capd *c, struct fault *f)
{
	for (uint32_t i = 0; i < c->ports.n; i++) {
		struct capture *each = &c->captures[i];
		int rc = ring_drain(&each->ring, on_frame, each);

		if (rc)
			return fault_say(f, -EIO, "write the capture of '%s': %s; make room, or capture less",
					 each->port->name, strerror(-rc));
	}
	return 0;
}

/* ---- the capture ---- */

static int run(struct capd *c, const sigset_t *before, struct fault *f)
{
	int rc = 0;

	while (!program_stop && !rc) {
		if (ppoll(c->polled, c->ports.n, NULL, before) < 0 && errno != EINTR)
			return fault_say(f, -EIO, "poll: %s", strerror(errno));
		rc = drain(c, f);
	}
	return rc;
}

static int finish_file(struct capture *each, struct fault *f)
{
	uint64_t lost = each->ring.lost;
	int rc = pcapng_finish(&each->file, each->capd->opt.duration_ns, each->out + each->in + lost, lost);

	if (rc)
		return fault_say(f, -EIO, "finish the capture of '%s': %s; make room, or capture less",
				 each->port->name, strerror(-rc));
	printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", each->port->name,
	       each->out, each->in, each->out_later, each->in_later, lost);
	return 0;
}

static int stop_rings(struct capd *c, struct fault *f)
{
	for (uint32_t i = 0; i < c->ports.n; i++) {
		int rc = ring_stop(&c->captures[i].ring);

		if (rc)
			return fault_say(f, rc, "stop the capture of '%s': %s", c->captures[i].port->name,
					 strerror(-rc));
	}
	return 0;
}

/* *left: frames in blocks that the kernel has not given yet. */
static int count_left(struct capd *c, int64_t *left, struct fault *f)
{
	*left = 0;
	for (uint32_t i = 0; i < c->ports.n; i++) {
		int64_t found = ring_left(&c->captures[i].ring);

		if (found < 0)
			return fault_say(f, (int)found, "count the frames of '%s': %s",
					 c->captures[i].port->name, strerror((int)-found));
		*left += found;
	}
	return 0;
}

static int drain_and_count(struct capd *c, int64_t *left, struct fault *f)
{
	int rc = drain(c, f);

	return rc ? rc : count_left(c, left, f);
}

/*
 * The kernel gives the last blocks, which are not full, within RING_RETIRE_NS; later, if its timers are late.
 * Rings are stopped after the first wait, for on a virtual clock what is due now may come when we sleep.
 */
static int drain_last(struct capd *c, uint64_t now, struct fault *f)
{
	int64_t left;
	int rc;

	sleep_until(now += 2 * RING_RETIRE_NS);
	rc = stop_rings(c, f);
	if (!rc)
		rc = drain_and_count(c, &left, f);
	for (unsigned int i = 0; i < MAX_WAITS && !rc && left; i++) {
		sleep_until(now += 2 * RING_RETIRE_NS);
		rc = drain_and_count(c, &left, f);
	}
	if (!rc && left)
		rc = fault_say(f, -EIO, "the kernel keeps %" PRId64 " captured frames; run it again", left);
	return rc;
}

static int finish(struct capd *c, struct fault *f)
{
	uint64_t now = now_ns();
	int rc;

	c->end_real_ns = now + c->real_ahead_ns;
	rc = drain_last(c, now, f);
	for (uint32_t i = 0; i < c->ports.n && !rc; i++)
		rc = finish_file(&c->captures[i], f);
	return rc;
}

int main(int argc, char **argv)
{
	struct capd c = { 0 };
	struct fault fault;
	sigset_t before;
	int rc = parse_options(argc, argv, &c);

	if (rc)
		return rc;
	rc = program_prepare();
	if (!rc) {
		program_hold_stop(&before);
		rc = program_end(prepare(&c, &fault), &fault);
	}
	if (!rc)
		rc = program_ready(c.opt.t0_ns);
	if (!rc)
		rc = program_end(run(&c, &before, &fault), &fault);
	if (!rc)
		rc = program_end(finish(&c, &fault), &fault);
	capd_close(&c);
	return rc;
}
