/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with faults over "memory:PLACE", a fabric in this process: its publisher is the
 * test. The test says what the regions hold, what arrives and how late it is. */
#ifndef TICKBUS_TESTS_UNIT_BUS_FAULT_SCENE_H
#define TICKBUS_TESTS_UNIT_BUS_FAULT_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"
#include "bus/fault/fault.h"

#define REGION_BYTES 4096
#define PAGE_KEY     1 /* of the region that comes with the welcome */
#define RING_KEY     2
#define MS           UINT64_C(1000000)
#define ARRIVALS_MAX 256

/* The publisher's side. */
struct host {
	uint8_t page[REGION_BYTES], ring[REGION_BYTES];
	enum link_state state;
	bool challenges, gone;
	/* Messages and datagrams that the link below has not given yet: the first bytes of each. */
	uint32_t messages[ARRIVALS_MAX], datagrams[ARRIVALS_MAX];
	unsigned int message_count, datagram_count;
	uint32_t sent[ARRIVALS_MAX]; /* what the subscriber sent */
	unsigned int sent_count;
	bool busy; /* it takes no messages */
	unsigned int connects, polls, breaks, reads;
	char connected_to[64];
};
extern struct host host;

/* The subscriber's side. */
struct guest {
	struct link *link;
	struct remote *page, *ring;
	uint8_t *landing;
	unsigned int challenges, welcomes, gones;
	uint32_t messages[ARRIVALS_MAX];
	unsigned int message_count;
	int code;
};
extern struct guest guest;

extern uint64_t now_ns; /* the clock of all calls */

void scene_enter(void);
void scene_leave(void);

/* Connects with these faults, "seed=1,tear=0.5". With faults of messages it may be lost already. */
void guest_connect(const char *faults);
/* Connects until a connection is up, and opens what it reads. */
void guest_enter(const char *faults);
void guest_leave(void);

int guest_read(struct remote *, uint64_t offset, uint32_t bytes, uint64_t tag);
/* Collects one completion: its status, or 1 if there is none. */
int guest_reap(uint64_t *tag);
/* Passes time until the next completion: its status. */
int guest_await(uint64_t *tag);
/* The next datagram's number, or -1. */
int guest_datagram(void);

#endif
