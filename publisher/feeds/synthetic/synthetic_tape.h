/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the synthetic exchange, stamped, framed as in a BinaryFILE, and gathered until
 * they are read. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_TAPE_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_TAPE_H

#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/synthetic/synthetic_clock.h"

#include <stddef.h>
#include <stdint.h>

#define SYNTHETIC_TAPE_BYTES 32768
#define SYNTHETIC_TAPE_STEP  2048 /* room for one step of the day */

struct synthetic_tape {
	struct synthetic_clock clock;
	uint64_t messages; /* written since the beginning */
	size_t used, read;
	uint8_t bytes[SYNTHETIC_TAPE_BYTES];
};

/* Writes a message now, about the symbol of that locate (0: no symbol), and ticks the clock. */
void synthetic_tape_put(struct synthetic_tape *, uint16_t locate, struct itch_message *);

#endif
