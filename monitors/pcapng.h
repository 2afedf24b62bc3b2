/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pcapng file of one interface (draft-ietf-opsawg-pcapng): written once, from its start to its end.
 *
 * Blocks are a section header, the interface (its name, Ethernet, the snap length, times in nanoseconds), an
 * enhanced packet block for each frame with its direction, and the interface's statistics. Functions return 0
 * or -errno.
 */
#ifndef PCAPNG_H
#define PCAPNG_H

#include <stddef.h>
#include <stdint.h>

/* Bits 0 and 1 of epb_flags. */
enum pcapng_direction { PCAPNG_IN = 1, PCAPNG_OUT = 2 };

struct pcapng {
	int fd;
	unsigned char *buf;
	size_t used;
	uint64_t written; /* bytes handed to the kernel */
	uint64_t asked;   /* of them, to be written back */
};

#define PCAPNG_INIT                                                                                          \
	{                                                                                                    \
		.fd = -1                                                                                     \
	}

struct pcapng_frame {
	uint64_t t_ns;
	enum pcapng_direction direction;
	const unsigned char *data;
	uint32_t captured; /* bytes of data */
	uint32_t zeros;    /* captured bytes that follow data and are 0 */
	uint32_t length;   /* of the frame */
};

/* Creates `path`. `snap` is the most bytes that a frame has in the file. */
int pcapng_open(struct pcapng *p, const char *path, const char *interface, uint32_t snap);

int pcapng_add(struct pcapng *p, const struct pcapng_frame *frame);

/* Writes the statistics and closes the file. `received` counts frames, `lost` those that are not in the file.
 */
int pcapng_finish(struct pcapng *p, uint64_t t_ns, uint64_t received, uint64_t lost);

/* Releases; what was not finished stays as it is. */
void pcapng_close(struct pcapng *p);

#endif
