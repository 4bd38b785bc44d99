/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with faults, and what its files share: each handles the part of the link that is
 * named after it. */
#ifndef TICKBUS_BUS_FAULT_LINK_H
#define TICKBUS_BUS_FAULT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"
#include "bus/fault/fault_chance.h"
#include "bus/fault/fault_notices.h"
#include "bus/fault/fault_reads.h"

/* A message that waits for the end of a stall. */
struct fault_message {
	size_t bytes;
	uint8_t text[FABRIC_MESSAGE_BYTES];
};

struct fault_link {
	struct link base;
	const struct fabric_ops *ops; /* of the fabric below, */
	struct link *below;           /* and the link there */
	struct link_calls calls;
	void *user;
	struct fault_chance chance;
	uint64_t stalled_ns; /* nothing comes or goes until then */
	uint64_t frozen_ns;  /* the welcome's region shows its old content until then */
	bool lost;           /* by a fault, or gone below */
	bool reported;       /* gone was called */
	bool broken;         /* by the owner */
	bool polling;
	bool closed;    /* by a callback; freed when the poll is over */
	bool welcoming; /* the owner's welcome is running */
	struct fault_message held[FABRIC_UNANSWERED];
	unsigned int held_count;
	struct fault_reads reads;
	struct fault_notices notices;
};

int fault_connect(struct link **, const char *address, const void *hello, size_t bytes,
		  const struct link_calls *, void *user);
enum link_state fault_link_state(const struct link *);
int fault_link_fd(const struct link *);
int fault_link_user(const struct link *, uid_t *user);
int fault_link_poll(struct link *);
int fault_link_send(struct link *, const void *message, size_t bytes);
void fault_link_left(struct link *);
void fault_link_break(struct link *);
void fault_link_settle(struct link *);
void fault_link_close(struct link *);
int fault_sleep(struct link *);

#endif
