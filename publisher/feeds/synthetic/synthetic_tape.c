/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_tape.h"

void synthetic_tape_put(struct synthetic_tape *tape, uint16_t locate, struct itch_message *message)
{
	uint8_t *frame = tape->bytes + tape->used;
	int length;

	message->locate = locate;
	message->time_ns = tape->clock.now;
	length = itch_encode(message, frame + 2);
	frame[0] = 0;
	frame[1] = (uint8_t)length;
	tape->used += 2 + (size_t)length;
	tape->messages++;
	synthetic_clock_tick(&tape->clock);
}
