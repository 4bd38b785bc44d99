/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between a program of the bus and its porter, over a SOCK_SEQPACKET pair. */
#ifndef TICKBUS_BUS_SHM_PORTER_MESSAGE_H
#define TICKBUS_BUS_SHM_PORTER_MESSAGE_H

#include <stdint.h>

#include "bus/shm/shm_frame.h"

#define PORTER_PROGRAM "tickbus-porter"
#define PORTER_TAKE    "take" /* serves a subscriber's connection */
#define PORTER_PAIR    0      /* descriptors of the program: the pair, */
#define PORTER_SOCKET  1      /* and the connection */

enum porter_what {
	PORTER_STARTED = 1, /* from the process between; number: of the porter's process */
	PORTER_FAILED,      /* it could not be started; number: errno */
	PORTER_WANT,        /* to the porter: take at most `number` frames */
	PORTER_FRAME,       /* body: a frame that came with a memfd. Carries the memfd */
	PORTER_DONE,        /* the frame that waits now, if any, has no descriptor */
	PORTER_VERDICT,     /* body: why the connection cannot go on; number: errno. Then it ends */
};

struct porter_message {
	uint32_t what;
	uint32_t number;
	uint8_t body[sizeof(struct shm_frame)];
};
#define PORTER_HEADER_BYTES offsetof(struct porter_message, body)

#endif
