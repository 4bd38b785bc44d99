/* SPDX-License-Identifier: Apache-2.0 */
/* Notices with faults: lost, doubled, late, or behind the next. A bounded queue holds those that
 * wait. If it is full, a notice arrives as it came. */
#ifndef TICKBUS_BUS_FAULT_NOTICES_H
#define TICKBUS_BUS_FAULT_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"
#include "bus/fabric.h"

#define FAULT_NOTICES 64

struct fault_link;

struct fault_notice {
	size_t length; /* 0: a free place */
	uint64_t due_ns;
	bool behind; /* the next notice passes it */
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
};

struct fault_notices {
	struct fault_notice *held; /* FAULT_NOTICES places; NULL: nothing is received */
	unsigned int count;
};

int fault_receive(struct link *, const struct fabric_notices *);
void fault_receive_end(struct link *, const struct fabric_notices *);
size_t fault_datagram(struct link *, void *datagram, size_t room);

#endif
