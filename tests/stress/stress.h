/* SPDX-License-Identifier: Apache-2.0 */
/* A writer at full speed and readers of several manners, each on its own thread. All records are
 * compared with the truth. Linked with files built for steps (steps.h), the threads are also
 * stalled on purpose, anywhere inside a copy or a store. */
#ifndef TICKBUS_TESTS_STRESS_H
#define TICKBUS_TESTS_STRESS_H

#include <pthread.h>

#include "tests/stress/tally.h"

enum manner {
	STEADY,   /* polls without pause */
	LAGGING,  /* lets itself be lapped */
	SLEEPING, /* waits to be woken */
	VALUES,   /* reads the last-value cache */
	READERS,
	WRITER = READERS
};

/* The writer goes on until this much has happened while records were written. */
#define FRESH_MIN     100 /* last values read, each newer than the last */
#define DELIVERED_MIN 500 /* records delivered to each other reader */
#define REFUSED_MIN                                                                                \
	10 /* copies refused, by all readers; not required of strict readers by READ               \
	    */

struct variant {
	const char *name;
	const char *scheme;
	uint32_t payload_max, slots, flags;
	uint32_t share;     /* of all records, in thousandths */
	uint32_t subscribe; /* flags of the subscriptions */
};

struct party {
	struct stress *stress;
	enum manner manner;
	pthread_t thread;
	uint64_t random;
	struct tally tally;
	uint64_t values; /* accepted copies of last values */
	uint64_t fresh;  /* those newer than the value before, while records were written */
	uint64_t stalls;
	_Alignas(64) _Atomic uint64_t looks; /* polls */
	_Atomic uint64_t refused;            /* copies: torn, stale or being written */
	_Atomic uint64_t next;               /* of its tally */
	_Atomic uint64_t awaits;             /* the sequence it waits for; 0: does not wait */
	_Atomic bool content;                /* received enough while records were written */
};

struct stress {
	const struct variant *variant;
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	struct truth truth;
	const char *address;
	uint64_t records, until_ms; /* the bound that is reached first; 0: no bound */
	_Alignas(64) _Atomic uint64_t written;
	_Alignas(64) _Atomic bool over;     /* the writer has finished */
	_Atomic uint32_t waiting, finished; /* readers */
	_Atomic uint32_t content;           /* readers that have enough or gave up */
	_Atomic bool late; /* records are written for those readers that lack some */
	pthread_barrier_t joined;
	struct party party[READERS + 1];
};

extern _Thread_local struct party *stress_me;

uint64_t stress_draw(struct party *);
uint64_t stress_now_ms(void);

/* Waits until record n is written, or the writer has finished. */
void stress_await(struct party *, uint64_t n);

/* stress_reader.c: a reader's thread. */
void *stress_read(void *party);

/* stress_stall.c: begins and ends random stalls of the calling thread. */
void stress_stall(struct party *);
void stress_stall_no_more(void);

#endif
