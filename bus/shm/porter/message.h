/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between a program of the bus and its porter, over a SOCK_SEQPACKET pair. */
#ifndef TICKBUS_BUS_SHM_PORTER_MESSAGE_H
#define TICKBUS_BUS_SHM_PORTER_MESSAGE_H

#include <stdint.h>

#include "bus/shm/shm_frame.h"

#define PORTER_PROGRAM "tickbus-porter"
/* Tasks, with the version of these messages: another version's program ends at once. */
#define PORTER_TAKE     "take-2" /* serves a subscriber's connection */
#define PORTER_HOLD_ALL "hold-2" /* serves a publisher's listening socket */
#define PORTER_PAIR     0        /* descriptors of the program: the pair, */
#define PORTER_SOCKET   1        /* and the connection or the listening socket */

enum porter_what {
	PORTER_STARTED = 1, /* from the process between; number: of the porter's process */
	PORTER_FAILED,      /* it could not be started; number: errno */
	PORTER_WANT,        /* to the porter: take up to `number` frames, as they come */
	PORTER_FRAME,       /* body: a frame that came with a memfd. Carries the memfd. The last
			     * answer, if number is 0 */
	PORTER_CALL,        /* to the porter, if it was silent: answer PORTER_DONE */
	PORTER_DONE,        /* it takes no more. Sent before a frame without descriptors */
	PORTER_VERDICT,     /* body: why the connection cannot go on; number: errno. Then it ends */
	PORTER_HOLD,        /* to the porter: share this connection; number: its slot */
	PORTER_END,         /* to the porter: the publisher closed the connection of this slot. Its
			     * PORTER_DONE says that the slot is free */
	PORTER_LISTEN,      /* to the porter: share this listening socket instead of the earlier */
};

#define PORTER_SLOTS_MAX (1U << 20)

struct porter_message {
	uint32_t what;
	uint32_t number;
	uint8_t body[sizeof(struct shm_frame)];
};
#define PORTER_HEADER_BYTES offsetof(struct porter_message, body)

#endif
