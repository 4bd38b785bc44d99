/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher, its control thread's turns, subscribers and faults, in one thread, in virtual time.
 */
#ifndef TICKBUS_TESTS_SIMULATION_WORLD_H
#define TICKBUS_TESTS_SIMULATION_WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publisher/state.h"
#include "tests/simulation/picks.h"
#include "tests/simulation/model.h"
#include "tests/simulation/order.h"
#include "tests/simulation/truth.h"
#include "tests/stress/steps.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define MS          UINT64_C(1000000)
#define STALE_MS    200
#define SUBSCRIBERS 4
#define TOPICS      4

struct sim_topic {
	char name[16];
	uint32_t slots, payload, flags;
	struct tb_topic *topic; /* NULL: it does not exist now */
	struct truth_epoch *epoch;
	bool grouped; /* in the publisher's group */
	bool hidden;  /* from subscribers without a ticket */
	bool open;    /* a message is open */
};

struct sim_subscriber {
	struct tb_subscriber *subscriber; /* NULL: the place is free */
	struct tb_subscription *subscription;
	unsigned int number;
	struct model models[TOPICS];
	unsigned int model_count;
	char pattern[16];
	struct order order; /* of a merge */
	struct picks picks; /* of a subscription with names */
	bool merges, chooses, ticket, conflates;
	bool polled; /* a poll of it is on the stack */
};

extern struct world {
	bool view, trace;
	uint64_t now_ns;
	int64_t realtime_ns; /* by how much the wall clock differs from now_ns */
	uint64_t draws;      /* of the step */
	uint64_t random;     /* of the library */
	struct tb_publisher *publisher;
	struct sim_topic topics[TOPICS];
	unsigned int topic_count;
	bool realms; /* subscribers without a ticket see a part of the topics */
	bool grouped;
	struct tb_group *group; /* NULL: there is no publisher, or it has no group */
	uint64_t stamp;         /* of the group's last message */
	bool message;           /* it is open */
	bool together;          /* more records of it follow */
	struct sim_subscriber subscribers[SUBSCRIBERS];
	unsigned int subscriptions; /* so far */
	struct tb_schema *schemas[TOPICS];
	bool writing;  /* a write is on the stack */
	bool locked;   /* by a call that holds the publisher's lock: no turn may be taken */
	bool may_kill; /* inside the write */
	jmp_buf killed;
	void (*inside)(void); /* at the step of a write or a look that is due */
	struct sim_topic *rewritten;
	uint32_t rewritten_instrument;
	unsigned int rewrites;
	struct sim_subscriber *focus; /* is chosen more often than others; NULL: all alike */
} world;

/* A world for a history: its seed decides the fabric and the topics. */
void world_begin(uint64_t seed, bool trace);
void world_end(void);

/* Draws of the present step. */
size_t world_draw(size_t bound);
bool world_one_in(size_t n);
/* A line of the trace. */
void world_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The wall clock. */
uint64_t world_realtime_ns(void);
/* Something is wrong, in no topic of a subscriber. */
void world_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A turn of the control thread. */
void world_turn(void);
/* Time passes, and the control thread takes its turns. */
void world_pass(uint64_t ms);
/* A millisecond passes: while a call of the library waits. */
void world_meanwhile(void);

#endif
